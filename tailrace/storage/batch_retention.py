"""What is left of one batch after compaction.

Of a record: it stays where it is the last of its key or lies beyond what the map covers; one without a value (a
tombstone) only until the batch's delete horizon, which the pass that first keeps it sets (KIP-534). One without a key
goes. Records of aborted transactions go, a marker once it has nothing to mark and its horizon has passed.

Of a batch without records: nothing, unless it is the last of a producer that is still active (its sequence and epoch
are known by it) or the last of the range that is cleaned (the log's end is known by it); then its header stays.

Messages of magic 0 and 1 stay as they are if all of a set stays; a set that loses some is written as a batch of today's
format, where Kafka would write the old one. Pure: bytes in, bytes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.records.batch_header import HEADER_SIZE, BatchHeader, TimestampType, read_batch_header
from tailrace.protocol.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from tailrace.protocol.records.control import ControlType, read_control_type
from tailrace.protocol.records.legacy import message_attributes, message_codec, read_message
from tailrace.protocol.records.raw_record import RawRecord, empty_batch, rewrite_batch, scan_records
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.storage.cleaned_transactions import CleanedTransactions
from tailrace.storage.offset_map import OffsetMap

_LOG_APPEND_TIME = 0x08


@dataclass(slots=True)
class LastBatch:
    """By what batch an active producer is known: the one that ends at this offset, or any marker of this epoch."""

    last_data_offset: int | None
    producer_epoch: int


@dataclass(slots=True)
class BatchRetention:
    """Decides batch after batch, in the order of offsets."""

    offset_map: OffsetMap
    transactions: CleanedTransactions
    last_batches: Mapping[int, LastBatch]
    now_ms: int
    delete_retention_ms: int
    round_end_offset: int
    """Where the range that may be cleaned ends; its last batch is kept, if only as a header."""
    keeps_old_deletes: bool = True
    """Whether tombstones of magic 0 and 1 stay: the horizon of their segment has not passed."""
    records_read: int = field(default=0)
    records_kept: int = field(default=0)

    def filter_batch(self, batch: Buffer, header: BatchHeader) -> Buffer | None:
        """Give what is left of a batch: itself, a smaller one, a header without records, or None."""
        horizon = header.delete_horizon_ms
        discards = False
        if header.is_control:
            body = _body(batch, header)
            records = scan_records(body, header)
            kind = _control_type(records)
            has_nothing_to_mark = self.transactions.discards_marker(header, kind)
            discards = has_nothing_to_mark and horizon is not None and horizon <= self.now_ms
            kept = [] if discards else records
            needs_horizon = has_nothing_to_mark and horizon is None and bool(kept)
        elif self.transactions.discards_data(header):
            kept, records, body, needs_horizon = [], None, b"", False
        else:
            body = _body(batch, header)
            records = scan_records(body, header)
            kept = self._filter(records, horizon)
            needs_horizon = horizon is None and not all(record.has_value for record in kept)
        self.records_read += header.records_count
        self.records_kept += len(kept)
        if not kept:
            return empty_batch(header) if self._keeps_empty(header) else None
        assert records is not None
        if needs_horizon:
            horizon = self.now_ms + self.delete_retention_ms
        elif len(kept) == len(records):
            return batch
        return rewrite_batch(header, body, kept, delete_horizon_ms=horizon)

    def _filter(self, records: list[RawRecord], horizon: int | None) -> list[RawRecord]:
        keeps_deletes = horizon is None or self.now_ms < horizon
        latest_offset, get = self.offset_map.latest_offset, self.offset_map.get
        kept: list[RawRecord] = []
        for record in records:
            offset, key, has_value, _, _ = record
            if offset > latest_offset or (key is not None and (has_value or keeps_deletes) and offset >= get(key)):
                kept.append(record)
        return kept

    def _keeps_empty(self, header: BatchHeader) -> bool:
        if header.next_offset == self.round_end_offset:
            return True
        if header.producer_id < 0:
            return False
        last = self.last_batches.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def filter_message(self, message: Buffer, magic: int) -> Buffer | None:
        """Do the same for a message of magic 0 or 1, or the set that one wraps."""
        records = read_message(message, 0, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
        kept = [record for record in records if self._keeps_message(record)]
        self.records_read += len(records)
        self.records_kept += len(kept)
        if len(kept) == len(records):
            return message
        if not kept:
            return None
        is_append_time = magic == 1 and message_attributes(message, 0) & _LOG_APPEND_TIME
        return write_batch(
            kept,
            base_offset=kept[0].offset,
            compression=message_codec(message, 0),
            timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        )

    def _keeps_message(self, record: Record) -> bool:
        if record.offset > self.offset_map.latest_offset:
            return True
        if record.key is None or (record.value is None and not self.keeps_old_deletes):
            return False
        return record.offset >= self.offset_map.get(record.key)


def fill_map(
    offset_map: OffsetMap, transactions: CleanedTransactions, batch: Buffer, *, start_offset: int
) -> tuple[bool, int]:
    """Put a batch's keys into the map, unless it was aborted; say whether all are in, and how many records it has."""
    header = read_batch_header(batch)
    if header.is_control:
        transactions.discards_marker(header, _control_type(scan_records(_body(batch, header), header)))
    elif not transactions.discards_data(header):
        put = offset_map.put
        for offset, key, _, _, _ in scan_records(_body(batch, header), header):
            if key is not None and offset >= start_offset and not put(key, offset):
                return False, header.records_count
    return True, header.records_count


def fill_map_from_message(offset_map: OffsetMap, message: Buffer, *, start_offset: int) -> tuple[bool, int]:
    """Do the same for a message of magic 0 or 1, or the set that one wraps."""
    records = read_message(message, 0, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
    for record in records:
        if record.key is not None and record.offset >= start_offset and not offset_map.put(record.key, record.offset):
            return False, len(records)
    return True, len(records)


def _control_type(records: list[RawRecord]) -> ControlType | None:
    return read_control_type(records[0].key) if records else None


def _body(batch: Buffer, header: BatchHeader) -> bytes:
    return bytes(decompress(header.compression, memoryview(batch)[HEADER_SIZE:], bytes_max=DECOMPRESSED_BYTES_MAX))
