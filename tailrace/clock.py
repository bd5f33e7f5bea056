"""Time, passed in.

Nothing else in the package asks the `time` module or sets a timer on the loop: a test can then turn the clock by seven
days, and a simulation can replay a seed. `SystemClock` is the real one; `tailrace.testing.virtual_clock` has the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Forget the callback; no effect once it ran."""
        ...


class Clock(Protocol):
    """What the broker, the log and the client know of time."""

    def time_ms(self) -> int:
        """Milliseconds since the epoch: for timestamps that are written down."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never runs backwards: for durations and deadlines."""
        ...

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> TimerHandle:
        """Run `callback` on the event loop in `delay_ms` milliseconds."""
        ...

    async def sleep(self, delay_ms: float) -> None:
        """Wait for `delay_ms` milliseconds."""
        ...


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def time_ms(self) -> int:
        """Give the wall clock's milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Give seconds of the monotonic clock."""
        return time.monotonic()

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> TimerHandle:
        """Set a timer on the running event loop."""
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: float) -> None:
        """Suspend the running task."""
        await asyncio.sleep(delay_ms / 1000)
