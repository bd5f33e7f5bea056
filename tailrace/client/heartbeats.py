"""Says to a coordinator now and then that a member lives, and notices when its consumer does not poll any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tailrace.clock import Clock


class Heartbeats:
    """A task that beats until it is stopped. `beat` gives the milliseconds until the next one is due."""

    def __init__(self, clock: Clock, beat: Callable[[], Awaitable[float]]) -> None:
        self._clock = clock
        self._beat = beat
        self._task: asyncio.Task[None] | None = None
        self._is_hurried = False
        self._pause: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Beat from now on; no effect where that is so already."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def hurry(self) -> None:
        """Beat now, without waiting for the next time."""
        self._is_hurried = True
        self._end_pause()

    @property
    def failure(self) -> BaseException | None:
        """What ended the task, where anything did."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception()

    async def stop(self) -> None:
        """Beat no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            self._is_hurried = False
            delay_ms = await self._beat()
            if self._is_hurried:
                continue
            pause = self._pause = asyncio.get_running_loop().create_future()
            timer = self._clock.call_later(delay_ms, self._end_pause)
            try:
                await pause
            finally:
                timer.cancel()
                self._pause = None

    def _end_pause(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)
