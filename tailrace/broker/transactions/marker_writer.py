"""Tells every partition of a decided transaction how it ended, however long that takes.

What fails is tried again: a partition whose disk is gone, or whose in-sync replicas are too few, holds its transaction
in PREPARE_* until it is back, because an answer that was given must come true. A partition whose topic was deleted is
left out. One that knows a later epoch of the producer is left out too: somebody ended the transaction there by hand.

A marker that is written twice ends nothing the second time. Partitions are those that this broker leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from tailrace.broker.replica_manager import ReplicaManager
from tailrace.broker.transactions.marker_append import Marker, MarkerAppend, OffsetPartitions, Place
from tailrace.clock import TimerHandle
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition

LOGGER = logging.getLogger(__name__)

RETRY_BACKOFF_MS = 100
"""How long after a failure the partitions that failed are tried again."""
TIMEOUT_MS = float(2**31)
"""A marker that is in the log is waited for; writing it again would not make the replicas any faster."""


class MarkerWriter:
    """See the module's docstring."""

    def __init__(self, replica_manager: ReplicaManager, offsets: OffsetPartitions) -> None:
        self._replicas = replica_manager
        self._offsets = offsets
        self._retries: set[_Retry] = set()
        self._is_stopped = False

    def write(self, marker: Marker, partitions: Iterable[TopicPartition], on_done: Callable[[], object]) -> None:
        """Write a marker to each of the partitions, and call `on_done` when all have it."""
        metadata = self._replicas.metadata
        there = [name for name in partitions if metadata.partition(*name) is not None]
        if not there:
            on_done()
            return

        def judge(outcomes: dict[Place, ErrorCode]) -> None:
            failed = [place[1] for place, code in outcomes.items() if self._has_failed(marker, place[1], code)]
            if not failed:
                on_done()
            elif not self._is_stopped:
                _Retry(self._retries, self._replicas, lambda: self.write(marker, failed, on_done))

        append = MarkerAppend(self._replicas, self._offsets, timeout_ms=TIMEOUT_MS, on_done=judge)
        for name in there:
            append.add(None, marker, name)
        append.run()

    def stop(self) -> None:
        """Try nothing again; who starts next does."""
        self._is_stopped = True
        for retry in list(self._retries):
            retry.cancel()

    def _has_failed(self, marker: Marker, partition: TopicPartition, code: ErrorCode) -> bool:
        if code is ErrorCode.NONE:
            return False
        if code is ErrorCode.INVALID_PRODUCER_EPOCH:
            LOGGER.warning("%s has a later epoch than %s: the transaction was ended there already", partition, marker)
            return False
        LOGGER.warning("%s could not be written to %s (%s) and is tried again", marker, partition, code.name)
        return True


class _Retry:
    """A timer that knows where it is kept."""

    __slots__ = ("_action", "_kept_in", "_timer")

    def __init__(self, kept_in: set[_Retry], replica_manager: ReplicaManager, action: Callable[[], object]) -> None:
        self._kept_in = kept_in
        self._action = action
        self._timer: TimerHandle = replica_manager.clock.call_later(RETRY_BACKOFF_MS, self._run)
        kept_in.add(self)

    def _run(self) -> None:
        self._kept_in.discard(self)
        self._action()

    def cancel(self) -> None:
        """Forget the action."""
        self._kept_in.discard(self)
        self._timer.cancel()
