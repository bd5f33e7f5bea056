"""What the offset index and the time index of a segment have in common: fixed-size entries in a mapped file.

While it is appended to, the file has its full size (`segment.index.bytes`, rounded down to whole entries) as Kafka's
has, but real blocks only as far as entries reach and a little ahead: full blocks for every active segment of a
thousand partitions would be 20 GB, and a store into a hole on a full disk kills the process. `trim_to_valid_size`
cuts the file to its entries. The file is made at the first append or trim, mapped at the first use, and needs one
descriptor while mapped, none before. Errors: `DiskError`, and `CorruptFile` from `sanity_check`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from struct import Struct
from typing import ClassVar

from tailrace.storage.disk import Disk, FileMapping
from tailrace.storage.errors import CorruptFile

WARM_BYTES = 8192
"""The tail that nearly every lookup ends in; searched first, so that cold pages of the file stay untouched."""
RELATIVE_OFFSET_MAX = 2**31 - 1
"""Offsets are kept as the distance from the segment's base offset, in a signed 32-bit number."""
_ALLOCATION_BYTES_MIN = 4096
_ALLOCATION_BYTES_MAX = 256 * 1024


class MappedIndex(ABC):
    """Entries in ascending order, appended at the end and found by binary search."""

    ENTRY_BYTES: ClassVar[int]

    def __init__(self, disk: Disk, path: Path, base_offset: int, *, size_bytes_max: int) -> None:
        """Take over the file at `path` if there is one; every whole entry in it counts until `sanity_check` says no."""
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._mapping: FileMapping | None = None
        self._is_writable = False
        self._allocated_bytes = 0
        self._file_bytes = disk.file_size(path) if disk.exists(path) else -1
        self._entries = max(self._file_bytes, 0) // self.ENTRY_BYTES
        self._entries_max = 0
        self.resize(size_bytes_max)
        self._load_last_entry()

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return self._entries

    @property
    def entries_max(self) -> int:
        """How many entries fit."""
        return self._entries_max

    @property
    def size_bytes(self) -> int:
        """How many bytes the entries take; the file may be longer while it is appended to."""
        return self._entries * self.ENTRY_BYTES

    @property
    def is_full(self) -> bool:
        """Whether the next entry has no room: the segment has to roll."""
        return self._entries >= self._entries_max

    def resize(self, size_bytes_max: int) -> None:
        """Change the bound, as when `segment.index.bytes` was altered; entries that are there stay."""
        entries_max = max(size_bytes_max // self.ENTRY_BYTES, self._entries, 1)
        if entries_max != self._entries_max:
            self._unmap()
            self._entries_max = entries_max

    def truncate(self) -> None:
        """Remove every entry."""
        self._truncate_to_entries(0)

    def trim_to_valid_size(self) -> None:
        """Cut the file to its entries and make it if it is missing: the segment is no longer appended to, or closes.

        Lookups and, should it be needed after all, appends work as before.
        """
        self._unmap()
        if self._file_bytes != self.size_bytes:
            file = self._disk.open(self.path, create=True)
            try:
                file.truncate(self.size_bytes)
                self._file_bytes = self.size_bytes
            finally:
                file.close()

    def sync(self) -> None:
        """Wait until the entries are on disk; blocks, so for threads. Opens the file for itself."""
        if self._file_bytes >= 0:
            file = self._disk.open(self.path)
            try:
                file.sync()
            finally:
                file.close()

    def close(self) -> None:
        """Trim the file and give the mapping back."""
        self.trim_to_valid_size()

    def abandon(self) -> None:
        """Give the mapping back and leave the file as it is: it is to be deleted, or its disk has failed."""
        self._unmap()

    def rename(self, path: Path) -> None:
        """Rename the file, if it was made, and go on with it under the new name."""
        if self._file_bytes >= 0:
            self._disk.rename(self.path, path, sync=False)
        self.path = path

    @abstractmethod
    def _load_last_entry(self) -> None:
        """Remember the last entry (or that there is none) after entries were added or removed."""

    def _mapped(self) -> FileMapping:
        """Give a mapping that has all entries; there is at least one."""
        if self._mapping is None:
            file = self._disk.open(self.path, writable=False)
            try:
                self._mapping = file.map(self.size_bytes, writable=False, is_random=True)
            finally:
                file.close()
        return self._mapping

    def _mapped_for_append(self) -> FileMapping:
        """Give a writable mapping whose next entry has a real block under it."""
        needed = self.size_bytes + self.ENTRY_BYTES
        if self._mapping is not None and self._is_writable and needed <= self._allocated_bytes:
            return self._mapping
        size_bytes_max = self._entries_max * self.ENTRY_BYTES
        step = min(max(self._allocated_bytes, _ALLOCATION_BYTES_MIN), _ALLOCATION_BYTES_MAX)
        allocated = max(needed, min(max(self._allocated_bytes, self.size_bytes) + step, size_bytes_max))
        file = self._disk.open(self.path, create=True)
        try:
            if self._file_bytes != size_bytes_max:
                file.truncate(size_bytes_max)
                self._file_bytes = size_bytes_max
            file.allocate(0, allocated)
            if self._mapping is None or not self._is_writable:
                self._unmap()
                self._mapping = file.map(size_bytes_max, writable=True, is_random=True)
                self._is_writable = True
            self._allocated_bytes = allocated
            return self._mapping
        finally:
            file.close()

    def _unmap(self) -> None:
        mapping, self._mapping = self._mapping, None
        self._is_writable = False
        self._allocated_bytes = 0
        if mapping is not None:
            mapping.close()

    def _truncate_to_entries(self, entries: int) -> None:
        """Keep the first `entries`. The others become zeros: should the process die, they don't come back to life."""
        if entries >= self._entries:
            return
        mapping = self._mapped_for_append()
        start = entries * self.ENTRY_BYTES
        mapping[start : self.size_bytes] = bytes(self.size_bytes - start)
        self._entries = entries
        self._load_last_entry()

    def _find_slot(self, key: Struct, displacement: int, target: int) -> int:
        """Give the last slot whose key is at most `target`, -1 if there is none.

        `key` reads the key at `displacement` within an entry. The warm section goes first.
        """
        if not self._entries:
            return -1
        mapping = self._mapped()
        size = self.ENTRY_BYTES
        read = key.unpack_from
        first, last = 0, self._entries - 1
        warm = last - WARM_BYTES // size
        if warm > 0:
            if read(mapping, warm * size + displacement)[0] <= target:
                first = warm
            else:
                last = warm - 1
        if read(mapping, first * size + displacement)[0] > target:
            return -1
        while first < last:
            middle = (first + last + 1) >> 1
            if read(mapping, middle * size + displacement)[0] <= target:
                first = middle
            else:
                last = middle - 1
        return first

    def _relative_offset(self, offset: int) -> int:
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_OFFSET_MAX:
            raise ValueError(f"{self.path}: offset {offset} is not within 2^31 of the base offset {self.base_offset}")
        return relative

    def _check_whole_entries(self) -> None:
        if self._file_bytes > 0 and self._file_bytes % self.ENTRY_BYTES:
            raise CorruptFile(self.path, f"{self._file_bytes} bytes are no multiple of {self.ENTRY_BYTES}")
