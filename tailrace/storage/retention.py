"""Deleting a log's oldest segments: by age, by size, and below the log start offset.

Promises: only whole segments go, only below the high watermark, oldest first, and the log start offset moves before a
file is touched. Files are renamed to `.deleted` at once and removed `file.delete.delay.ms` later; a broker that
starts in between removes them. Under `cleanup.policy=compact` alone, age and size delete nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.storage.disk import DiskError
from tailrace.storage.segment import Segment

if TYPE_CHECKING:
    from tailrace.storage.log import Log

DELETED_SUFFIX = ".deleted"
_log = logging.getLogger(__name__)


def delete_old_segments(log: Log) -> int:
    """Delete what may go; say how many segments that were."""
    log.check_online()
    try:
        count, reason = _decide(log)
        if not count:
            return 0
        _log.info("%s: deleting %d segments: %s", log.topic_partition, count, reason)
        if count == len(log.segments):
            log.roll()
        log.log_start_offset = max(log.log_start_offset, log.segments[count].base_offset)
        log.leader_epochs.truncate_from_start(log.log_start_offset)
        log.producer_state.log_start_offset_moved(log.log_start_offset)
        log.update_first_unstable_offset()
        delete_segments(log, log.remove_segments(0, count))
        return count
    except DiskError as error:
        raise log.disk_failed(error) from error


def _decide(log: Log) -> tuple[int, str]:
    """Say how many of the oldest segments go, and why."""
    deletable = _deletable_count(log)
    if not deletable:
        return 0, ""
    by_start = _below_log_start(log, deletable)
    if "delete" not in log.config.cleanup_policy:
        return by_start, "below the log start offset"
    return max(
        (by_start, "below the log start offset"),
        (_by_age(log, deletable), f"older than retention.ms={log.config.retention_ms}"),
        (_by_size(log, deletable), f"more than retention.bytes={log.config.retention_bytes}"),
        key=lambda decision: decision[0],
    )


def _deletable_count(log: Log) -> int:
    """Count the oldest segments that lie whole below the high watermark; the active one only if it has something."""
    count = 0
    segments = log.segments
    for slot, segment in enumerate(segments):
        is_active = slot + 1 == len(segments)
        end = log.log_end_offset if is_active else segments[slot + 1].base_offset
        if end > log.high_watermark or (is_active and not segment.size):
            break
        count += 1
    return count


def _below_log_start(log: Log, deletable: int) -> int:
    count = 0
    while count < deletable and count + 1 < len(log.segments):
        if log.segments[count + 1].base_offset > log.log_start_offset:
            break
        count += 1
    return count


def _by_age(log: Log, deletable: int) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    now_ms = log.context.clock.time_ms()
    count = 0
    while count < deletable:
        segment = log.segments[count]
        timestamp = segment.load_largest_timestamp()
        if timestamp < 0:
            timestamp = segment.modified_ms()
        if now_ms - timestamp <= retention_ms:
            break
        count += 1
    return count


def _by_size(log: Log, deletable: int) -> int:
    retention_bytes = log.config.retention_bytes
    if retention_bytes < 0:
        return 0
    excess = log.size_bytes - retention_bytes
    count = 0
    while count < deletable and excess >= log.segments[count].size:
        excess -= log.segments[count].size
        count += 1
    return count


def delete_segments(log: Log, segments: Sequence[Segment]) -> None:
    """Rename the files of segments that are out of the log, and have them removed later."""
    disk = log.context.disk
    paths: list[Path] = []
    for segment in segments:
        segment.rename(DELETED_SUFFIX)
        paths += segment.existing_paths().values()
        segment.close()
        snapshot = log.producer_state.forget_snapshot(segment.base_offset)
        if snapshot is not None and disk.exists(snapshot):
            renamed = snapshot.with_name(snapshot.name + DELETED_SUFFIX)
            disk.rename(snapshot, renamed, sync=False)
            paths.append(renamed)
    log.context.delete_later(paths, log.config.file_delete_delay_ms)
