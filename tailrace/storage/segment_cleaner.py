"""One cleaning of one log: reads its closed segments, writes smaller ones beside them.

    build_map    the keys of the dirty segments, up to the one that no longer fits the memory
    clean_next   the next few segments, from the first of the log on, into one `.cleaned` segment, synced to disk

Nothing else is touched: a cleaning may be given up at any moment, and what it left is removed at the next one or at
the next start. It reads with its own descriptors and never through a mapping, so a log that is cut or deleted
meanwhile is a short read or a missing file here, not a signal. Every batch is checked against its checksum before it is
copied. Runs on a thread or in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.batch_header import BatchHeader, read_batch_header
from tailrace.storage.batch_retention import BatchRetention, fill_map, fill_map_from_message
from tailrace.storage.batch_scan import BatchSpan, checksum_matches, read_span
from tailrace.storage.cleaned_transactions import CleanedTransactions
from tailrace.storage.cleaning_plan import CleanedSegment, CleaningPlan, MapReport, SourceSegment
from tailrace.storage.disk import Disk
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.offset_map import OffsetMap
from tailrace.storage.segment import RELATIVE_OFFSET_MAX, Segment, segment_file_name
from tailrace.storage.swap_files import CLEANED_SUFFIX
from tailrace.storage.transaction_index import TransactionIndex

KINDS = (".log", ".index", ".timeindex", ".txnindex")
SOURCES_MAX = 32
"""How many segments become one at most: taking their place is one step of the event loop, and each costs it three
renames (about 30 µs)."""
_READ_BYTES_MIN = 64 * 1024


class Pace(Protocol):
    """Holds a cleaner back: by the bytes it may move a second, and where it shares an interpreter with the event loop.

    May raise, which gives the cleaning up.
    """

    def moved(self, bytes_count: int) -> None:
        """Take note of bytes read or written, after every batch."""
        ...


class SegmentCleaner:
    """Performs a plan."""

    def __init__(self, plan: CleaningPlan, disk: Disk, pace: Pace) -> None:
        self._plan = plan
        self._disk = disk
        self._pace = pace
        self._map = OffsetMap(
            plan.limits.map_bytes,
            load_factor=plan.limits.map_load_factor,
            entries_max=plan.first_uncleanable_offset - plan.first_dirty_offset,
        )
        self._retention: BatchRetention | None = None
        self._groups: list[list[SourceSegment]] = []
        self._old_delete_horizon_ms = 0

    # -- the map ----------------------------------------------------------------------------------------------------

    def build_map(self) -> MapReport:
        """Read the dirty segments; raises DiskError or SegmentDamaged, as everything here."""
        plan = self._plan
        start, offset_map = plan.first_dirty_offset, self._map
        report = MapReport(start, 0.0, 0, 0)
        # One that ended before is no longer open here: what its producer wrote since is not aborted.
        transactions = CleanedTransactions(one for one in plan.aborted if one.last_offset >= start)
        for slot, source in enumerate(plan.segments):
            end = self._end_of(slot)
            if end <= start:
                continue
            if not self._map_segment(source, transactions, report):
                break
            # Offsets may have a gap at the segment's end.
            offset_map.update_latest_offset(end - 1)
        report.end_offset = max(offset_map.latest_offset + 1, start)
        report.utilization = offset_map.utilization
        self._prepare(report.end_offset)
        return report

    def _map_segment(self, source: SourceSegment, transactions: CleanedTransactions, report: MapReport) -> bool:
        """Put a segment's keys into the map; False where they are not all there."""
        start, offset_map = self._plan.first_dirty_offset, self._map
        for span, batch in self._batches(source):
            self._pace.moved(span.size)
            report.bytes_read += span.size
            if span.last_offset < start:
                continue
            with _Reading(source, span):
                if span.magic < 2:
                    is_whole, count = fill_map_from_message(offset_map, batch, start_offset=start)
                else:
                    is_whole, count = fill_map(offset_map, transactions, batch, start_offset=start)
            report.records_read += count
            if not is_whole:
                return False
            offset_map.update_latest_offset(span.last_offset)
        return True

    def _prepare(self, end_offset: int) -> None:
        plan = self._plan
        self._retention = BatchRetention(
            self._map,
            CleanedTransactions(plan.aborted),
            plan.last_batches,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.delete_retention_ms,
            round_end_offset=plan.first_uncleanable_offset,
        )
        clean = [source for source in plan.segments if source.base_offset < plan.first_dirty_offset]
        if clean:
            # Before horizons were written down: a tombstone went this long after its segment was last written.
            self._old_delete_horizon_ms = clean[-1].modified_ms - plan.delete_retention_ms
        self._groups = self._group([source for source in plan.segments if source.base_offset < end_offset])

    # -- groups -----------------------------------------------------------------------------------------------------

    def _group(self, sources: list[SourceSegment]) -> list[list[SourceSegment]]:
        """Put neighbours together that fit one segment even if nothing in them can go."""
        limits = self._plan.segment_limits
        groups: list[list[SourceSegment]] = []
        room = index_room = time_index_room = 0
        for slot, source in enumerate(sources):
            index_bytes, time_index_bytes = self._index_bytes(source)
            fits = (
                bool(groups)
                and len(groups[-1]) < SOURCES_MAX
                and source.size <= room
                and index_bytes <= index_room
                and time_index_bytes <= time_index_room
                and (source.size == 0 or self._end_of(slot) - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
            )
            if fits:
                groups[-1].append(source)
            else:
                groups.append([source])
                room, index_room, time_index_room = limits.segment_bytes, limits.index_bytes, limits.index_bytes
            room -= source.size
            index_room -= index_bytes
            time_index_room -= time_index_bytes
        return groups

    def _index_bytes(self, source: SourceSegment) -> tuple[int, int]:
        sizes: list[int] = []
        for kind, entry_bytes in ((".index", 8), (".timeindex", 12)):
            path = source.path.with_suffix(kind)
            if self._disk.exists(path):
                sizes.append(self._disk.file_size(path))
            else:
                sizes.append(source.size // max(self._plan.segment_limits.index_interval_bytes, 1) * entry_bytes)
        return sizes[0], sizes[1]

    def _end_of(self, slot: int) -> int:
        """Give the offset where the plan's segment in this slot ends."""
        segments = self._plan.segments
        return segments[slot + 1].base_offset if slot + 1 < len(segments) else self._plan.first_uncleanable_offset

    # -- cleaning ---------------------------------------------------------------------------------------------------

    def clean_next(self) -> CleanedSegment | None:
        """Clean the next segments into one; None where all are done. Call it after `build_map`."""
        if not self._groups:
            return None
        sources = self._groups.pop(0)
        writer = _CleanedWriter(self._plan, self._disk, sources[0].base_offset)
        try:
            result = CleanedSegment(sources[0].base_offset, 0, sources)
            for source in sources:
                self._clean_segment(source, writer, result)
            assert self._retention is not None
            result.size = writer.finish(self._retention.transactions, modified_ms=sources[-1].modified_ms)
        finally:
            writer.close()
        return result

    def _clean_segment(self, source: SourceSegment, writer: _CleanedWriter, result: CleanedSegment) -> None:
        retention = self._retention
        assert retention is not None
        retention.keeps_old_deletes = source.modified_ms > self._old_delete_horizon_ms
        read, kept = retention.records_read, retention.records_kept
        for span, batch in self._batches(source):
            result.bytes_read += span.size
            with _Reading(source, span):
                if span.magic < 2:
                    left = retention.filter_message(batch, span.magic)
                else:
                    left = retention.filter_batch(batch, read_batch_header(batch))
            if left is not None:
                writer.append(left)
            self._pace.moved(span.size + (0 if left is None else len(left)))
        result.records_read += retention.records_read - read
        result.records_kept += retention.records_kept - kept

    # -- reading ----------------------------------------------------------------------------------------------------

    def _batches(self, source: SourceSegment) -> Iterator[tuple[BatchSpan, memoryview]]:
        """Give a segment's batches, each checked; what is given stays valid."""
        file = self._disk.open(source.path, writable=False)
        read_bytes = max(self._plan.limits.buffer_bytes, _READ_BYTES_MIN)
        try:
            position = 0
            while position < source.size:
                wanted = min(read_bytes, source.size - position)
                view = memoryview(file.read_at(position, wanted))
                start = 0
                while (span := read_span(view, start, len(view))) is not None:
                    if not checksum_matches(view, span):
                        raise SegmentDamaged(
                            source.path, position + start, f"batch at offset {span.base_offset} fails its CRC"
                        )
                    yield span._replace(position=position + start), view[start : span.end]
                    start = span.end
                if start == 0:
                    if len(view) < wanted or wanted == source.size - position:
                        raise SegmentDamaged(source.path, position, "no record batch begins where one must")
                    read_bytes *= 2  # One batch is larger than the buffer.
                position += start
        finally:
            file.close()


class _Reading:
    """Says of a batch that can't be read where it lies."""

    __slots__ = ("_source", "_span")

    def __init__(self, source: SourceSegment, span: BatchSpan) -> None:
        self._source = source
        self._span = span

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, ApiError | MalformedFrame):
            raise SegmentDamaged(self._source.path, self._span.position, str(error)) from error


class _CleanedWriter:
    """The `.cleaned` segment that is being written."""

    def __init__(self, plan: CleaningPlan, disk: Disk, base_offset: int) -> None:
        self._disk = disk
        remove_cleaned(disk, plan.directory, base_offset)
        segment = Segment(
            disk, plan.directory, base_offset, limits=plan.segment_limits, created_ms=plan.now_ms, suffix=CLEANED_SUFFIX
        )
        disk.open(segment.log_path, create=True).close()
        self._segment = segment
        self._buffer_bytes = max(plan.limits.buffer_bytes, _READ_BYTES_MIN)
        self._batches: list[Buffer] = []
        self._headers: list[BatchHeader] = []
        self._waiting_bytes = 0

    def append(self, batch: Buffer) -> None:
        """Add a batch."""
        span = read_span(memoryview(batch), 0, len(batch))
        assert span is not None
        self._batches.append(batch)
        self._headers.append(_header_for_index(span))
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= self._buffer_bytes:
            self._write()

    def _write(self) -> None:
        if self._batches:
            data = b"".join(self._batches)
            self._segment.append(data, self._headers, len(data))
            self._batches, self._headers, self._waiting_bytes = [], [], 0

    def finish(self, transactions: CleanedTransactions, *, modified_ms: int) -> int:
        """Write the rest, cut the files to size and sync them; give how many bytes of batches there are."""
        self._write()
        segment = self._segment
        index: TransactionIndex = segment.transaction_index
        for aborted in transactions.kept:
            index.append(aborted)
        transactions.kept.clear()
        segment.trim()
        segment.sync(with_indexes=True)
        # Retention goes by it where records have no timestamps.
        self._disk.set_modified_ms(segment.log_path, modified_ms)
        return segment.size

    def close(self) -> None:
        """Give descriptors and mappings back."""
        self._segment.close()


def _header_for_index(span: BatchSpan) -> BatchHeader:
    """Give what `Segment.append` asks of a batch, for a message of an old format too."""
    return BatchHeader(
        base_offset=span.base_offset,
        batch_length=span.size - 12,
        partition_leader_epoch=span.leader_epoch,
        magic=span.magic,
        crc=0,
        attributes=0,
        last_offset_delta=span.last_offset - span.base_offset,
        base_timestamp=span.max_timestamp,
        max_timestamp=span.max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=0,
    )


def remove_cleaned(disk: Disk, directory: Path, base_offset: int) -> None:
    """Remove what a cleaning that was given up has left of a segment."""
    for kind in KINDS:
        disk.unlink(directory / segment_file_name(base_offset, kind + CLEANED_SUFFIX))
