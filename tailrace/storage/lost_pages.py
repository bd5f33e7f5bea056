"""Pages that a loss of power kept from the disk, with good batches behind them.

What no sync has covered reaches the disk in any order: a page of the log may be zeros, and the next one have its
batches. Nobody was promised that these are durable, so the log goes on from the hole, as Kafka's does. Unlike Kafka,
which deletes the rest, this keeps every byte of it beside, under names that no start looks at:

    <segment>.log.torn-<position>   what followed the hole in its segment, from that position on
    <segment>.log.torn-0            a later segment, whole

Bytes that are wrong in any other way are damage, and for the caller to refuse.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from tailrace.storage.batch_scan import find_valid_batch, is_zero, walk
from tailrace.storage.disk import Disk
from tailrace.storage.segment import Segment

PAGE_BYTES = 4096
TORN_SUFFIX = ".torn-"
_ZEROS_MIN = 12
"""A batch may begin with eight zeros, its offset; the length behind them is never zero."""
_COPIED_AT_ONCE = 1 << 20
_log = logging.getLogger(__name__)


def offset_at(segment: Segment, position: int) -> int:
    """Give the offset behind the batches below `position`, which are known to be whole."""
    offset = segment.base_offset
    for span in walk(segment.view, 0, position):
        offset = span.last_offset + 1
    return offset


def is_hole(segment: Segment, position: int) -> bool:
    """Whether a page is missing where a batch should begin at `position`: zeros from there, or of a whole page.

    It has to lie before the next good batch.
    """
    view, size = segment.view, segment.size
    later = find_valid_batch(view, position + 1, size, offset_min=offset_at(segment, position))
    end = size if later is None else later.position
    for page in range(position - position % PAGE_BYTES, end, PAGE_BYTES):
        start, stop = max(page, position), min(page + PAGE_BYTES, size)
        if stop - start >= _ZEROS_MIN and is_zero(view, start, stop):
            return True
    return False


def set_rest_aside(disk: Disk, segment: Segment, position: int, later: Sequence[Segment]) -> None:
    """End the log at `position` of `segment`, and keep what is behind it, the `later` segments too."""
    kept: list[Path] = []
    # The last one first: should the process die meanwhile, the next start finds the hole still, and goes on with it.
    for other in reversed(later):
        target = _free_name(disk, other.log_path, 0)
        disk.rename(other.log_path, target, sync=False)
        other.delete_files()  # What is left are indexes, which are made of the log.
        kept.append(target)
    target = _free_name(disk, segment.log_path, position)
    end = _copy(disk, segment.view, position, segment.size, target)
    disk.sync_directory(segment.directory)
    segment.cut_tail(position)
    kept.append(target)
    _log.warning(
        "%s: pages of it had not reached the disk: the log goes on from byte %d, where no flush had been. "
        "%d bytes and %d later segments, which nothing promised to keep, are beside it: %s",
        segment.log_path,
        position,
        end - position,
        len(later),
        ", ".join(path.name for path in reversed(kept)),
    )


def _copy(disk: Disk, view: memoryview, start: int, end: int, target: Path) -> int:
    """Copy the range to a file of its own, on disk; give where it ends without the zeros at its end."""
    while end - start > PAGE_BYTES and is_zero(view, end - PAGE_BYTES, end):
        end -= PAGE_BYTES
    file = disk.open(target, create=True)
    try:
        for position in range(start, end, _COPIED_AT_ONCE):
            file.write_at(position - start, view[position : min(position + _COPIED_AT_ONCE, end)])
        file.sync()
    finally:
        file.close()
    return end


def _free_name(disk: Disk, path: Path, position: int) -> Path:
    name = f"{path.name}{TORN_SUFFIX}{position}"
    target, number = path.with_name(name), 1
    while disk.exists(target):
        number += 1
        target = path.with_name(f"{name}.{number}")
    return target
