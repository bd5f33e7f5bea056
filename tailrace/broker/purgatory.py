"""Operations that cannot be answered yet: tried, else watched by key, expired by a timer, completed once.

A `DelayedOperation` is tried at once; if its condition does not hold it is watched under its keys, and tried again when
somebody calls `check_and_complete(key)`. It completes exactly once: by its condition, by its timeout, or by force.

Completion takes an operation out of every watch list, so the lists never hold what is done and need no purge; only the
timer heap keeps the empty entries of done operations until their time, and is rebuilt when they are the greater part.
One clock timer serves a whole purgatory. All of it runs on the event loop: between two awaits nothing else moves, hence
no locks.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Hashable, Iterable
from itertools import count

from tailrace.clock import Clock, TimerHandle

LOGGER = logging.getLogger(__name__)

HEAP_SIZE_MIN = 1000
"""Below this many timer entries it isn't worth rebuilding the heap (Kafka purges at 1000, too)."""

TIMER_SLACK = 0.0005
"""Seconds by which an operation may expire early: event loops round timers to milliseconds, and a timer that came half
a millisecond before its deadline would otherwise be set again for no time at all."""

_NO_KEYS: tuple[Hashable, ...] = ()


class DelayedOperation:
    """An operation that waits for a condition, at most `timeout_ms`.

    A subclass defines `try_complete`, `on_complete` and `on_expiration`, and `on_failure` where somebody waits for an
    answer. Deciding and answering are apart: `try_complete` looks and calls `force_complete`, `on_complete` answers.
    """

    __slots__ = ("_keys", "_purgatory", "is_completed", "timeout_ms", "timer_holder")

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self.is_completed = False
        self._purgatory: DelayedOperationPurgatory | None = None
        self._keys = _NO_KEYS
        self.timer_holder: list[DelayedOperation] = []
        """What the timer knows it by; emptied when it is done, so that nothing of it is kept until its time."""

    def try_complete(self) -> bool:
        """Complete by `return self.force_complete()` if the condition holds, else return False."""
        return self.force_complete()

    def on_complete(self) -> None:
        """Do what is due now, for whichever reason it completed; called exactly once."""

    def on_expiration(self) -> None:
        """Note that the time ran out; called after `on_complete`."""

    def on_failure(self, error: Exception) -> None:
        """Answer that the operation broke while it was tried or completed; the purgatory has logged it."""

    def force_complete(self) -> bool:
        """Complete if that has not happened; True for the one call that did it."""
        if self.is_completed:
            return False
        self.is_completed = True
        if self._purgatory is not None:
            self._purgatory.forget(self)
        self.on_complete()
        return True

    @property
    def is_watched(self) -> bool:
        """Whether it waits in a purgatory."""
        return self._purgatory is not None

    def attach(self, purgatory: DelayedOperationPurgatory, keys: tuple[Hashable, ...]) -> None:
        """Remember where it waits; the purgatory's business."""
        self._purgatory = purgatory
        self._keys = keys

    def detach(self) -> tuple[Hashable, ...]:
        """Forget where it waits and give the keys it was watched under; the purgatory's business."""
        keys, self._keys, self._purgatory = self._keys, _NO_KEYS, None
        return keys


class DelayedOperationPurgatory:
    """Where delayed operations wait, by key and by deadline."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.failed_count = 0
        self.expired_count = 0
        self._clock = clock
        self.watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        """Who waits, by key; for looking only. Most keys have nobody, and `key in watchers` is cheaper than to ask."""
        self._watched_count = 0
        self._delayed_count = 0
        self._heap: list[tuple[float, int, list[DelayedOperation]]] = []
        """Deadlines, a number that tells equal ones apart, and a list with the operation, empty once it is done.

        An answered fetch would else stay in memory, request and all, until its time is over: at thousands a second
        each took 20 µs more, for memory that was never warm and a collector that had to look at it all.
        """
        self._sequence = count()
        self._timer: TimerHandle | None = None
        self._timer_deadline = 0.0

    @property
    def watched_count(self) -> int:
        """How many entries the watch lists hold: an operation counts once for each of its keys."""
        return self._watched_count

    @property
    def delayed_count(self) -> int:
        """How many operations wait."""
        return self._delayed_count

    @property
    def timer_entry_count(self) -> int:
        """How many entries the timer holds, done ones included."""
        return len(self._heap)

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Try the operation; if it does not complete, watch it under `keys` until it does or its time is over.

        Kafka tries a second time after watching, against a change between the two; on one event loop there is none.
        """
        if operation.is_completed or self._try(operation):
            return True
        self.watch(operation, keys)
        return False

    def watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> None:
        """Watch an operation that is known to have to wait, without a try."""
        unique = tuple(dict.fromkeys(keys))
        operation.attach(self, unique)
        watchers = self.watchers
        for key in unique:
            watched = watchers.get(key)
            if watched is None:
                watchers[key] = {operation: None}
            else:
                watched[operation] = None
        self._watched_count += len(unique)
        self._delayed_count += 1
        self._set_timer(operation)

    def check_and_complete(self, key: Hashable) -> int:
        """Try every operation watched under `key`; give how many completed."""
        watched = self.watchers.get(key)
        if watched is None:
            return 0
        completed = 0
        for operation in tuple(watched):
            if not operation.is_completed and self._try(operation):
                completed += 1
        return completed

    def expire_all(self) -> int:
        """Complete every waiting operation as if its time were over: the end of a broker. Give how many there were."""
        waiting = [operation for _, _, holder in sorted(self._heap) for operation in holder]
        for operation in waiting:
            self._expire(operation)
        self._stop_timer()
        self._heap.clear()
        return len(waiting)

    def forget(self, operation: DelayedOperation) -> None:
        """Take a completed operation off the watch lists; called by `force_complete`."""
        keys = operation.detach()
        operation.timer_holder.clear()
        watchers = self.watchers
        for key in keys:
            watched = watchers[key]
            del watched[operation]
            if not watched:
                del watchers[key]
        self._watched_count -= len(keys)
        self._delayed_count -= 1

    def _try(self, operation: DelayedOperation) -> bool:
        try:
            return operation.try_complete()
        except Exception as error:
            LOGGER.exception("%s purgatory: a delayed operation failed when it was tried", self.name)
            self._fail(operation, error)
            return True

    def _fail(self, operation: DelayedOperation, error: Exception) -> None:
        """Give up an operation that raised, without harm to whoever happened to try it."""
        self.failed_count += 1
        if not operation.is_completed:
            operation.is_completed = True
            if operation.is_watched:
                self.forget(operation)
        operation.on_failure(error)

    def _expire(self, operation: DelayedOperation) -> None:
        try:
            if operation.force_complete():
                self.expired_count += 1
                operation.on_expiration()
        except Exception as error:
            LOGGER.exception("%s purgatory: a delayed operation failed when it expired", self.name)
            self._fail(operation, error)

    def _set_timer(self, operation: DelayedOperation) -> None:
        deadline = self._clock.monotonic() + operation.timeout_ms / 1000
        holder = operation.timer_holder = [operation]
        heapq.heappush(self._heap, (deadline, next(self._sequence), holder))
        if len(self._heap) > HEAP_SIZE_MIN and len(self._heap) > 2 * self._delayed_count:
            self._heap = [entry for entry in self._heap if entry[2]]
            heapq.heapify(self._heap)
        if self._timer is None or deadline < self._timer_deadline:
            self._start_timer(deadline)

    def _start_timer(self, deadline: float) -> None:
        self._stop_timer()
        self._timer_deadline = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()) * 1000, self._on_timer)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        now = self._clock.monotonic() + TIMER_SLACK
        heap = self._heap
        due: list[DelayedOperation] = []
        while heap and (not heap[0][2] or heap[0][0] <= now):
            due += heapq.heappop(heap)[2]
        if heap:
            self._start_timer(heap[0][0])
        for operation in due:
            self._expire(operation)
