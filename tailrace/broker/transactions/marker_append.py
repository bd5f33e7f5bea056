"""Markers on their way into the partitions of this broker: appended at once, done when every in-sync replica has them.

One `MarkerAppend` may hold the markers of many partitions and producers. It calls back once, with the outcome of each:
NONE, or why that partition has no marker that counts. Offsets that a transaction commits are kept by the group
coordinator, so the markers of its partitions are appended by it (`OffsetPartitions`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol, TypeAlias

from tailrace.broker.coordinator_log import OnDone, TransactionalProducer
from tailrace.broker.partition import ACKS_ALL, Partition
from tailrace.broker.purgatory import DelayedOperation
from tailrace.broker.replica_manager import ReplicaManager
from tailrace.broker.topic_names import GROUP_OFFSETS_TOPIC
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.control import ControlType, EndTxnMarker, write_end_txn_marker
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.storage.append_origin import AppendOrigin


class Marker(NamedTuple):
    """The end of one producer's transaction, as its coordinator decided."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int


class OffsetPartitions(Protocol):
    """The group coordinator, as far as transactions know it."""

    def complete_transaction(
        self, number: int, *, marker: EndTxnMarker, producer: TransactionalProducer, on_done: OnDone
    ) -> None:
        """Append a marker to a partition of the offsets topic; its pending offsets count or are forgotten."""
        ...


Place: TypeAlias = tuple[Hashable, TopicPartition]
"""Whose marker, by whatever the caller tells them apart, and where."""
OnMarkers: TypeAlias = Callable[[dict[Place, ErrorCode]], object]


class _Appended(NamedTuple):
    place: Place
    partition: Partition
    required_offset: int


class MarkerAppend(DelayedOperation):
    """See the module's docstring. Call `add` for each marker and partition, then `run`."""

    __slots__ = ("_moved", "_offsets", "_on_done", "_outcomes", "_pending", "_replicas", "_unanswered")

    def __init__(
        self,
        replica_manager: ReplicaManager,
        offsets: OffsetPartitions,
        *,
        timeout_ms: float,
        on_done: OnMarkers,
    ) -> None:
        super().__init__(timeout_ms)
        self._replicas = replica_manager
        self._offsets = offsets
        self._on_done = on_done
        self._outcomes: dict[Place, ErrorCode] = {}
        self._pending: list[_Appended] = []
        self._moved: list[tuple[Partition, bool]] = []
        self._unanswered = 1
        """Calls of the group coordinator that are not back, and `run`."""

    def add(self, key: Hashable, marker: Marker, topic_partition: TopicPartition) -> None:
        """Append one marker."""
        place = (key, topic_partition)
        if topic_partition.topic == GROUP_OFFSETS_TOPIC:
            self._add_to_offsets(place, marker, topic_partition.partition)
            return
        try:
            partition = self._replicas.partition(*topic_partition)
            batch = write_end_txn_marker(
                _end_of(marker),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                timestamp=self._replicas.clock.time_ms(),
            )
            result = partition.append_as_leader(batch, acks=ACKS_ALL, origin=AppendOrigin.COORDINATOR)
        except ApiError as error:
            self._outcomes[place] = error.code
            return
        self._pending.append(_Appended(place, partition, result.last_offset + 1))
        self._moved.append((partition, result.high_watermark_moved))

    def _add_to_offsets(self, place: Place, marker: Marker, number: int) -> None:
        self._unanswered += 1

        def on_done(code: ErrorCode) -> None:
            self._outcomes[place] = code
            self._unanswered -= 1
            self._replicas.produce_purgatory.check_and_complete(self)

        producer = TransactionalProducer(marker.producer_id, marker.producer_epoch)
        self._offsets.complete_transaction(number, marker=_end_of(marker), producer=producer, on_done=on_done)

    def run(self) -> None:
        """Wait for the replicas, and tell those who wait for the partitions."""
        self._unanswered -= 1
        keys = [self, *(entry.partition for entry in self._pending)]
        self._replicas.produce_purgatory.try_complete_else_watch(self, keys)
        for partition, moved in self._moved:
            self._replicas.appended(partition, high_watermark_moved=moved)

    def try_complete(self) -> bool:
        """Complete when every marker is acknowledged or has failed."""
        undecided: list[_Appended] = []
        for entry in self._pending:
            code = entry.partition.acknowledgement(entry.required_offset, ACKS_ALL)
            if code is None:
                undecided.append(entry)
            else:
                self._outcomes[entry.place] = code
        self._pending = undecided
        return False if undecided or self._unanswered else self.force_complete()

    def on_complete(self) -> None:
        """Report; what is undecided now has timed out."""
        for entry in self._pending:
            self._outcomes[entry.place] = ErrorCode.REQUEST_TIMED_OUT
        self._on_done(self._outcomes)


def _end_of(marker: Marker) -> EndTxnMarker:
    control_type = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    return EndTxnMarker(control_type, marker.coordinator_epoch)
