"""The `.index` file of a segment: from offset to position in the `.log`, sparse.

An entry is 8 bytes: the last offset of a batch relative to the segment's base offset (int32) and the position where
that batch begins (int32). Offsets and positions both rise. A bit flip in the middle may pass `sanity_check`, so the
reader of the segment checks that the batch it finds at a looked-up position begins at or before the offset it wants;
where it doesn't, the index lies and has to be rebuilt.
"""

from __future__ import annotations

from operator import ge
from struct import Struct
from typing import NamedTuple

from tailrace.storage.errors import CorruptFile
from tailrace.storage.mapped_index import MappedIndex

_ENTRY = Struct(">iI")  # A position is below 2^31; read without sign, a damaged one lies behind the log, not before it.
_OFFSET = Struct(">i")
_POSITION = Struct(">I")
_CHECKED_AT_ONCE = 4096


class OffsetIndexEntry(NamedTuple):
    """The batch that begins at `position` ends with `offset`; or, below the first entry, the segment's beginning."""

    offset: int
    position: int


class OffsetIndex(MappedIndex):
    """Where to begin scanning for an offset."""

    ENTRY_BYTES = 8

    last_offset: int
    """The offset of the last entry; the base offset where there is none."""
    _last_position: int

    def append(self, offset: int, position: int) -> None:
        """Add the batch at `position` whose last offset is `offset`; raise ValueError where it does not come after."""
        relative = self._relative_offset(offset)
        entries = self._entries
        if entries >= self._entries_max:
            raise ValueError(f"{self.path}: full with {entries} entries, no room for offset {offset}")
        if entries and (offset <= self.last_offset or position <= self._last_position):
            raise ValueError(
                f"{self.path}: ({offset}, {position}) does not come after ({self.last_offset}, {self._last_position})"
            )
        _ENTRY.pack_into(self._mapped_for_append(), entries * 8, relative, position)
        self._entries = entries + 1
        self.last_offset = offset
        self._last_position = position

    def lookup(self, offset: int) -> OffsetIndexEntry:
        """Give the last entry at or below `offset`; (base offset, 0) where there is none."""
        if not self._entries or offset < self.base_offset:
            return OffsetIndexEntry(self.base_offset, 0)
        if offset >= self.last_offset:
            return OffsetIndexEntry(self.last_offset, self._last_position)
        slot = self._find_slot(_OFFSET, 0, offset - self.base_offset)
        return self.entry(slot) if slot >= 0 else OffsetIndexEntry(self.base_offset, 0)

    def upper_bound(self, position: int, size_bytes: int) -> OffsetIndexEntry | None:
        """Give the first entry at or behind `position + size_bytes`: no record of that range is above its offset."""
        slot = self._find_slot(_POSITION, 4, position + size_bytes - 1) + 1
        return self.entry(slot) if slot < self._entries else None

    def entry(self, slot: int) -> OffsetIndexEntry:
        """Give the entry at a slot, counted from 0."""
        if not 0 <= slot < self._entries:
            raise IndexError(f"{self.path}: slot {slot} of {self._entries}")
        relative, position = _ENTRY.unpack_from(self._mapped(), slot * 8)
        return OffsetIndexEntry(self.base_offset + relative, position)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at and above `offset`."""
        self._truncate_to_entries(self._find_slot(_OFFSET, 0, offset - 1 - self.base_offset) + 1)

    def sanity_check(self, *, log_bytes: int | None = None, every_entry: bool = False) -> None:
        """Raise `CorruptFile` where the file can't be an index: a torn entry, a zeroed tail, positions behind the log.

        With `every_entry` the whole file is read, 30 ns an entry; without, its first and last entry.
        """
        self._check_whole_entries()
        if not self._entries:
            return
        first, last = self.entry(0), self.entry(self._entries - 1)
        if first.offset < self.base_offset:
            raise CorruptFile(self.path, f"begins with {tuple(first)}, before the base offset {self.base_offset}")
        if self._entries > 1 and (last.offset <= first.offset or last.position <= first.position):
            raise CorruptFile(self.path, f"ends with {tuple(last)}, which is not after its first entry {tuple(first)}")
        if log_bytes is not None and last.position >= log_bytes:
            raise CorruptFile(self.path, f"points to byte {last.position} of a log with {log_bytes} bytes")
        if every_entry:
            self._check_every_entry()

    def _check_every_entry(self) -> None:
        mapping = self._mapped()
        for start in range(0, self._entries, _CHECKED_AT_ONCE):
            count = min(_CHECKED_AT_ONCE + 1, self._entries - start)
            values = Struct(">" + "iI" * count).unpack_from(mapping, start * 8)
            for column in (values[::2], values[1::2]):
                if any(map(ge, column, column[1:])):
                    raise CorruptFile(self.path, f"entries from {start} on are not in ascending order")

    def _load_last_entry(self) -> None:
        last = self.entry(self._entries - 1) if self._entries else OffsetIndexEntry(self.base_offset, 0)
        self.last_offset, self._last_position = last
