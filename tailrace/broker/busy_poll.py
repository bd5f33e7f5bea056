"""Staying awake for a moment after an answer, for a peer that asks again as soon as it has it.

A thread that sleeps has to be woken, and then finds the processor's caches cold: for a client that sends one request at
a time that is a third of what it waits for. So the loop does not sleep for a moment after such a client was answered.
Which client that is, its connection has learnt: each of its last requests came soon after the answer to the one before,
and not so soon that it can't have seen it. A client that pipelines, or thinks, is not waited for, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tailrace.clock import Clock

ANSWER_UNSEEN_S: Final = 0.00002
"""A request that comes sooner than this after an answer was sent without having seen it."""
EXPECTED_COUNT: Final = 8
"""After so many requests in turn that came soon, the next one is expected to."""


class BusyPoll:
    """Keeps an event loop awake; one for each loop. `wait_max_s` is how long for one request; with 0 it never does."""

    __slots__ = ("_call_soon", "_is_awake", "_monotonic", "_until", "wait_max_s")

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], object], wait_max_s: float) -> None:
        self._monotonic = clock.monotonic
        self._call_soon = call_soon
        self._is_awake = False
        self._until = 0.0
        self.wait_max_s = wait_max_s

    def expect(self, now: float) -> None:
        """Stay awake for a request that comes soon after `now`, or does not."""
        self._until = now + self.wait_max_s
        if not self._is_awake:
            self._is_awake = True
            self._call_soon(self._look)

    def _look(self) -> None:
        """Have the loop look for input without waiting, by having something to do."""
        if self._monotonic() < self._until:
            self._call_soon(self._look)
        else:
            self._is_awake = False


class Habit:
    """Learns of one peer whether it asks again as soon as it was answered."""

    __slots__ = ("_answered_at", "_busy_poll", "_soon_count")

    def __init__(self, busy_poll: BusyPoll) -> None:
        self._busy_poll = busy_poll
        self._answered_at = 0.0
        self._soon_count = 0

    def answered(self, asked_at: float, now: float) -> None:
        """Take notice that a request, which came at `asked_at`, is answered and nothing else of the peer is left."""
        busy_poll = self._busy_poll
        if ANSWER_UNSEEN_S < asked_at - self._answered_at < busy_poll.wait_max_s:
            self._soon_count += 1
            if self._soon_count >= EXPECTED_COUNT:
                busy_poll.expect(now)
        else:
            self._soon_count = 0
        self._answered_at = now

    def is_left_waiting(self) -> None:
        """Take notice that the peer waits for an answer, or that its request is not there whole."""
        self._answered_at = 0.0
