"""Rewriting batches: to magic 2, to another codec, to another timestamp type.

A broker does this where a topic's `compression.type` or the producer's old format asks for it. A batch of magic 2 stays
one batch, with its producer id, epoch, sequence, leader epoch and flags, so that duplicates are still found. Messages
of magic 0 and 1 that follow each other become one batch together. It reads and writes every record: it belongs on a
thread.
"""

from __future__ import annotations

from struct import Struct

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.records.batch_header import (
    LENGTH_END,
    BatchHeader,
    TimestampType,
    check_crc,
    magic_at,
    read_batch_header,
)
from tailrace.protocol.records.compression import DECOMPRESSED_BYTES_MAX, Compression
from tailrace.protocol.records.legacy import message_codec, read_message
from tailrace.protocol.records.reader import read_batch
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch

_length = Struct(">i")


def convert_records(
    buffer: Buffer,
    *,
    compression: Compression | None = None,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time_ms: int | None = None,
    keep_offsets: bool = False,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray:
    """Rewrite every batch of `buffer` as magic 2.

    Without `compression` each batch keeps its codec. With LOG_APPEND_TIME the max timestamp becomes
    `log_append_time_ms`, or stays where none is given. Offsets are counted up from 0 without gaps, as before an append;
    with `keep_offsets` they stay, gaps included. CORRUPT_MESSAGE or MalformedFrame as from `read_records`.
    """
    result = bytearray()
    next_offset = 0
    position, end = 0, len(buffer)
    while position < end:
        if magic_at(buffer, position) < 2:
            codec = message_codec(buffer, position)
            records, position = _read_messages(buffer, position, decompressed_bytes_max)
            source = None
        else:
            source = read_batch_header(buffer, position)
            codec = source.compression
            check_crc(buffer, position, source)
            records = read_batch(
                buffer,
                position,
                source,
                decompressed_bytes_max=decompressed_bytes_max,
                stored_timestamps=timestamp_type is TimestampType.LOG_APPEND_TIME,
            )
            position += source.size
        if not keep_offsets:
            next_offset = _number(records, source, next_offset)
        result += _write(
            records,
            source,
            compression=codec if compression is None else compression,
            level=level,
            timestamp_type=timestamp_type,
            log_append_time_ms=log_append_time_ms,
        )
    return result


def _read_messages(buffer: Buffer, position: int, decompressed_bytes_max: int) -> tuple[list[Record], int]:
    """Read the messages of magic 0 and 1 from `position` on; together they stand for a bounded number of bytes."""
    records: list[Record] = []
    end = len(buffer)
    left = decompressed_bytes_max
    while position < end and magic_at(buffer, position) < 2:
        read = read_message(buffer, position, decompressed_bytes_max=left)
        if message_codec(buffer, position) is not Compression.NONE:
            left -= sum(len(record.key or b"") + len(record.value or b"") for record in read)
        records += read
        position += LENGTH_END + _length.unpack_from(buffer, position + 8)[0]
    return records, position


def _number(records: list[Record], source: BatchHeader | None, next_offset: int) -> int:
    """Give the records offsets from `next_offset` on; give the offset behind them."""
    if source is not None:
        source.base_offset = next_offset
        source.last_offset_delta = max(len(records) - 1, 0)
    for offset, record in enumerate(records, next_offset):
        record.offset = offset
    return next_offset + len(records)


def _write(
    records: list[Record],
    source: BatchHeader | None,
    *,
    compression: Compression,
    level: int | None,
    timestamp_type: TimestampType,
    log_append_time_ms: int | None,
) -> bytearray:
    """Write the records as one batch, by the header they came with if there was one."""
    max_timestamp = log_append_time_ms if timestamp_type is TimestampType.LOG_APPEND_TIME else None
    if source is None:
        return write_batch(
            records,
            base_offset=records[0].offset,
            compression=compression,
            level=level,
            max_timestamp=max_timestamp,
            timestamp_type=timestamp_type,
        )
    if max_timestamp is None and (timestamp_type is TimestampType.LOG_APPEND_TIME or not records):
        max_timestamp = source.max_timestamp
    return write_batch(
        records,
        base_offset=source.base_offset,
        compression=compression,
        level=level,
        delete_horizon_ms=source.delete_horizon_ms,
        last_offset=source.last_offset,
        max_timestamp=max_timestamp,
        timestamp_type=timestamp_type,
        producer_id=source.producer_id,
        producer_epoch=source.producer_epoch,
        base_sequence=source.base_sequence,
        leader_epoch=source.partition_leader_epoch,
        is_transactional=source.is_transactional,
        is_control=source.is_control,
    )
