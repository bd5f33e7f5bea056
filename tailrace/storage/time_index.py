"""The `.timeindex` file of a segment: from timestamp to offset, sparse.

An entry is 12 bytes: a timestamp (int64) and an offset relative to the segment's base offset (int32). It says that no
record up to that offset has a larger timestamp. Timestamps rise; offsets don't fall.
"""

from __future__ import annotations

from operator import ge, gt
from struct import Struct
from typing import NamedTuple

from tailrace.storage.errors import CorruptFile
from tailrace.storage.mapped_index import MappedIndex

NO_TIMESTAMP = -1
_ENTRY = Struct(">qi")
_TIMESTAMP = Struct(">q")
_OFFSET = Struct(">i")
_CHECKED_AT_ONCE = 4096


class TimeIndexEntry(NamedTuple):
    """The largest timestamp of the records up to `offset`; (-1, base offset) where there is no entry."""

    timestamp: int
    offset: int


class TimeIndex(MappedIndex):
    """Where to begin scanning for a timestamp."""

    ENTRY_BYTES = 12

    last_entry: TimeIndexEntry
    """The entry with the largest timestamp."""

    @property
    def is_full(self) -> bool:
        """Whether the segment has to roll: the last slot is kept for the entry that is made when it does."""
        return self._entries >= self._entries_max - 1

    def maybe_append(self, timestamp: int, offset: int, *, is_closing: bool = False) -> None:
        """Add an entry unless the last one has this timestamp already; raise ValueError where it would go back.

        `is_closing` allows the slot that is kept for the entry made at a roll or close.
        """
        relative = self._relative_offset(offset)
        entries = self._entries
        last = self.last_entry
        if (entries >= self._entries_max and timestamp > last.timestamp) or (self.is_full and not is_closing):
            raise ValueError(f"{self.path}: full with {entries} entries, no room for timestamp {timestamp}")
        if entries and (timestamp < last.timestamp or offset < last.offset):
            raise ValueError(f"{self.path}: ({timestamp}, {offset}) does not come after {tuple(last)}")
        if timestamp > last.timestamp:
            _ENTRY.pack_into(self._mapped_for_append(), entries * 12, timestamp, relative)
            self._entries = entries + 1
            self.last_entry = TimeIndexEntry(timestamp, offset)

    def lookup(self, timestamp: int) -> TimeIndexEntry:
        """Give the last entry at or below `timestamp`; (-1, base offset) where there is none."""
        if timestamp >= self.last_entry.timestamp:
            return self.last_entry
        slot = self._find_slot(_TIMESTAMP, 0, timestamp)
        return self.entry(slot) if slot >= 0 else TimeIndexEntry(NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> TimeIndexEntry:
        """Give the entry at a slot, counted from 0."""
        if not 0 <= slot < self._entries:
            raise IndexError(f"{self.path}: slot {slot} of {self._entries}")
        timestamp, relative = _ENTRY.unpack_from(self._mapped(), slot * 12)
        return TimeIndexEntry(timestamp, self.base_offset + relative)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at and above `offset`."""
        self._truncate_to_entries(self._find_slot(_OFFSET, 8, offset - 1 - self.base_offset) + 1)

    def sanity_check(self, *, every_entry: bool = False) -> None:
        """Raise `CorruptFile` where the file can't be a time index: a torn entry, a zeroed tail, order reversed.

        With `every_entry` the whole file is read, 30 ns an entry; without, its first and last entry.
        """
        self._check_whole_entries()
        if not self._entries:
            return
        first, last = self.entry(0), self.entry(self._entries - 1)
        if first.offset < self.base_offset:
            raise CorruptFile(self.path, f"begins with {tuple(first)}, before the base offset {self.base_offset}")
        if self._entries > 1 and (last.timestamp <= first.timestamp or last.offset < first.offset):
            raise CorruptFile(self.path, f"ends with {tuple(last)}, which is not after its first entry {tuple(first)}")
        if every_entry:
            self._check_every_entry()

    def _check_every_entry(self) -> None:
        mapping = self._mapped()
        for start in range(0, self._entries, _CHECKED_AT_ONCE):
            count = min(_CHECKED_AT_ONCE + 1, self._entries - start)
            values = Struct(">" + "qi" * count).unpack_from(mapping, start * 12)
            timestamps, offsets = values[::2], values[1::2]
            if any(map(ge, timestamps, timestamps[1:])) or any(map(gt, offsets, offsets[1:])):
                raise CorruptFile(self.path, f"entries from {start} on are not in ascending order")

    def _load_last_entry(self) -> None:
        entries = self._entries
        self.last_entry = self.entry(entries - 1) if entries else TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
