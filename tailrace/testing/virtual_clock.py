"""A clock that a test turns.

`advance` moves it and runs every timer that comes due, in the order of their deadlines, each at its own moment: what a
timer sets runs too, if it falls into the same span. `advance_async` also lets the event loop run between timers, so
that tasks which sleep on the clock go on. Nothing here waits for real time.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

EPOCH_MS = 1_700_000_000_000
"""Where virtual time begins unless told otherwise: a moment of November 2023."""

LOOP_TURNS = 5
"""How many turns the loop gets after each timer; a chain of that many awaits follows at once."""


class VirtualTimer:
    """A callback and the virtual moment it waits for."""

    __slots__ = ("callback", "deadline_ms", "is_cancelled")

    def __init__(self, deadline_ms: float, callback: Callable[[], object]) -> None:
        self.deadline_ms = deadline_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """Forget the callback; no effect once it ran."""
        self.is_cancelled = True


class VirtualClock:
    """Implements `tailrace.clock.Clock` without the machine's time."""

    def __init__(self, start_ms: int = EPOCH_MS) -> None:
        self._start_ms = start_ms
        self._elapsed_ms = 0.0
        self._sequence = count()
        self._timers: list[tuple[float, int, VirtualTimer]] = []

    def time_ms(self) -> int:
        """Give milliseconds since the epoch."""
        return self._start_ms + int(self._elapsed_ms)

    def monotonic(self) -> float:
        """Give seconds since the clock was made."""
        return self._elapsed_ms / 1000

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> VirtualTimer:
        """Run `callback` when the clock was turned by `delay_ms`."""
        # Rounded to microseconds: a delay that was computed from seconds must not miss its millisecond by 1e-12.
        timer = VirtualTimer(round(self._elapsed_ms + max(0.0, delay_ms), 3), callback)
        heapq.heappush(self._timers, (timer.deadline_ms, next(self._sequence), timer))
        return timer

    async def sleep(self, delay_ms: float) -> None:
        """Wait until the clock was turned by `delay_ms`."""
        if delay_ms <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay_ms, lambda: None if woken.done() else woken.set_result(None))
        try:
            await woken
        finally:
            timer.cancel()

    @property
    def timer_count(self) -> int:
        """How many timers wait."""
        return sum(not timer.is_cancelled for _, _, timer in self._timers)

    def advance(self, duration_ms: float) -> int:
        """Turn the clock and run what comes due; give how many timers ran."""
        target = self._elapsed_ms + duration_ms
        ran = 0
        while (timer := self._pop_due(target)) is not None:
            timer.callback()
            ran += 1
        self._elapsed_ms = target
        return ran

    async def advance_async(self, duration_ms: float) -> int:
        """Turn the clock as `advance` does, and let tasks run before, between and after the timers."""
        target = self._elapsed_ms + duration_ms
        ran = 0
        await _let_tasks_run()
        while (timer := self._pop_due(target)) is not None:
            timer.callback()
            ran += 1
            await _let_tasks_run()
        self._elapsed_ms = target
        await _let_tasks_run()
        return ran

    def _pop_due(self, target_ms: float) -> VirtualTimer | None:
        while self._timers and self._timers[0][0] <= target_ms:
            timer = heapq.heappop(self._timers)[2]
            if not timer.is_cancelled:
                self._elapsed_ms = max(self._elapsed_ms, timer.deadline_ms)
                return timer
        return None


async def _let_tasks_run() -> None:
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)
