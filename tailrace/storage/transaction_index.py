"""The `.txnindex` file of a segment: the aborted transactions whose marker lies in it.

An entry is 34 bytes, in the order of the markers, and the file exists only where there is one:

    0 int16 version, 0   2 int64 producer id   10 int64 first offset   18 int64 last offset (the marker's)
    26 int64 last stable offset, as it was when the marker was written

The entries are read at the first need and kept: a read_committed fetch asks every time. Appends go to the page cache.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from tailrace.storage.disk import Disk
from tailrace.storage.errors import CorruptFile

ENTRY_BYTES = 34
VERSION = 0
_ENTRY = Struct(">hqqqq")
_last_offset = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its records lie between first offset and last offset, which is its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of one segment."""

    def __init__(self, disk: Disk, path: Path, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._exists = disk.exists(path)
        self._entries: list[AbortedTransaction] | None = None if self._exists else []

    @property
    def is_empty(self) -> bool:
        """Whether no transaction was aborted in this segment."""
        return not self._loaded()

    @property
    def entries(self) -> list[AbortedTransaction]:
        """All entries, in the order of their markers; a copy."""
        return list(self._loaded())

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction; raise ValueError where its marker is not after the last one's."""
        entries = self._loaded()
        if entries and aborted.last_offset <= entries[-1].last_offset:
            raise ValueError(f"{self.path}: {aborted} does not come after {entries[-1]}")
        file = self._disk.open(self.path, create=True)
        try:
            file.write_at(len(entries) * ENTRY_BYTES, _ENTRY.pack(VERSION, *aborted))
        finally:
            file.close()
        self._exists = True
        entries.append(aborted)

    def collect(self, first_offset: int, upper_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Give the aborted transactions that overlap [first_offset, upper_offset), and whether those are all.

        They are all when an entry's last stable offset reaches `upper_offset`: a transaction of that range that ends in
        a later segment would have held the last stable offset back. Otherwise the next segment has to be asked too.
        """
        entries = self._loaded()
        found: list[AbortedTransaction] = []
        for slot in range(bisect_left(entries, first_offset, key=_last_offset), len(entries)):
            entry = entries[slot]
            if entry.first_offset < upper_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions whose marker is at or above `offset`."""
        entries = self._loaded()
        kept = bisect_left(entries, offset, key=_last_offset)
        if kept < len(entries):
            self._cut_file(kept)
            del entries[kept:]

    def reset(self) -> None:
        """Remove every entry, read or not: the segment's batches are about to be read again."""
        if self._exists:
            self._cut_file(0)
        self._entries = []

    def sanity_check(self) -> None:
        """Read the file anew; raise `CorruptFile` where it can't be a transaction index of this segment."""
        self._entries = None if self._exists else []
        self._loaded()

    def sync(self) -> None:
        """Wait until the entries are on disk; blocks, so for threads. Opens the file for itself."""
        if self._exists:
            file = self._disk.open(self.path)
            try:
                file.sync()
            finally:
                file.close()

    def rename(self, path: Path) -> None:
        """Rename the file, if there is one, and go on with it under the new name."""
        if self._exists:
            self._disk.rename(self.path, path, sync=False)
        self.path = path

    def _cut_file(self, entries: int) -> None:
        file = self._disk.open(self.path)
        try:
            file.truncate(entries * ENTRY_BYTES)
        finally:
            file.close()

    def _loaded(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = self._parse(self._disk.read_file(self.path))
        return self._entries

    def _parse(self, data: bytes) -> list[AbortedTransaction]:
        if len(data) % ENTRY_BYTES:
            raise CorruptFile(self.path, f"{len(data)} bytes are no multiple of {ENTRY_BYTES}")
        entries: list[AbortedTransaction] = []
        previous = self.base_offset - 1
        for version, *values in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*values)
            if version != VERSION:
                raise CorruptFile(self.path, f"entry {len(entries)} has version {version}, {VERSION} expected")
            in_order = 0 <= entry.first_offset <= entry.last_offset > previous
            if not in_order or entry.producer_id < 0 or not 0 <= entry.last_stable_offset <= entry.last_offset + 1:
                raise CorruptFile(self.path, f"entry {len(entries)} can't be, after offset {previous}: {entry}")
            previous = entry.last_offset
            entries.append(entry)
        return entries
