"""Time, passed in.

Nothing else in the package asks the `time` module or sets a timer on the loop: a test can then turn the clock by seven
days, and a simulation can replay a seed. `SystemClock` is the real one; `tailrace.testing.virtual_clock` has the other.
"""

from __future__ import annotations

import asyncio
import os
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

    monotonic = staticmethod(time.monotonic)
    """Give seconds of the monotonic clock; the function itself, because each request asks several times."""

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> TimerHandle:
        """Set a timer on the running event loop."""
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)

    async def sleep(self, delay_ms: float) -> None:
        """Suspend the running task."""
        await asyncio.sleep(delay_ms / 1000)


def seconds_since_process_start() -> float:
    """Give this process's age, as far as the system tells it (Linux); else 0.

    For saying how long a start took: the interpreter's own start and the imports are part of what a user waits for.
    """
    try:
        with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123 - importing pathlib here costs what it measures
            # The 22nd field; the second one, the program's name, is in brackets and may hold spaces.
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
    except (OSError, AttributeError, ValueError):
        return 0.0
