"""A signal that one task waits for and anybody gives: something happened, look again."""

from __future__ import annotations

import asyncio

from tailrace.clock import Clock


class Signal:
    """Given from callbacks and tasks of the same loop. A signal that nobody waits for is kept for the next wait."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_given = False
        self._waiter: asyncio.Future[None] | None = None

    def give(self) -> None:
        """Wake who waits, or who will."""
        self._is_given = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, timeout_ms: float) -> None:
        """Wait for a signal, at most so long."""
        if not self._is_given and timeout_ms > 0:
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            timer = self._clock.call_later(timeout_ms, lambda: None if waiter.done() else waiter.set_result(None))
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._is_given = False
