"""Reading from a log: by offset, by timestamp, and which transactions of a range were aborted.

Promises: records are slices of a mapped segment, whole from the first batch on, and never of bytes that fail their
checksum: what was on disk when the process started is checked at its first read, and a damaged batch takes the log
offline. An empty answer still says where it would have begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.reader import read_records
from tailrace.storage.batch_scan import BatchSpan, batch_size, read_span
from tailrace.storage.disk import DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.segment import Segment
from tailrace.storage.segment_check import verify
from tailrace.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from tailrace.storage.log import Log

_NOTHING = memoryview(b"")
NO_POSITION = -1


@dataclass(slots=True)
class ReadResult:
    """A slice of a segment."""

    records: memoryview
    fetch_offset: int
    segment_base_offset: int
    position: int
    """Where the slice begins in its segment; -1 where nothing was read."""
    first_entry_is_incomplete: bool = False
    """Whether the first batch is larger than `max_bytes` and was cut: without `min_one_message` only."""


@dataclass(slots=True)
class TimestampOffset:
    """A record's timestamp and offset, and the leader epoch that wrote it (-1 unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int


def read(log: Log, fetch_offset: int, *, max_bytes: int, upper_offset: int, min_one_message: bool) -> ReadResult:
    """Give batches from the one with `fetch_offset` on. See `Log.read`."""
    if log.failure is not None:
        log.check_online()
    if not log.log_start_offset <= fetch_offset <= log.log_end_offset:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {fetch_offset} for partition {log.topic_partition}, "
            f"but we only have records from {log.log_start_offset} up to {log.log_end_offset}.",
        )
    segment = log.active
    if fetch_offset >= upper_offset:
        return ReadResult(_NOTHING, fetch_offset, segment.base_offset, NO_POSITION)
    try:
        if fetch_offset >= segment.base_offset:
            return _read_active(log, segment, fetch_offset, max_bytes, upper_offset, min_one_message)
        return _read_older(log, fetch_offset, max_bytes, upper_offset, min_one_message)
    except DiskError as error:
        raise log.disk_failed(error) from error


def _read_active(
    log: Log, segment: Segment, fetch_offset: int, max_bytes: int, upper_offset: int, min_one_message: bool
) -> ReadResult:
    start = log.recent_positions.get(fetch_offset)
    if start is None:
        span = _find(log, segment, fetch_offset)
        if span is None:
            return ReadResult(_NOTHING, fetch_offset, segment.base_offset, NO_POSITION)
        start = span.position
    if upper_offset >= log.log_end_offset:
        end = segment.size
    else:
        known = log.recent_positions.get(upper_offset)
        end = _end_position(log, segment, upper_offset) if known is None else known
    return _slice(log, segment, fetch_offset, start, end, max_bytes, min_one_message)


def _read_older(log: Log, fetch_offset: int, max_bytes: int, upper_offset: int, min_one_message: bool) -> ReadResult:
    """Read from a segment that is closed; where compaction or damage left a gap, from the next that has something."""
    segments = log.segments
    for slot in range(max(log.segment_slot(fetch_offset), 0), len(segments)):
        segment = segments[slot]
        if segment.base_offset >= upper_offset:
            break
        span = _find(log, segment, fetch_offset) if segment.size else None
        if span is None:
            continue
        ends_here = slot + 1 == len(segments) or upper_offset < segments[slot + 1].base_offset
        end = _end_position(log, segment, upper_offset) if ends_here else segment.size
        return _slice(log, segment, fetch_offset, span.position, end, max_bytes, min_one_message)
    return ReadResult(_NOTHING, fetch_offset, log.active.base_offset, NO_POSITION)


def _slice(
    log: Log, segment: Segment, fetch_offset: int, start: int, end: int, max_bytes: int, min_one_message: bool
) -> ReadResult:
    is_cut = False
    if end - start > max_bytes:
        end, is_cut = _cut(segment, start, end, max_bytes, min_one_message)
    if segment.unverified is not None and end > start:
        _verify(log, segment, start, end)
    return ReadResult(segment.view[start:end], fetch_offset, segment.base_offset, start, is_cut)


def _cut(segment: Segment, start: int, end: int, max_bytes: int, min_one_message: bool) -> tuple[int, bool]:
    """Say where a slice ends that may have `max_bytes`, and whether its first batch is cut."""
    first_size = batch_size(segment.view, start)
    if first_size <= max_bytes:
        return start + max(max_bytes, 0), False
    if min_one_message:
        return min(start + first_size, end), False
    return start + max(max_bytes, 0), True


def _end_position(log: Log, segment: Segment, upper_offset: int) -> int:
    """Give the position below which everything has offsets below `upper_offset`."""
    span = _find(log, segment, upper_offset)
    if span is None:
        return segment.size
    if segment is log.active:
        log.recent_positions.add(upper_offset, span.position)
    return span.position


def _find(log: Log, segment: Segment, offset: int) -> BatchSpan | None:
    try:
        return segment.find(offset)
    except SegmentDamaged as damage:
        raise log.set_aside(segment, damage) from damage


def _verify(log: Log, segment: Segment, start: int, end: int) -> None:
    try:
        verify(segment, start, end)
    except SegmentDamaged as damage:
        raise log.set_aside(segment, damage) from damage


# -- transactions ---------------------------------------------------------------------------------------------------


def collect_aborted_transactions(log: Log, first_offset: int, upper_offset: int) -> list[AbortedTransaction]:
    """Give the aborted transactions that overlap the range."""
    found: list[AbortedTransaction] = []
    for slot in range(max(log.segment_slot(first_offset), 0), len(log.segments)):
        try:
            some, are_all = log.segments[slot].transaction_index.collect(first_offset, upper_offset)
        except CorruptFile as error:
            # Without the index read_committed would show aborted records as committed.
            log.take_offline(f"{error}; delete the file and restart: it is made again from the log")
            log.check_online()
            raise
        except DiskError as error:
            raise log.disk_failed(error) from error
        found += some
        if are_all:
            break
    return found


# -- timestamps -----------------------------------------------------------------------------------------------------


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampOffset | None:
    """Give the first record at or after `timestamp` that is not below the log start offset."""
    log.check_online()
    try:
        for segment in log.segments:
            # One that lies below the log start offset and waits for its deletion may have it in its deleted part only.
            if segment.load_largest_timestamp() >= timestamp and (found := _search(log, segment, timestamp)):
                return found
    except DiskError as error:
        raise log.disk_failed(error) from error
    return None


def _search(log: Log, segment: Segment, timestamp: int) -> TimestampOffset | None:
    start_offset = max(segment.time_index.lookup(timestamp).offset, log.log_start_offset)
    span = _find(log, segment, start_offset)
    while span is not None:
        if span.max_timestamp >= timestamp:
            _verify(log, segment, span.position, span.end)
            for record_timestamp, offset in _records(log, segment, span):
                if record_timestamp >= timestamp and offset >= log.log_start_offset:
                    return TimestampOffset(record_timestamp, offset, span.leader_epoch)
        span = read_span(segment.view, span.end, segment.size)
    return None


def offset_of_max_timestamp(log: Log) -> TimestampOffset | None:
    """Give the first record that has the largest timestamp of the log."""
    log.check_online()
    try:
        segment = max(log.segments, key=Segment.load_largest_timestamp)
        if segment.max_timestamp < 0:
            return None
        span = _find(log, segment, segment.offset_of_max_timestamp)
        while span is not None and span.max_timestamp != segment.max_timestamp:
            span = read_span(segment.view, span.end, segment.size)
        if span is None:
            return None
        _verify(log, segment, span.position, span.end)
        records = _records(log, segment, span)
    except DiskError as error:
        raise log.disk_failed(error) from error
    for timestamp, offset in records:
        if timestamp == span.max_timestamp:
            return TimestampOffset(timestamp, offset, span.leader_epoch)
    return TimestampOffset(span.max_timestamp, span.last_offset, span.leader_epoch)


def _records(log: Log, segment: Segment, span: BatchSpan) -> list[tuple[int, int]]:
    """Give timestamp and offset of each record of a batch."""
    try:
        records = list(read_records(segment.view[span.position : span.end], check_crcs=False))
    except (ApiError, MalformedFrame) as error:
        # The checksum is right, so these are the bytes a producer sent: its records are broken, not our disk.
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition}: the batch at {span.base_offset} can't be read: {error}"
        ) from error
    return [(record.timestamp, record.offset) for record in records]
