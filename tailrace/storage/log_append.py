"""Appending to a log, as leader and as follower, and rolling to a new segment.

The order is Kafka's, with one difference: what may refuse the batch (its own checks, size, producer state) comes before
anything changes. Promises: after an error the log is as before; when a method returns, the bytes are in the page cache
and survive the death of the process. Whether they survive a loss of power is the flusher's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.batch_header import LOG_APPEND_TIME_FLAG, BatchHeader, crc_matches, iterate_batch_headers
from tailrace.protocol.records.control import ControlType, read_control_batch
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.disk import DiskError
from tailrace.storage.log_validator import CLIENT, NO_TIMESTAMP, assign, check_records, read_leader_batch
from tailrace.storage.producer_state import (
    SEQUENCE_MAX,
    BatchMetadata,
    CompletedTransaction,
    ProducerAppendInfo,
    ProducerStateEntry,
)
from tailrace.storage.segment import RELATIVE_OFFSET_MAX, Segment
from tailrace.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from tailrace.storage.leader_epoch_cache import LeaderEpochCache
    from tailrace.storage.log import Log
    from tailrace.storage.producer_state_manager import ProducerStateManager

_CONTROL = 0x20
_TRANSACTIONAL_OR_CONTROL = 0x30


@dataclass(slots=True)
class AppendResult:
    """What became of an append."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    """-1 where records keep their producer's time."""
    log_start_offset: int
    record_count: int
    size_bytes: int
    is_duplicate: bool = False
    high_watermark_moved: bool = False
    """Said by the partition whose log this is: whether somebody may read or acknowledge more than before."""


class StorageGuard:
    """Turns a failure of the disk inside a `with` block into an offline log and KAFKA_STORAGE_ERROR."""

    __slots__ = ("_log",)

    def __init__(self, log: Log) -> None:
        self._log = log

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, DiskError):
            raise self._log.disk_failed(error) from error


def append_as_leader(
    log: Log, records: Buffer, *, leader_epoch: int, origin: AppendOrigin = AppendOrigin.CLIENT
) -> AppendResult:
    """Check a batch, give it offsets and the leader's epoch (written into `records`), and append it.

    Raises ApiError; `RecordsRejected` carries an error for each refused record. A repeated batch of an idempotent
    producer is not appended again: the result `is_duplicate` and has the offsets of the first time.
    """
    if log.failure is not None:
        log.check_online()
    config = log.config
    topic_partition = log.topic_partition
    header = read_leader_batch(records, topic_partition=topic_partition, config=config, origin=origin)
    now_ms = log.context.clock.time_ms()
    if origin is CLIENT and (
        # The usual topic asks nothing of records but that their time is not far ahead.
        log.checks_records
        or header.attributes & LOG_APPEND_TIME_FLAG
        or header.max_timestamp - now_ms > config.message_timestamp_after_max_ms
    ):
        check_records(records, header, topic_partition=topic_partition, config=config, now_ms=now_ms)
    log_append_time_ms = now_ms if config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
    assign(records, header, offset=log.log_end_offset, leader_epoch=leader_epoch, log_append_time_ms=log_append_time_ms)
    result = _append(log, records, [header], origin=origin, now_ms=now_ms)
    result.log_append_time_ms = log_append_time_ms
    return result


def append_as_follower(log: Log, records: Buffer) -> AppendResult:
    """Append what a leader sent. Batches already have their offsets; a gap before them is compaction's."""
    log.check_online()
    headers: list[BatchHeader] = []
    next_offset = log.log_end_offset
    try:
        for position, header in iterate_batch_headers(records, allow_partial_tail=True):
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                raise ApiError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"Unexpected offset in append to {log.topic_partition}: {header.base_offset} is less than "
                    f"the next offset {next_offset}",
                )
            if not crc_matches(records, position, header):
                raise ApiError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"the batch at offset {header.base_offset} for {log.topic_partition} fails its CRC",
                )
            headers.append(header)
            next_offset = header.next_offset
    except MalformedFrame as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{error} in records for {log.topic_partition}") from error
    return _append(log, records, headers, origin=AppendOrigin.REPLICATION, now_ms=log.context.clock.time_ms())


def _append(
    log: Log, records: Buffer, headers: list[BatchHeader], *, origin: AppendOrigin, now_ms: int
) -> AppendResult:
    """Append batches whose offsets are right."""
    if not headers:
        end = log.log_end_offset
        return AppendResult(end, end - 1, NO_TIMESTAMP, NO_TIMESTAMP, log.log_start_offset, 0, 0)
    first, last = headers[0], headers[-1]
    last_offset = last.base_offset + last.last_offset_delta
    if first is last:
        size, max_timestamp = first.batch_length + 12, first.max_timestamp
    else:
        size = sum(header.size for header in headers)
        max_timestamp = max(header.max_timestamp for header in headers)
    if size > log.config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {log.topic_partition}, which exceeds the "
            f"maximum configured segment size of {log.config.segment_bytes}.",
        )
    producer_state = log.producer_state
    updates = successor = None
    if first.producer_id >= 0 or first is not last:
        successor = _find_successor(producer_state, headers, origin)
        if successor is None:
            duplicate = _find_duplicate(log, first, size) if origin is CLIENT else None
            if duplicate is not None:
                return duplicate
            updates = check_producers(producer_state, records, headers, origin)
    try:
        segment = log.active
        if _must_roll(log, segment, size, max_timestamp, last_offset, now_ms):
            segment = roll(log, first.base_offset)
        position = segment.size
        if last.partition_leader_epoch != log.leader_epochs.latest_epoch:
            assign_epochs(log.leader_epochs, headers)
        segment.append(records, headers, size)
        if successor is not None:
            successor.add_batch(
                BatchMetadata(first.last_sequence, last_offset, first.last_offset_delta, first.max_timestamp)
            )
            successor.last_timestamp = first.max_timestamp
        elif updates is not None:
            take_over(producer_state, segment, updates)
    except DiskError as error:
        raise log.disk_failed(error) from error
    log.recent_positions.add(first.base_offset, position)
    log.log_end_offset = last_offset + 1
    producer_state.map_end_offset = last_offset + 1
    if updates is not None:
        log.update_first_unstable_offset()
    return AppendResult(
        first.base_offset,
        last_offset,
        max_timestamp,
        NO_TIMESTAMP,
        log.log_start_offset,
        last_offset - first.base_offset + 1,
        size,
    )


def assign_epochs(leader_epochs: LeaderEpochCache, headers: list[BatchHeader]) -> None:
    """Note where leader epochs begin."""
    for header in headers:
        if header.partition_leader_epoch >= 0:
            leader_epochs.assign(header.partition_leader_epoch, header.base_offset)


# -- producers ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ProducerUpdates:
    """What the batches of one append change in the producer state, once they are appended."""

    infos: list[ProducerAppendInfo]
    completed: list[CompletedTransaction]


def _find_successor(
    producer_state: ProducerStateManager, headers: list[BatchHeader], origin: AppendOrigin
) -> ProducerStateEntry | None:
    """Give the producer's state where this is simply its next batch: not the first, no repetition, no transaction.

    Nearly every batch is that, and it needs none of the objects that the general way makes (3 µs).
    """
    header = headers[0]
    if len(headers) != 1 or origin is not CLIENT or header.attributes & _TRANSACTIONAL_OR_CONTROL:
        return None
    entry = producer_state.active_producers.get(header.producer_id)
    if (
        entry is None
        or entry.producer_epoch != header.producer_epoch
        or entry.current_transaction_first_offset is not None
        or not entry.batches
        or (entry.batches[-1].last_sequence + 1) & SEQUENCE_MAX != header.base_sequence
    ):
        return None
    return entry


def _find_duplicate(log: Log, header: BatchHeader, size: int) -> AppendResult | None:
    """Answer a batch that an idempotent producer has sent before with the offsets it got then."""
    found = log.producer_state.find_duplicate(
        producer_id=header.producer_id,
        epoch=header.producer_epoch,
        first_sequence=header.base_sequence,
        last_sequence=header.last_sequence,
    )
    if found is None:
        return None
    return AppendResult(
        found.first_offset,
        found.last_offset,
        found.timestamp,
        NO_TIMESTAMP,
        log.log_start_offset,
        record_count=header.records_count,
        size_bytes=size,
        is_duplicate=True,
    )


def check_producers(
    producer_state: ProducerStateManager, records: Buffer, headers: list[BatchHeader], origin: AppendOrigin
) -> ProducerUpdates | None:
    """Check the batches of idempotent producers and the markers against what is known; change nothing."""
    infos: dict[int, ProducerAppendInfo] = {}
    completed: list[CompletedTransaction] = []
    position = 0
    for header in headers:
        if header.producer_id >= 0:
            info = infos.get(header.producer_id)
            if info is None:
                info = infos[header.producer_id] = producer_state.prepare_update(header.producer_id, origin)
            if header.attributes & _CONTROL:
                ended = _end_transaction(info, records, position, header)
                if ended is not None:
                    completed.append(ended)
            else:
                info.append_data_batch(
                    epoch=header.producer_epoch,
                    first_sequence=header.base_sequence,
                    last_sequence=header.last_sequence,
                    first_offset=header.base_offset,
                    last_offset=header.last_offset,
                    last_timestamp=header.max_timestamp,
                    is_transactional=header.is_transactional,
                )
        position += header.batch_length + 12
    return ProducerUpdates(list(infos.values()), completed) if infos else None


def _end_transaction(
    info: ProducerAppendInfo, records: Buffer, position: int, header: BatchHeader
) -> CompletedTransaction | None:
    """Read a marker; None where the control batch is something else or ends no transaction here."""
    marker = read_control_batch(records, position, header)
    if marker is None:
        return None
    return info.append_end_marker(
        epoch=header.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        is_aborted=marker.control_type is ControlType.ABORT,
        offset=header.base_offset,
        timestamp=header.max_timestamp,
    )


def take_over(producer_state: ProducerStateManager, segment: Segment, updates: ProducerUpdates) -> None:
    """Change producer state and transaction index as the batches that are now in `segment` say."""
    for info in updates.infos:
        producer_state.update(info)
    for completed in updates.completed:
        if completed.is_aborted:
            last_stable = producer_state.last_stable_offset(completed)
            segment.transaction_index.append(
                AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, last_stable)
            )
        producer_state.complete_transaction(completed)


# -- rolling --------------------------------------------------------------------------------------------------------


def _must_roll(log: Log, segment: Segment, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
    """Whether the batches go into a new segment: size, age, a full index, or an offset too far from the base."""
    if (
        segment.size + size > log.config.segment_bytes
        or (segment.may_have_full_index and segment.has_full_index())
        or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
    ):
        return True
    if not segment.size:
        return False
    first_timestamp = segment.first_timestamp
    if first_timestamp is None:
        first_timestamp = segment.load_first_timestamp()
    # Age is told by the records' own times where they have any: a replica that copies them later rolls alike.
    age = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - segment.created_ms
    return age > log.segment_age_max_ms - segment.roll_jitter_ms


def roll(log: Log, base_offset: int) -> Segment:
    """Close the active segment and begin one at `base_offset`."""
    old = log.active
    with StorageGuard(log):
        if old.base_offset == base_offset:
            if old.size:
                raise AssertionError(f"{old.log_path} has {old.size} bytes and begins where the next segment would")
            # An index can fill up, or an offset be too far away, before anything is in the segment.
            log.remove_segments(len(log.segments) - 1, len(log.segments))
            old.delete_files()
        else:
            old.trim()
            log.producer_state.map_end_offset = base_offset
            log.producer_state.take_snapshot(sync=False)
        segment = log.add_segment(base_offset)
    if old.size:
        log.context.on_roll(log)
    return segment
