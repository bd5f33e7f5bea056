"""Finishing what compaction and deletion had begun when the process ended.

    .deleted   out of the log already: removed
    .cleaned   compaction was still writing it: removed, the segments it was made of are still there
    .swap      complete: takes the place of every segment it was made of, whose files are removed first

Kafka and Tailrace use the same names, so each finishes what the other left. A `.swap` at or above the base offset of a
`.cleaned` file is of a set that was not complete (a segment was being split), and is removed like it.
"""

from __future__ import annotations

import logging
from pathlib import Path

from tailrace.storage.batch_scan import walk
from tailrace.storage.disk import Disk
from tailrace.storage.retention import DELETED_SUFFIX

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
_TEMPORARY_SUFFIX = ".tmp"
_KINDS = (".log", ".index", ".timeindex", ".txnindex")
_log = logging.getLogger(__name__)


def finish_swaps(disk: Disk, directory: Path, names: set[str]) -> set[str]:
    """Bring a directory's files to rest; give the names that are there then."""
    left = set(names)
    cleaned = [base for name in names if name.endswith(CLEANED_SUFFIX) and (base := _base_offset(name)) is not None]
    incomplete_from = min(cleaned, default=None)
    swaps: list[str] = []
    for name in sorted(names):
        is_swap = name.endswith(SWAP_SUFFIX)
        base = _base_offset(name) if is_swap else None
        if is_swap and (base is None or incomplete_from is None or base < incomplete_from):
            swaps.append(name)
        elif is_swap or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, _TEMPORARY_SUFFIX)):
            disk.unlink(directory / name)
            left.discard(name)
    if swaps:
        _swap(disk, directory, swaps, left)
    return left


def _swap(disk: Disk, directory: Path, swaps: list[str], names: set[str]) -> None:
    replaced: set[str] = set()
    for name in swaps:
        if name.endswith(".log" + SWAP_SUFFIX):
            first = _base_offset(name)
            end = _next_offset(disk, directory / name)
            if first is not None:
                replaced |= {old for old in names if _is_segment_file(old) and first <= (_base_offset(old) or 0) < end}
    for old in sorted(replaced):
        disk.unlink(directory / old)
        names.discard(old)
    for name in swaps:
        target = name.removesuffix(SWAP_SUFFIX)
        _log.info("%s: %s takes its place", directory, target)
        disk.rename(directory / name, directory / target, sync=False)
        names.discard(name)
        names.add(target)
    disk.sync_directory(directory)


def _next_offset(disk: Disk, path: Path) -> int:
    """Give the offset behind the last batch of a compacted segment; its own base where it has none."""
    size = disk.file_size(path)
    next_offset = (_base_offset(path.name) or 0) + 1
    if size:
        file = disk.open(path, writable=False)
        try:
            mapping = file.map(size, writable=False)
        finally:
            file.close()
        for span in walk(memoryview(mapping), 0, size):
            next_offset = span.last_offset + 1
    return next_offset


def _is_segment_file(name: str) -> bool:
    return name.endswith(_KINDS)


def _base_offset(name: str) -> int | None:
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else None
