"""Records of a batch as the bytes they are: what compaction needs of each, and batches of those that stay.

Compaction asks of a record only its offset, its key and whether it has a value; value and headers are copied without a
look inside. `scan_records` gives that at 0.6 µs a record, and `rewrite_batch` makes the batch of those that are kept
byte for byte as Kafka does where nothing is compressed: the first record's timestamp, or the delete horizon, becomes
the base of the others (KIP-534), offsets and the batch's last offset stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tailrace.protocol.checksum import crc32c
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.batch_header import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    CRC_OFFSET,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    NO_TIMESTAMP,
    BatchHeader,
    TimestampType,
)
from tailrace.protocol.records.compression import Compression, compress
from tailrace.protocol.records.corrupt import CorruptRecords
from tailrace.protocol.records.varint import decode_long, encode_varint


class RawRecord(NamedTuple):
    """What is known of a record without decoding it: `start` and `end` are its place, length included."""

    offset: int
    key: bytes | None
    has_value: bool
    start: int
    end: int


def scan_records(body: bytes, header: BatchHeader) -> list[RawRecord]:
    """Find the records in a batch's decompressed bytes; CORRUPT_MESSAGE where they are not what the header says."""
    try:
        return _scan(body, header)
    except (CorruptRecords, IndexError) as error:
        reason = "the last record is cut off" if isinstance(error, IndexError) else str(error)
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {header.base_offset}: {reason}") from error


def _scan(data: bytes, header: BatchHeader) -> list[RawRecord]:
    base_offset = header.base_offset
    found: list[RawRecord] = []
    append = found.append
    position = 0
    for _ in range(header.records_count):
        start = position
        length = data[position]
        position += 1
        if length > 127:
            length, position = decode_long(data, position - 1, 32)
        end = position + (length >> 1)
        position += 1
        while data[position] > 127:  # The timestamp does not matter here.
            position += 1
        position += 1
        number = data[position]
        position += 1
        if number > 127:
            number, position = decode_long(data, position - 1, 32)
        offset = base_offset + (number >> 1 ^ -(number & 1))
        number = data[position]
        position += 1
        if number > 127:
            number, position = decode_long(data, position - 1, 32)
        key = None
        if not number & 1:
            key = data[position : position + (number >> 1)]
            position += number >> 1
        elif number != 1:
            raise CorruptRecords(f"record {len(found)} has a key of negative length")
        append(RawRecord(offset, key, data[position] != 1, start, end))
        if position >= end or length & 1:
            raise CorruptRecords(f"record {len(found) - 1} is not as long as it says")
        position = end
    if position != len(data):
        raise CorruptRecords(f"{header.records_count} records take {position} of {len(data)} bytes")
    return found


def rewrite_batch(
    header: BatchHeader, body: bytes, records: Sequence[RawRecord], *, delete_horizon_ms: int | None
) -> bytearray:
    """Make a batch of those `records` of `body` that stay; there must be one at least.

    Everything else of the batch remains: codec, producer, sequence, leader epoch, first and last offset. With
    LogAppendTime the max timestamp, every record's time, does too; otherwise it is that of the records that stay.
    """
    old_base = header.base_timestamp
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    if is_append_time:
        timestamps = [header.max_timestamp] * len(records)
    else:
        timestamps = [old_base + _timestamp_delta(body, record.start) for record in records]
    base = timestamps[0] if delete_horizon_ms is None else delete_horizon_ms
    pieces: list[bytes] = []
    for record, timestamp in zip(records, timestamps, strict=True):
        if base == old_base and not is_append_time:
            pieces.append(body[record.start : record.end])
            continue
        attributes_at = _skip_varint(body, record.start)
        rest = body[_skip_varint(body, attributes_at + 1) : record.end]
        content = body[attributes_at : attributes_at + 1] + encode_varint(timestamp - base) + rest
        pieces += (encode_varint(len(content)), content)
    return _assemble(
        header,
        b"".join(pieces),
        base_timestamp=base,
        max_timestamp=header.max_timestamp if is_append_time else max(timestamps),
        has_horizon=delete_horizon_ms is not None,
        records_count=len(records),
    )


def empty_batch(header: BatchHeader) -> bytearray:
    """Make the batch without records that stands for one whose producer is still known by it, or that ends a log."""
    bare = header.attributes & ~COMPRESSION_MASK
    return _assemble(
        header,
        b"",
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        has_horizon=False,
        records_count=0,
        attributes=bare,
    )


def _assemble(
    header: BatchHeader,
    body: bytes,
    *,
    base_timestamp: int,
    max_timestamp: int,
    has_horizon: bool,
    records_count: int,
    attributes: int | None = None,
) -> bytearray:
    if attributes is None:
        attributes = header.attributes
    attributes &= ~DELETE_HORIZON_FLAG
    if has_horizon:
        attributes |= DELETE_HORIZON_FLAG
    codec = Compression(attributes & COMPRESSION_MASK)
    batch = bytearray(HEADER_SIZE)
    batch += body if codec is Compression.NONE else compress(codec, body)
    HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        len(batch) - LENGTH_END,
        header.partition_leader_epoch,
        2,
        0,
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        records_count,
    )
    crc = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
    batch[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc.to_bytes(4, "big")
    return batch


def _skip_varint(data: bytes, position: int) -> int:
    while data[position] > 127:
        position += 1
    return position + 1


def _timestamp_delta(data: bytes, start: int) -> int:
    position = _skip_varint(data, start) + 1
    number = data[position]
    if number > 127:
        number, _ = decode_long(data, position, 64)
    return number >> 1 ^ -(number & 1)
