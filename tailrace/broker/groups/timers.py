"""Timers with names, for groups: many of them, set anew with every heartbeat and hardly ever run out.

Setting one that runs already only notes the later deadline; when the clock's timer comes too early it is set again. So
a heartbeat costs a dictionary entry, not a timer of the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tailrace.clock import Clock, TimerHandle

LOGGER = logging.getLogger(__name__)

SLACK = 0.0005
"""Seconds by which a timer may come early: event loops round to milliseconds."""


@dataclass(slots=True)
class _Timer:
    """`deadline` is when the name expires, `handle` fires at `fires_at`, which may be earlier."""

    deadline: float
    fires_at: float
    handle: TimerHandle


class Timers:
    """Calls `on_expired(name)` for each name whose time ran out."""

    def __init__(self, clock: Clock, on_expired: Callable[[str], None]) -> None:
        self._clock = clock
        self._on_expired = on_expired
        self._timers: dict[str, _Timer] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, name: str, delay_ms: float) -> None:
        """Let `name` expire in `delay_ms`, whatever was set before."""
        deadline = self._clock.monotonic() + delay_ms / 1000
        timer = self._timers.get(name)
        if timer is not None and timer.fires_at <= deadline:
            timer.deadline = deadline
            return
        if timer is not None:
            timer.handle.cancel()
        self._timers[name] = _Timer(deadline, deadline, self._start(name, delay_ms))

    def set_if_absent(self, name: str, delay_ms: float) -> None:
        """Let `name` expire in `delay_ms`, unless it is about to already."""
        if name not in self._timers:
            self.set(name, delay_ms)

    def cancel(self, name: str) -> None:
        """Forget `name`."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.handle.cancel()

    def cancel_all(self) -> None:
        """Forget all names."""
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()

    def _start(self, name: str, delay_ms: float) -> TimerHandle:
        return self._clock.call_later(delay_ms, lambda: self._fired(name))

    def _fired(self, name: str) -> None:
        timer = self._timers.get(name)
        if timer is None:
            return
        left = timer.deadline - self._clock.monotonic()
        if left > SLACK:
            timer.fires_at = timer.deadline
            timer.handle = self._start(name, left * 1000)
            return
        del self._timers[name]
        try:
            self._on_expired(name)
        except Exception:
            # Nobody is there to hear of it but the log; the group's other timers go on.
            LOGGER.exception("what was to happen when the timer %r ran out failed", name)
