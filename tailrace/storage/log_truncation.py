"""Cutting the end of a log off, as a follower does that has records its leader never had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.storage.batch_scan import walk
from tailrace.storage.disk import DiskError
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.log_replay import rebuild_producer_state
from tailrace.storage.retention import delete_segments
from tailrace.storage.segment import Segment

if TYPE_CHECKING:
    from tailrace.storage.log import Log


def truncate_to(log: Log, offset: int) -> bool:
    """Remove everything from `offset` on. See `Log.truncate_to`."""
    log.check_online()
    if offset < 0:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Cannot truncate partition {log.topic_partition} to a negative offset ({offset}).",
        )
    if offset >= log.log_end_offset:
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        return False
    if offset < log.segments[0].base_offset:
        truncate_fully_and_start_at(log, offset)
        return True
    try:
        first_removed = log.segment_slot(offset) + 1
        removed = log.remove_segments(first_removed, len(log.segments))
        log.context.before_truncation(log, _new_end(log.active, offset))
        # The last one first: should the process die meanwhile, what is left has no hole.
        delete_segments(log, removed[::-1])
        if removed:
            log.context.disk.sync_directory(log.directory)
        if log.active.truncate_to(offset):
            # Kafka does not wait here. Then a loss of power may bring back what was cut, below a segment that was begun
            # since: two records of one offset.
            log.active.sync()
        log.log_end_offset = log.active.next_offset()
        _settle(log)
        log.leader_epochs.truncate_from_end(log.log_end_offset)
        rebuild_producer_state(
            log.producer_state,
            log.segments,
            log_start_offset=log.log_start_offset,
            end_offset=log.log_end_offset,
            now_ms=log.context.clock.time_ms(),
        )
    except SegmentDamaged as damage:
        raise log.set_aside(log.active, damage) from damage
    except DiskError as error:
        raise log.disk_failed(error) from error
    log.update_first_unstable_offset()
    return True


def _new_end(segment: Segment, offset: int) -> int:
    """Say where the log will end: below `offset` where a batch goes whole, or where offsets have a gap."""
    span = segment.find(offset)
    if span is None:
        return segment.next_offset()
    end = segment.base_offset
    start = segment.offset_index.lookup(min(offset, span.base_offset) - 1).position
    for earlier in walk(segment.view, start, span.position):
        end = earlier.last_offset + 1
    return min(end, offset)


def truncate_fully_and_start_at(log: Log, offset: int) -> None:
    """Remove everything. See `Log.truncate_fully_and_start_at`."""
    log.check_online()
    try:
        log.context.before_truncation(log, 0)
        removed = log.remove_segments(0, len(log.segments))
        delete_segments(log, removed[::-1])
        log.add_segment(offset)
        log.log_start_offset = log.log_end_offset = offset
        _settle(log)
        log.leader_epochs.clear()
        log.producer_state.truncate_fully_and_start_at(offset)
    except DiskError as error:
        raise log.disk_failed(error) from error
    log.high_watermark = offset
    log.update_first_unstable_offset()


def _settle(log: Log) -> None:
    """Bring down what must not be above the log's new end."""
    end = log.log_end_offset
    log.recent_positions.clear()
    log.flusher.truncated_to(end)
    log.log_start_offset = min(log.log_start_offset, end)
    log.high_watermark = max(log.log_start_offset, min(log.high_watermark, end))
