"""Holding a cleaner back: `log.cleaner.io.max.bytes.per.second`, and stopping it.

Bytes read and bytes written count alike, as in Kafka. The rest comes as a wait on the event that also ends the work,
so a throttled cleaner does not keep a broker from stopping.
"""

from __future__ import annotations

from threading import Event

from tailrace.clock import Clock

_PIECE_BYTES = 64 * 1024
"""How many bytes go by between two looks at the clock."""
_WAIT_S_MAX = 1.0
_WAIT_S_MIN = 0.001


class CleaningStopped(Exception):
    """The cleaning was given up because nobody wants its result any more."""


class CleanerPace:
    """The pace of one cleaner."""

    def __init__(self, clock: Clock, bytes_per_second: float, stopping: Event | None = None) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._stopping = stopping or Event()
        self._started = clock.monotonic()
        self._moved = 0
        self._looked_at = 0
        self.throttled_s = 0.0

    def moved(self, bytes_count: int) -> None:
        """Count bytes read or written and rest where they were too many; raise `CleaningStopped` where it is over."""
        self._moved += bytes_count
        if self._moved - self._looked_at < _PIECE_BYTES:
            return
        self._looked_at = self._moved
        if self._stopping.is_set():
            raise CleaningStopped
        due = self._started + self._moved / self._bytes_per_second
        while (early := due - self._clock.monotonic()) > _WAIT_S_MIN:
            wait = min(early, _WAIT_S_MAX)
            self.throttled_s += wait
            if self._stopping.wait(wait):
                raise CleaningStopped
