"""Putting a cleaned segment in the place of those it was made of: one step of the event loop.

    1. its files go from `.cleaned` to `.swap`: from now on it is complete, and a start would finish what follows
    2. those of the old segments go to `.deleted`, to be removed file.delete.delay.ms later
    3. its files lose their suffix

A process that ends in between leaves what `swap_files` brings to rest: the old segments before the end of step 1, the
new one after it. Readers that hold slices of the old segments keep them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.storage.cleaning_plan import CleanedSegment
from tailrace.storage.log_append import StorageGuard
from tailrace.storage.retention import DELETED_SUFFIX
from tailrace.storage.segment import Segment
from tailrace.storage.swap_files import CLEANED_SUFFIX, SWAP_SUFFIX

if TYPE_CHECKING:
    from tailrace.storage.log import Log


def swap_in(log: Log, cleaned: CleanedSegment, sources: list[Segment]) -> bool:
    """Replace `sources` by the cleaned segment; False, and nothing happens, where they are not in the log any more."""
    log.check_online()
    slot = log.segment_slot(cleaned.base_offset)
    end_slot = slot + len(sources)
    if slot < 0 or log.segments[slot:end_slot] != sources or log.active in sources:
        return False
    first = sources[0]
    segment = Segment(
        log.context.disk,
        log.directory,
        cleaned.base_offset,
        limits=first.limits,
        created_ms=first.created_ms,
        size=cleaned.size,
        suffix=CLEANED_SUFFIX,
    )
    segment.unverified = None  # It was checked as it was made.
    with StorageGuard(log):
        segment.rename(SWAP_SUFFIX)
        log.replace_segments(slot, end_slot, segment)
        _delete(log, sources)
        segment.rename("")
    return True


def _delete(log: Log, sources: list[Segment]) -> None:
    """Put the old segments away. The first one's snapshot of producers is that of the new one, which begins there."""
    disk = log.context.disk
    paths: list[Path] = []
    for segment in sources:
        segment.rename(DELETED_SUFFIX)
        paths += segment.existing_paths().values()
        segment.close()
        snapshot = log.producer_state.forget_snapshot(segment.base_offset) if segment is not sources[0] else None
        if snapshot is not None and disk.exists(snapshot):
            renamed = snapshot.with_name(snapshot.name + DELETED_SUFFIX)
            disk.rename(snapshot, renamed, sync=False)
            paths.append(renamed)
    log.context.delete_later(paths, log.config.file_delete_delay_ms)
