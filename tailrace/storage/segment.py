"""A segment: one `.log` file named by its base offset, with its indexes.

Lives here: appending batches, finding the position of an offset, giving slices of the mapping, rolling conditions that
a segment knows, trimming, truncating. Promises: a read is a slice of the mapped file, never a copy, and stays valid as
long as somebody holds it; space is allocated before it is written, so a full disk is an error and not a signal; after a
failed append the segment is as before. Leaves to others: offsets and validity of what is appended (`log_append`),
checking bytes against their checksums (`segment_check`), recovery (`segment_recovery`).

Files are opened and mapped at their first use: a thousand idle partitions hold no descriptor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.records.batch_header import BatchHeader
from tailrace.storage.batch_scan import NO_TIMESTAMP, BatchSpan, read_span, walk
from tailrace.storage.disk import Disk, DiskError, DiskFile, grown_size
from tailrace.storage.errors import CorruptFile
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.offset_index import OffsetIndex
from tailrace.storage.time_index import TimeIndex
from tailrace.storage.transaction_index import TransactionIndex
from tailrace.storage.verified_ranges import VerifiedRanges

STORE_BYTES_MAX = 4 * 1024
"""Up to this size an append is a store into the mapping, above it a pwrite: a store of 200 bytes costs 0.3 µs, a pwrite
1.1 µs; at 4 KB a store, which faults a page in, 3 to 6 µs, a pwrite 3 µs; at 64 KB 55 and 11. See bench/append.py."""
RELATIVE_OFFSET_MAX = 2**31 - 1
_PAGE_BYTES = 4096
_KINDS = (".log", ".index", ".timeindex", ".txnindex")


@dataclass(slots=True)
class SegmentLimits:
    """What of a topic's settings a segment goes by."""

    segment_bytes: int
    index_bytes: int
    index_interval_bytes: int


def segment_file_name(base_offset: int, suffix: str) -> str:
    """Name a file of a segment as Kafka does: twenty digits and a suffix such as `.log`."""
    return f"{base_offset:020d}{suffix}"


class Segment:
    """Batches from `base_offset` on, in one file."""

    __slots__ = (
        "_capacity",
        "_disk",
        "_file",
        "_offset_index",
        "_read_view",
        "_time_index",
        "_time_index_is_loaded",
        "_transaction_index",
        "_view",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "directory",
        "first_timestamp",
        "is_closed",
        "is_growing",
        "limits",
        "max_timestamp",
        "may_have_full_index",
        "offset_of_max_timestamp",
        "roll_jitter_ms",
        "size",
        "suffix",
        "unverified",
    )

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        base_offset: int,
        *,
        limits: SegmentLimits,
        created_ms: int,
        size: int = 0,
        roll_jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.limits = limits
        self.created_ms = created_ms
        self.roll_jitter_ms = roll_jitter_ms
        self.size = size
        self.suffix = suffix
        self.is_closed = False
        """Whether `close` was called; a thread that syncs the segment meanwhile may find it so."""
        self.is_growing = False
        """Whether files are longer than what is in them: `trim` is due before the process ends."""
        self.may_have_full_index = size > 0
        """Whether an index may have no room for another entry: not known before they are opened, see has_full_index."""
        self.bytes_since_index_entry = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = NO_TIMESTAMP
        self.first_timestamp: int | None = None
        self.unverified = VerifiedRanges(size) if size else None
        self._capacity = size
        self._file: DiskFile | None = None
        self._view: memoryview | None = None
        self._read_view: memoryview | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._time_index_is_loaded = size == 0
        self._transaction_index: TransactionIndex | None = None

    # -- appending --------------------------------------------------------------------------------------------------

    def append(self, records: Buffer, headers: Sequence[BatchHeader], size: int) -> None:
        """Put the first `size` bytes of `records` at the end and index them. Offsets are already in the batches."""
        position = self.size
        end = position + size
        if end > self._capacity:
            self._grow(end)
        view = self._view
        if view is None:
            view = self._map(self._capacity)
        if not self._time_index_is_loaded:
            self.load_largest_timestamp()
        if self._offset_index is None:
            # Opening may make the indexes anew, from what is in the file: it must not come after the first change here.
            self._open_indexes()
        data = records if size == len(records) else memoryview(records)[:size]
        if size <= STORE_BYTES_MAX:
            view[position:end] = data
        else:
            self.file.write_at(position, data)
        if position == 0 and headers[0].max_timestamp >= 0:
            self.first_timestamp = headers[0].max_timestamp
        for header in headers:
            batch_size = header.batch_length + 12
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.base_offset + header.last_offset_delta
            if self.bytes_since_index_entry > self.limits.index_interval_bytes:
                self.add_index_entry(header.base_offset + header.last_offset_delta, position)
            self.bytes_since_index_entry += batch_size
            position += batch_size
        self.size = end

    def add_index_entry(self, last_offset: int, position: int) -> None:
        """Note the batch at `position` in both indexes, unless one is full: then the segment rolls before the next."""
        if not (self.offset_index.is_full or self.time_index.is_full):
            self.offset_index.append(last_offset, position)
            if self.max_timestamp >= 0:
                self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self._look_for_room_in_indexes()
        self.bytes_since_index_entry = 0

    def _grow(self, needed: int) -> None:
        """Allocate and map room for `needed` bytes, and ahead of need as long as the disk has it."""
        wanted = grown_size(self._capacity, needed, max(self.limits.segment_bytes, needed))
        try:
            self.file.allocate(self.size, wanted - self.size)
        except DiskError as error:
            wanted = -(-needed // _PAGE_BYTES) * _PAGE_BYTES
            if not error.is_disk_full:
                raise
            self.file.allocate(self.size, wanted - self.size)
        self._map(wanted)
        self._capacity = wanted
        self.is_growing = True

    def _map(self, length: int) -> memoryview:
        """Make a new mapping; the old one lives as long as somebody holds a slice of it."""
        view = memoryview(self.file.map(length, writable=True))
        self._view = view
        self._read_view = view.toreadonly()
        return view

    def has_room_for_offset(self, offset: int) -> bool:
        """Whether the offset's distance from the base offset fits the indexes."""
        return 0 <= offset - self.base_offset <= RELATIVE_OFFSET_MAX

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def view(self) -> memoryview:
        """The mapped file, read-only; only the first `size` bytes mean anything."""
        if self._read_view is None:
            return self._map(self.size).toreadonly() if self.size else memoryview(b"")
        return self._read_view

    def find(self, offset: int, start: int = -1) -> BatchSpan | None:
        """Find the first batch whose last offset is at or above `offset`; None where the segment ends before.

        `start` is a position known to be at or before it, such as that of an earlier find.
        """
        view, size = self.view, self.size
        position = start if start >= 0 else self._indexed_position(offset)
        while position < size:
            span = read_span(view, position, size)
            if span is None:
                raise SegmentDamaged(self.log_path, position, "no record batch begins where one must")
            if span.last_offset >= offset:
                return span
            position += span.size
        return None

    def _indexed_position(self, offset: int) -> int:
        """Ask the offset index where to begin; an index that points wrong is made anew."""
        if self.size <= self.limits.index_interval_bytes:
            return 0
        entry = self.offset_index.lookup(offset)
        if entry.position == 0:
            return 0
        span = read_span(self.view, entry.position, self.size)
        if span is not None and span.last_offset == entry.offset:
            return entry.position
        self.rebuild_indexes()
        return self.offset_index.lookup(offset).position

    def next_offset(self) -> int:
        """Give the offset behind the last batch; the base offset where there is none."""
        if not self.size:
            return self.base_offset
        position = self._indexed_position(self.base_offset + RELATIVE_OFFSET_MAX)
        last_offset = self.base_offset - 1
        while position < self.size:
            span = read_span(self.view, position, self.size)
            if span is None:
                raise SegmentDamaged(self.log_path, position, "no record batch begins where one must")
            last_offset = span.last_offset
            position += span.size
        return last_offset + 1

    def load_first_timestamp(self) -> int:
        """Give the time by which the segment's age is counted: the first batch's; -1 where it has none."""
        if self.first_timestamp is None:
            if not self.size:
                return NO_TIMESTAMP
            span = read_span(self.view, 0, self.size)
            self.first_timestamp = span.max_timestamp if span is not None else NO_TIMESTAMP
        return self.first_timestamp

    def load_largest_timestamp(self) -> int:
        """Give the largest timestamp of the segment, -1 where no record has one. Read from the time index once."""
        if not self._time_index_is_loaded:
            self._time_index_is_loaded = True
            last = self.time_index.last_entry
            timestamp, offset = last if self.time_index.entries else (NO_TIMESTAMP, NO_TIMESTAMP)
            start = self._indexed_position(last.offset) if self.time_index.entries else 0
            for span in walk(self.view, start, self.size):
                if span.max_timestamp > timestamp:
                    timestamp, offset = span.max_timestamp, span.last_offset
            self.max_timestamp, self.offset_of_max_timestamp = timestamp, offset
        return self.max_timestamp

    # -- files ------------------------------------------------------------------------------------------------------

    def path(self, suffix: str) -> Path:
        """Give the path of the segment's file of that kind (`.log`, `.index`, ...), as it is named now."""
        return self.directory / (segment_file_name(self.base_offset, suffix) + self.suffix)

    @property
    def log_path(self) -> Path:
        """The path of the `.log` file."""
        return self.path(".log")

    @property
    def file(self) -> DiskFile:
        """The open `.log` file."""
        if self._file is None:
            self._file = self._disk.open(self.log_path)
        return self._file

    def modified_ms(self) -> int:
        """Give the time of the file's last change, which stands for a timestamp where records have none."""
        return self._disk.modified_ms(self.log_path)

    def preallocate(self) -> None:
        """Take the segment's full size on disk at once, as `preallocate=true` asks."""
        self._grow(self.limits.segment_bytes)

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index; made anew from the log where its file is missing or can't be right."""
        if self._offset_index is None:
            self._open_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index; made anew from the log where its file is missing or can't be right."""
        if self._time_index is None:
            self._open_indexes()
        assert self._time_index is not None
        return self._time_index

    @property
    def transaction_index(self) -> TransactionIndex:
        """The index of aborted transactions."""
        if self._transaction_index is None:
            self._transaction_index = TransactionIndex(self._disk, self.path(".txnindex"), self.base_offset)
        return self._transaction_index

    def _open_indexes(self) -> None:
        self._make_index_objects()
        assert self._offset_index is not None
        assert self._time_index is not None
        try:
            self._offset_index.sanity_check(log_bytes=self.size)
            self._time_index.sanity_check()
        except CorruptFile:
            self.rebuild_indexes()
            return
        if self.size > self.limits.index_interval_bytes * 2 and not self._offset_index.entries:
            self.rebuild_indexes()
        self._look_for_room_in_indexes()

    def has_full_index(self) -> bool:
        """Whether an index has no room for another entry, and the segment has to roll. Opens them."""
        self._look_for_room_in_indexes()
        return self.may_have_full_index

    def _look_for_room_in_indexes(self) -> None:
        self.may_have_full_index = self.offset_index.is_full or self.time_index.is_full

    def _make_index_objects(self) -> None:
        size_max = self.limits.index_bytes
        self._offset_index = OffsetIndex(self._disk, self.path(".index"), self.base_offset, size_bytes_max=size_max)
        self._time_index = TimeIndex(self._disk, self.path(".timeindex"), self.base_offset, size_bytes_max=size_max)

    def discard_indexes(self) -> None:
        """Remove both index files and begin with empty ones."""
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.abandon()
        self._disk.unlink(self.path(".index"))
        self._disk.unlink(self.path(".timeindex"))
        self._make_index_objects()
        self.may_have_full_index = False
        self.bytes_since_index_entry = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = NO_TIMESTAMP
        self._time_index_is_loaded = True

    def rebuild_indexes(self) -> None:
        """Make both indexes anew by walking over the batches."""
        self.discard_indexes()
        for span in walk(self.view, 0, self.size):
            self.index_span(span)
        self.close_time_index()

    def index_span(self, span: BatchSpan) -> None:
        """Note a batch that is already in the file, as `append` would have."""
        if span.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = span.max_timestamp, span.last_offset
        if self.bytes_since_index_entry > self.limits.index_interval_bytes:
            self.add_index_entry(span.last_offset, span.position)
        self.bytes_since_index_entry += span.size

    def close_time_index(self) -> None:
        """Write the largest timestamp down in the slot kept for it, so that it is known without the log."""
        if self.load_largest_timestamp() >= 0:
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp, is_closing=True)

    def trim(self) -> None:
        """Cut the files to what is in them, as Kafka's tools expect of a segment that is not appended to."""
        if self.size:
            self.close_time_index()
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
        if self._capacity != self.size:
            self.file.truncate(self.size)
            self._capacity = self.size
        self.is_growing = False

    def truncate_to(self, offset: int) -> int:
        """Remove the batches from the one that holds `offset` on; say how many bytes went.

        The range reads as zeros at once, also through slices that somebody still holds.
        """
        span = self.find(offset)
        if span is None:
            return 0
        removed = self.size - span.position
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self._look_for_room_in_indexes()
        self.file.truncate(span.position)
        self.file.truncate(self._capacity)
        self.file.allocate(span.position, self._capacity - span.position)
        self.size = span.position
        self.bytes_since_index_entry = 0
        self._time_index_is_loaded = False
        if self.unverified is not None:
            self.unverified.truncate(span.position)
        if not self.size:
            self.first_timestamp = None
        self.load_largest_timestamp()
        return removed

    def cut_tail(self, size: int) -> None:
        """Set the file's length to `size`, before anything reads or maps it: for recovery."""
        self._view = self._read_view = None
        self.file.truncate(size)
        self.size = self._capacity = size

    def sync(self, *, with_indexes: bool = False) -> None:
        """Wait until the data is on disk; for threads. The index of a segment in use can be made from its log."""
        kinds = _KINDS if with_indexes else (".log",)
        for kind in kinds:
            file = self._file if kind == ".log" else None
            if file is not None:
                file.sync()
            elif kind == ".log" or self._disk.exists(self.path(kind)):
                # Opened apart: the event loop may open the segment's own file at the same moment.
                file = self._disk.open(self.path(kind))
                try:
                    file.sync()
                finally:
                    file.close()

    @property
    def is_removed(self) -> bool:
        """Whether the segment is out of its log: files were renamed or closed, perhaps under a thread's hands."""
        return self.is_closed or bool(self.suffix)

    def rename(self, suffix: str) -> None:
        """Give every file of the segment another suffix, such as `.deleted`."""
        old_paths = self.existing_paths()
        self._close_indexes()
        self.suffix = suffix
        for kind, path in old_paths.items():
            self._disk.rename(path, self.path(kind), sync=False)
        if self._file is not None:
            self._file.path = self.log_path

    def existing_paths(self) -> dict[str, Path]:
        """Give the files that the segment has, by kind."""
        return {kind: path for kind in _KINDS if self._disk.exists(path := self.path(kind))}

    def delete_files(self) -> None:
        """Remove every file of the segment; slices that somebody holds stay valid."""
        self.close()
        for path in self.existing_paths().values():
            self._disk.unlink(path)

    def close(self) -> None:
        """Give descriptors and mappings back without touching the files' lengths. Slices stay valid."""
        self.is_closed = True
        self._view = self._read_view = None
        self._close_indexes()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _close_indexes(self) -> None:
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.abandon()
        self._offset_index = self._time_index = self._transaction_index = None
