"""One partition of an internal topic as the log of a coordinator: what it writes down, and reads when it starts.

    LOADING ──all read──► ACTIVE ──leadership lost, topic deleted, broker stops──► CLOSED
       └──a record can't be read──► FAILED ──────────────────────────────────────────┘

`append` writes records as one batch (acks=all) and says when they are committed: within the call where this broker is
the only in-sync replica, else when the high watermark has passed them. `load` replays the whole log into a shard, in
slices, so that other clients are served meanwhile. A shard is what a coordinator knows of this partition; the topic's
partitions, and who leads them, are `coordinator_topic.py`.

Promises: `on_commit` is called for exactly those records that are committed, in the order of the log, `on_done` exactly
once for each append. Everything runs on the event loop, and no callback is called while `append` still writes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from tailrace.broker.partition import ACKS_ALL, Partition
from tailrace.broker.purgatory import DelayedOperation
from tailrace.broker.replica_manager import ReplicaManager
from tailrace.clock import TimerHandle
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.coordinator.record_codec import (
    CoordinatorRecord,
    RecordTable,
    UnknownRecord,
    decode_record,
    encode_record,
)
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.batch_header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    BatchHeader,
    iterate_batch_headers,
)
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.control import ControlType, EndTxnMarker, read_end_txn_marker, write_end_txn_marker
from tailrace.protocol.records.reader import read_batch
from tailrace.protocol.records.writer import BatchBuilder, record_size_bound
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.log import AppendResult

LOGGER = logging.getLogger(__name__)

LOAD_SLICE_BYTES = 256 * 1024
LOAD_TURN_MS = 2.0
"""How long loading keeps the event loop before it lets others run."""
RECORDS_BETWEEN_LOOKS = 64
WATCH_FOREVER_MS = float(2**31)
FIRST_SEQUENCE = 0
"""What Kafka's coordinators write as the sequence of each batch, transactional or not; nobody checks it."""

OnDone: TypeAlias = Callable[[ErrorCode], object]
OnCommit: TypeAlias = Callable[[], object]
EncodedRecord: TypeAlias = tuple[bytes, bytes | None]
"""A key and its value, or its tombstone."""


class CoordinatorState(Enum):
    """See the module's docstring."""

    LOADING = "Loading"
    ACTIVE = "Active"
    FAILED = "Failed"
    CLOSED = "Closed"


class CoordinatorShard(Protocol):
    """What a coordinator knows of one partition."""

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        """Take up one record of the log; `producer_id` is not -1 where it belongs to a transaction."""
        ...

    def replay_marker(self, *, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Take up the end of a producer's transaction."""
        ...

    def activate(self) -> None:
        """Everything is loaded: requests come from now on, and timers may be set."""
        ...

    def resign(self) -> None:
        """The partition is coordinated here no longer: answer all who wait, forget everything."""
        ...


@dataclass(frozen=True, slots=True)
class TransactionalProducer:
    """Whose transaction an append belongs to."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class _Uncommitted:
    """An append that the high watermark has not passed yet; `on_done` is None once it was called."""

    required_offset: int
    deadline: float
    on_commit: OnCommit | None
    on_done: OnDone | None


class CoordinatorLog:
    """See the module's docstring. `partition.topic_partition` says which one it is."""

    def __init__(
        self,
        partition: Partition,
        *,
        table: RecordTable,
        replica_manager: ReplicaManager,
        compression: Compression = Compression.NONE,
        timeout_ms: float,
    ) -> None:
        self.partition = partition
        self.state = CoordinatorState.LOADING
        self.loaded_records = 0
        self._table = table
        self._manager = replica_manager
        self._clock = replica_manager.clock
        self._compression = compression
        self._timeout_ms = timeout_ms
        self._uncommitted: deque[_Uncommitted] = deque()
        self._watch: _Watch | None = None
        self._timer: TimerHandle | None = None

    @property
    def is_active(self) -> bool:
        """Whether requests are served."""
        return self.state is CoordinatorState.ACTIVE

    # Writing

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        on_done: OnDone,
        on_commit: OnCommit | None = None,
        producer: TransactionalProducer | None = None,
        is_atomic: bool = True,
        value_version: int | None = None,
    ) -> None:
        """Write records, and call `on_commit` and then `on_done` when they are committed.

        An error comes to `on_done` alone, as a client of a coordinator is told it. Where the replicas take longer than
        the coordinator's timeout, `on_done` hears of that and `on_commit` still comes when they have caught up.
        Records that must not be torn apart go into one batch, which the topic's max.message.bytes limits; others
        (`is_atomic=False`) into as many as it takes.
        """
        encoded = [encode_record(key, value, version=value_version) for key, value in records]
        self.append_encoded(encoded, on_done=on_done, on_commit=on_commit, producer=producer, is_atomic=is_atomic)

    def append_encoded(
        self,
        encoded: Sequence[EncodedRecord],
        *,
        on_done: OnDone,
        on_commit: OnCommit | None = None,
        producer: TransactionalProducer | None = None,
        is_atomic: bool = True,
    ) -> None:
        """Write records that are bytes already; otherwise as `append`."""
        self._append_batches(lambda: self._batches(encoded, producer, is_atomic=is_atomic), on_commit, on_done)

    def append_marker(
        self, marker: EndTxnMarker, producer: TransactionalProducer, *, on_done: OnDone, on_commit: OnCommit
    ) -> None:
        """Write the end of a producer's transaction; otherwise as `append`."""
        batch = write_end_txn_marker(
            marker,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp=self._clock.time_ms(),
        )
        self._append_batches(lambda: iter((batch,)), on_commit, on_done)

    def _append_batches(
        self, batches: Callable[[], Iterator[bytearray]], on_commit: OnCommit | None, on_done: OnDone
    ) -> None:
        if self.state is not CoordinatorState.ACTIVE:
            on_done(ErrorCode.NOT_COORDINATOR)
            return
        required_offset = 0
        moved = False
        try:
            for batch in batches():
                result = self._append(batch)
                required_offset = result.last_offset + 1
                moved = moved or result.high_watermark_moved
        except ApiError as error:
            LOGGER.warning("writing to %s failed: %s", self.partition.topic_partition, error)
            on_done(coordinator_error(error.code))
            return
        deadline = self._clock.monotonic() + self._timeout_ms / 1000
        self._uncommitted.append(_Uncommitted(required_offset, deadline, on_commit, on_done))
        self._manager.appended(self.partition, high_watermark_moved=moved)
        self._settle()

    def _append(self, batch: bytearray) -> AppendResult:
        log = self.partition.log
        records: Buffer = log.convert(batch) if log.needs_conversion(batch) else batch
        return self.partition.append_as_leader(records, acks=ACKS_ALL, origin=AppendOrigin.COORDINATOR)

    def _batches(
        self,
        encoded: Sequence[EncodedRecord],
        producer: TransactionalProducer | None,
        *,
        is_atomic: bool,
    ) -> Iterator[bytearray]:
        now_ms = self._clock.time_ms()
        size_max = self.partition.log.config.max_message_bytes
        builder = BatchBuilder(compression=self._compression)
        if is_atomic:
            builder.append_all(now_ms, encoded)
            yield self._finish(builder, producer)
            return
        for key, value in encoded:
            if builder.records_count and builder.size + record_size_bound(key, value) > size_max:
                yield self._finish(builder, producer)
                builder = BatchBuilder(compression=self._compression)
            builder.append(now_ms, key, value)
        yield self._finish(builder, producer)

    @staticmethod
    def _finish(builder: BatchBuilder, producer: TransactionalProducer | None) -> bytearray:
        return builder.finish(
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch,
            base_sequence=FIRST_SEQUENCE,
            is_transactional=producer is not None,
        )

    # Waiting for the high watermark

    @property
    def has_uncommitted(self) -> bool:
        """Whether something was written that is not committed yet."""
        return bool(self._uncommitted)

    def after_commits(self, on_done: OnDone) -> None:
        """Call `on_done` when everything written so far is committed; at once where it is."""
        if self.state is not CoordinatorState.ACTIVE:
            on_done(ErrorCode.NOT_COORDINATOR)
            return
        if not self._uncommitted:
            on_done(ErrorCode.NONE)
            return
        deadline = self._clock.monotonic() + self._timeout_ms / 1000
        self._uncommitted.append(_Uncommitted(self._uncommitted[-1].required_offset, deadline, None, on_done))

    def _settle(self) -> bool:
        """Tell those whose records are committed; True where nobody waits any more."""
        uncommitted = self._uncommitted
        code = self.partition.availability()
        if code and self.state is CoordinatorState.ACTIVE:
            self._fail_all(coordinator_error(code))
        high_watermark = self.partition.log.high_watermark
        while uncommitted and uncommitted[0].required_offset <= high_watermark:
            done = uncommitted.popleft()
            if done.on_commit is not None:
                done.on_commit()
            if done.on_done is not None:
                done.on_done(ErrorCode.NONE)
        if not uncommitted:
            return True
        if self._watch is None:
            self._watch = _Watch(self._settle, self._stopped)
            self._manager.produce_purgatory.try_complete_else_watch(self._watch, (self.partition,))
            self._set_timer()
        return False

    def _stopped(self) -> None:
        """The watch ended: everything is settled, or the broker stops."""
        self._watch = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fail_all(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _fail_all(self, code: ErrorCode) -> None:
        failed = list(self._uncommitted)
        self._uncommitted.clear()
        for entry in failed:
            if entry.on_done is not None:
                entry.on_done(code)

    def _set_timer(self) -> None:
        waiting = next((entry for entry in self._uncommitted if entry.on_done is not None), None)
        if waiting is None or self._timer is not None:
            return
        delay_ms = max(0.0, waiting.deadline - self._clock.monotonic()) * 1000
        self._timer = self._clock.call_later(delay_ms, self._answer_overdue)

    def _answer_overdue(self) -> None:
        """Say that the replicas take too long; the records are in the log, and count when they are committed."""
        self._timer = None
        now = self._clock.monotonic() + 0.0005
        overdue = [entry for entry in self._uncommitted if entry.on_done is not None and entry.deadline <= now]
        for entry in overdue:
            on_done, entry.on_done = entry.on_done, None
            if on_done is not None:
                on_done(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._set_timer()

    # Loading

    async def load(self, shard: CoordinatorShard) -> None:
        """Replay the log into `shard` and activate it; FAILED where a record can't be read."""
        started_at = self._clock.monotonic()
        try:
            await self._replay(shard)
        except (ApiError, MalformedFrame, ValueError):
            if self.state is CoordinatorState.LOADING:
                self.state = CoordinatorState.FAILED
                LOGGER.exception(
                    "%s can't be loaded; what it coordinates is not served", self.partition.topic_partition
                )
            return
        if self.state is not CoordinatorState.LOADING:
            return
        self.activate(shard)
        seconds = self._clock.monotonic() - started_at
        LOGGER.info("loaded %s: %d records in %.3f s", self.partition.topic_partition, self.loaded_records, seconds)

    def activate(self, shard: CoordinatorShard) -> None:
        """Serve from now on: everything is loaded, or there was nothing to load."""
        self.state = CoordinatorState.ACTIVE
        shard.activate()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to load."""
        log = self.partition.log
        return log.log_start_offset == log.log_end_offset

    def close(self) -> None:
        """Write and load no more; whoever waits is told to look for the coordinator elsewhere."""
        self.state = CoordinatorState.CLOSED
        self._fail_all(ErrorCode.NOT_COORDINATOR)
        if self._watch is not None:
            self._watch.force_complete()

    async def _replay(self, shard: CoordinatorShard) -> None:
        log = self.partition.log
        offset = log.log_start_offset
        turn_ends_at = self._clock.monotonic() + LOAD_TURN_MS / 1000
        while self.state is CoordinatorState.LOADING and offset < log.log_end_offset:
            view = log.read(
                offset, max_bytes=LOAD_SLICE_BYTES, upper_offset=log.log_end_offset, min_one_message=True
            ).records
            if not view:
                return  # compaction left nothing up to the end
            data = bytes(view)  # while others run, compaction may take the segment away
            for position, header in iterate_batch_headers(data, allow_partial_tail=True):
                for _ in self._replay_batch(shard, data, position, header):
                    if self._clock.monotonic() > turn_ends_at:
                        await self._clock.sleep(0)
                        if self.state is not CoordinatorState.LOADING:
                            return
                        turn_ends_at = self._clock.monotonic() + LOAD_TURN_MS / 1000
                offset = header.next_offset

    def _replay_batch(self, shard: CoordinatorShard, data: bytes, position: int, header: BatchHeader) -> Iterator[None]:
        """Replay one batch; yields now and then, so that whoever iterates can let others run."""
        records = read_batch(data, position, header)
        if header.is_control:
            marker = read_end_txn_marker(records[0]) if records else None
            if marker is not None:
                shard.replay_marker(
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    is_commit=marker.control_type is ControlType.COMMIT,
                )
            yield
            return
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for count, record in enumerate(records):
            if count % RECORDS_BETWEEN_LOOKS == 0:
                yield
            decoded = decode_record(self._table, record.key, record.value)
            if isinstance(decoded, UnknownRecord):
                LOGGER.warning(
                    "%s: the record at offset %d is of type %d, which is unknown here; it is passed over",
                    self.partition.topic_partition,
                    record.offset,
                    decoded.record_type,
                )
                continue
            shard.replay(decoded, offset=record.offset, producer_id=producer_id)
            self.loaded_records += 1


class _Watch(DelayedOperation):
    """Is tried whenever the partition's high watermark moves, until nobody waits for it."""

    __slots__ = ("_settle", "_stopped")

    def __init__(self, settle: Callable[[], bool], stopped: Callable[[], None]) -> None:
        super().__init__(WATCH_FOREVER_MS)
        self._settle = settle
        self._stopped = stopped

    def try_complete(self) -> bool:
        return self.force_complete() if self._settle() else False

    def on_complete(self) -> None:
        self._stopped()


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """Give what a coordinator's client is told where the log answered `code`: Kafka's table."""
    return _COORDINATOR_ERRORS.get(code, code)


_COORDINATOR_ERRORS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
