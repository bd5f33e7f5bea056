"""Compacted logs for tests: keyed batches, one cleaning in a row, and what a consumer finds afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tailrace.protocol.records.batch_header import BatchHeader, iterate_batch_headers
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.reader import read_batch, read_records
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.settings.broker_config import BrokerConfig
from tailrace.storage.batch_scan import walk
from tailrace.storage.cleanable import cleanable_range
from tailrace.storage.cleaner_pace import CleanerPace
from tailrace.storage.cleaning_plan import CleaningPlan
from tailrace.storage.cleaning_planner import plan_cleaning
from tailrace.storage.log import Log
from tailrace.storage.segment_cleaner import SegmentCleaner
from tailrace.storage.segment_swap import swap_in

Pair = tuple[str, str | None]


def put(
    log: Log,
    *pairs: Pair,
    compression: Compression = Compression.NONE,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
    timestamp: int | None = None,
) -> int:
    """Append one batch of keys and values (None is a tombstone); give its first offset."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    now = log.context.clock.time_ms() if timestamp is None else timestamp
    records = [
        Record(slot, now, key.encode(), None if value is None else value.encode())
        for slot, (key, value) in enumerate(pairs)
    ]
    data = write_batch(
        records,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )
    offset = log.append_as_leader(data, leader_epoch=0).first_offset
    log.update_high_watermark(log.log_end_offset)
    return offset


def clean(
    log: Log,
    *,
    checkpoint: int | None = None,
    broker: BrokerConfig | None = None,
    change_plan: Callable[[CleaningPlan], object] | None = None,
) -> int:
    """Clean a log here and now, whatever its ratio; give the offset up to which it is clean."""
    chosen = cleanable_range(log, checkpoint, log.context.clock.time_ms())
    if not chosen.cleanable_bytes:
        return chosen.first_dirty_offset
    plan = plan_cleaning(chosen, broker or BrokerConfig({}), log.context.clock.time_ms())
    if change_plan is not None:
        change_plan(plan)
    sources = {segment.base_offset: segment for segment in log.segments}
    cleaner = SegmentCleaner(plan, log.context.disk, CleanerPace(log.context.clock, float("inf")))
    end_offset = cleaner.build_map().end_offset
    while (cleaned := cleaner.clean_next()) is not None:
        assert swap_in(log, cleaned, [sources[source.base_offset] for source in cleaned.sources])
        log.context.disk.sync_directory(log.directory)
    return end_offset


def roll_and_clean(log: Log, *, checkpoint: int | None = None) -> int:
    """Close the active segment, so that everything so far may be cleaned, and clean."""
    if log.active.size:
        log.roll()
    return clean(log, checkpoint=checkpoint)


def raw(log: Log) -> bytes:
    """Give everything from the log start offset on, fetch after fetch."""
    found = b""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        result = log.read(offset, max_bytes=1 << 24, upper_offset=log.log_end_offset, min_one_message=True)
        if not result.records:
            break
        found += bytes(result.records)
        last = [header for _, header in iterate_batch_headers(result.records)][-1]
        assert last.last_offset >= offset
        offset = last.next_offset
    return found


def headers(log: Log) -> list[BatchHeader]:
    return [header for _, header in iterate_batch_headers(raw(log))]


def records(log: Log) -> list[Record]:
    """Give every record that is no marker."""
    data = raw(log)
    found: list[Record] = []
    for position, header in iterate_batch_headers(data):
        if not header.is_control:
            found += read_batch(data, position, header)
    return found


def left(log: Log) -> list[tuple[int, str, str | None]]:
    """Give offset, key and value of every record that is no marker."""
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in records(log)
    ]


def committed(log: Log) -> list[Record]:
    """Give what a read_committed consumer gets, which is told the aborted transactions with each fetch."""
    end = log.last_stable_offset
    aborted = log.collect_aborted_transactions(log.log_start_offset, end)
    data = raw(log)
    found: list[Record] = []
    for position, header in iterate_batch_headers(data):
        is_aborted = header.is_transactional and any(
            one.producer_id == header.producer_id and one.first_offset <= header.base_offset < one.last_offset
            for one in aborted
        )
        if header.base_offset < end and not header.is_control and not is_aborted:
            found += read_batch(data, position, header)
    return found


def latest(found: Sequence[Record]) -> dict[bytes, bytes]:
    """Give the last value of each key, as a table made of the topic has it."""
    table: dict[bytes, bytes] = {}
    for record in found:
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


def every_record(directory: Path) -> list[Record]:
    """Give every record in the segments of a directory, as the files have it; a cut tail ends it."""
    found: list[Record] = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for span in walk(memoryview(data), 0, len(data)):
            found += read_records(data[span.position : span.end])
    return found
