"""Which leader epoch wrote which offsets of a log: `leader-epoch-checkpoint`, kept in memory too.

An entry (epoch, start offset) says that the epoch's first record is at that offset; it ends where the next begins. A
follower finds by it where its log parts from the leader's. Changes are written at once into the page cache and, when
the log is flushed, to disk: a log's recovery finds the epochs above the recovery point again in the batches.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from tailrace.storage.checkpoint_file import read_lines, write_lines
from tailrace.storage.disk import Disk
from tailrace.storage.errors import CorruptFile

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1
_epoch = attrgetter("epoch")
_start_offset = attrgetter("start_offset")


class EpochEntry(NamedTuple):
    """An epoch and the offset of its first record."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The leader epochs of one log, oldest first; epochs and start offsets both rise."""

    def __init__(self, disk: Disk, path: Path) -> None:
        """Read the checkpoint if there is one; `CorruptFile` where it is none."""
        self.path = path
        self._disk = disk
        self._entries = self._read() if disk.exists(path) else []
        # Another list, so that the first flush syncs the file: a process that was killed may have left it unsynced.
        self._entries_on_disk: list[EpochEntry] | None = list(self._entries)
        self.latest_epoch = _last_epoch(self._entries)
        """The last epoch that wrote, None in an empty log."""

    @classmethod
    def empty(cls, disk: Disk, path: Path) -> LeaderEpochCache:
        """Begin without looking at the file: it is damaged, and the log is about to be read for its epochs."""
        cache = cls.__new__(cls)
        cache.path = path
        cache._disk = disk
        cache._entries = []
        cache._entries_on_disk = None
        cache.latest_epoch = None
        return cache

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries; a copy."""
        return list(self._entries)

    @property
    def latest_entry(self) -> EpochEntry | None:
        """The last epoch that wrote and where it began."""
        return self._entries[-1] if self._entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """The first epoch of which there still are records."""
        return self._entries[0] if self._entries else None

    def previous_epoch(self, epoch: int) -> int | None:
        """Give the last epoch below `epoch` that wrote."""
        slot = self._first_above(epoch - 1)
        return self._entries[slot - 1].epoch if slot else None

    def epoch_for_offset(self, offset: int) -> int | None:
        """Give the epoch that wrote `offset`, None where that is older than the first entry."""
        slot = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[slot - 1].epoch if slot else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Say that `epoch` writes from `start_offset` on; say whether that was news.

        Entries that contradict it, of later epochs or later offsets, are removed: the log was truncated since.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"{self.path}: epoch {epoch} at offset {start_offset}: neither may be negative")
        if self._entries:
            latest = self._entries[-1]
            if latest.epoch == epoch and latest.start_offset <= start_offset:
                return False
        kept = [entry for entry in self._entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._replace([*kept, EpochEntry(epoch, start_offset)])
        return True

    def found(self, epoch: int, offset: int) -> None:
        """Believe a batch of `epoch` at `offset` that recovery found, rather than entries that speak against it.

        Those are of before a truncation: the log was cut on disk, and a loss of power has kept the old checkpoint.
        Everything from `offset` on has to be told, too.
        """
        if epoch >= 0 and self.epoch_for_offset(offset) != epoch:
            self.truncate_from_end(offset)
            self.assign(epoch, offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Give the largest known epoch at or below `epoch`, and the offset where it ends (exclusive).

        (-1, -1) where `epoch` is above all known ones. Where it is below all of them, `epoch` itself and the first
        entry's start: nothing of it is here any more.
        """
        if epoch == UNDEFINED_EPOCH or not self._entries:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if epoch == self._entries[-1].epoch:
            return epoch, log_end_offset
        slot = self._first_above(epoch)
        if slot == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        floor = self._entries[slot - 1].epoch if slot else epoch
        return floor, self._entries[slot].start_offset

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that begin at or above `end_offset`, where the log now ends."""
        if self._entries and self._entries[-1].start_offset >= end_offset >= 0:
            self._replace([entry for entry in self._entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end at or below `start_offset`; the one that has it now begins there."""
        passed = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if passed and passed != [(passed[-1].epoch, start_offset)]:
            self._replace([EpochEntry(passed[-1].epoch, start_offset), *self._entries[len(passed) :]])

    def clear(self) -> None:
        """Remove every entry."""
        self._replace([])

    def flush(self) -> None:
        """Wait until the entries are on disk, if they changed since the last time; blocks, so for threads.

        It syncs the file that is there and never writes it: the event loop may be replacing it meanwhile.
        """
        entries = self._entries
        if entries is not self._entries_on_disk and self._disk.exists(self.path):
            file = self._disk.open(self.path)
            try:
                file.sync()
            finally:
                file.close()
            self._disk.sync_directory(self.path.parent)
            self._entries_on_disk = entries

    def _first_above(self, epoch: int) -> int:
        return bisect_right(self._entries, epoch, key=_epoch)

    def _replace(self, entries: list[EpochEntry]) -> None:
        """Write first, believe afterwards: a full disk leaves memory and file as they were."""
        if entries != self._entries or self._entries_on_disk is None:
            lines = [f"{entry.epoch} {entry.start_offset}" for entry in entries]
            write_lines(self._disk, self.path, lines, sync=False)
            self._entries = entries
            self.latest_epoch = _last_epoch(entries)

    def _read(self) -> list[EpochEntry]:
        entries: list[EpochEntry] = []
        for fields in read_lines(self._disk, self.path):
            if len(fields) != 2 or not all(field.isascii() and field.isdigit() for field in fields):
                raise CorruptFile(self.path, f"an entry has an epoch and an offset, not {' '.join(fields)!r}")
            entry = EpochEntry(int(fields[0]), int(fields[1]))
            if entries and (entry.epoch <= entries[-1].epoch or entry.start_offset <= entries[-1].start_offset):
                raise CorruptFile(self.path, f"{entry} can't follow {entries[-1]}")
            entries.append(entry)
        return entries


def _last_epoch(entries: list[EpochEntry]) -> int | None:
    return entries[-1].epoch if entries else None
