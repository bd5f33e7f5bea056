"""Making record batches (magic 2).

`write_batch` makes one batch of records that are there; `BatchBuilder` takes one record after another and knows its
size, for a producer that fills a batch up to a limit. Both write what Kafka writes, byte for byte, where nothing is
compressed. A record costs a fraction of a microsecond: short varints come from a table, and a record is joined, not
appended to byte by byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tailrace.protocol.checksum import crc32c
from tailrace.protocol.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CONTROL_FLAG,
    CRC_OFFSET,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME_FLAG,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    TimestampType,
)
from tailrace.protocol.records.compression import Compression, compress
from tailrace.protocol.records.record import HEADER_KEY_ERRORS, Record, RecordHeader
from tailrace.protocol.records.varint import encode_varint

_SHORT: Final = tuple(encode_varint(value) for value in range(4096))
"""Varints of the values that lengths and deltas mostly have."""
_SHORT_COUNT: Final = len(_SHORT)
_NULL: Final = encode_varint(-1)
_NO_HEADERS: Final = _SHORT[0]
_NO_ATTRIBUTES: Final = b"\x00"
_SHORT_TIMES: Final = tuple(_NO_ATTRIBUTES + delta for delta in _SHORT)
"""A record's attributes, which are always 0, with the timestamp delta behind them."""
_LENGTH_BYTES_MAX: Final = 5
_RECORD_BYTES_MAX: Final = 21
"""What a record costs beside key, value and headers, at most: attributes and five varints."""


class BatchBuilder:
    """Collects records for one batch.

    The first record's timestamp is the base of the others', unless a delete horizon takes its place (KIP-534).
    `try_append` refuses what would make the batch larger than `bytes_max`; `append` does not ask.
    """

    __slots__ = (
        "_base_offset",
        "_base_timestamp",
        "_body",
        "_bytes_max",
        "_compression",
        "_delete_horizon_ms",
        "_last_offset",
        "_level",
        "_max_timestamp",
        "records_count",
    )

    def __init__(
        self,
        *,
        base_offset: int = 0,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        delete_horizon_ms: int | None = None,
        bytes_max: int = 0,
    ) -> None:
        self._base_offset = base_offset
        self._bytes_max = bytes_max
        self._last_offset = base_offset - 1
        self._compression = compression
        self._level = level
        self._delete_horizon_ms = delete_horizon_ms
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        self._body = bytearray(HEADER_SIZE)
        self.records_count = 0

    @property
    def size(self) -> int:
        """Bytes of the batch so far, before compression."""
        return len(self._body)

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets, if none is given."""
        return self._last_offset + 1

    @property
    def max_timestamp(self) -> int:
        """The latest timestamp so far."""
        return self._max_timestamp

    def try_append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader] = ()
    ) -> int:
        """Add a record if it fits into `bytes_max`, before compression; give its place in the batch, or -1.

        The first one always fits. The same as `append`, written out: this is where a producer's time goes.
        """
        count = self.records_count
        base_timestamp = self._base_timestamp
        if base_timestamp is None:
            base_timestamp = self._base_timestamp = timestamp
        delta = timestamp - base_timestamp
        times = _SHORT_TIMES[delta] if 0 <= delta < _SHORT_COUNT else _NO_ATTRIBUTES + encode_varint(delta)
        offset = _SHORT[count] if count < _SHORT_COUNT else encode_varint(count)
        headers_part = encode_headers(headers) if headers else _NO_HEADERS
        if value is None:
            value_length, value = _NULL, b""
        else:
            size = len(value)
            value_length = _SHORT[size] if size < _SHORT_COUNT else encode_varint(size)
        if key is None:
            record = b"".join((times, offset, _NULL, value_length, value, headers_part))
        else:
            size = len(key)
            key_length = _SHORT[size] if size < _SHORT_COUNT else encode_varint(size)
            record = b"".join((times, offset, key_length, key, value_length, value, headers_part))
        size = len(record)
        body = self._body
        if count and len(body) + size + _LENGTH_BYTES_MAX > self._bytes_max:
            return -1
        body += _SHORT[size] if size < _SHORT_COUNT else encode_varint(size)
        body += record
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self._last_offset += 1
        self.records_count = count + 1
        return count

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader] = ()
    ) -> None:
        """Add a record at the next offset."""
        self.append_at(self._last_offset + 1, timestamp, key, value, headers)

    def append_all(self, timestamp: int, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Add keys with their values at the next offsets, all with one timestamp.

        The same as `append` for each, written out: a coordinator's records come by the thousand.
        """
        if not records:
            return
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        times = _SHORT_TIMES[delta] if 0 <= delta < _SHORT_COUNT else _NO_ATTRIBUTES + encode_varint(delta)
        offset_delta = self._last_offset + 1 - self._base_offset
        body = self._body
        for key, value in records:
            offset = _SHORT[offset_delta] if offset_delta < _SHORT_COUNT else encode_varint(offset_delta)
            offset_delta += 1
            size = len(key)
            key_length = _SHORT[size] if size < _SHORT_COUNT else encode_varint(size)
            if value is None:
                record = b"".join((times, offset, key_length, key, _NULL, _NO_HEADERS))
            else:
                size = len(value)
                value_length = _SHORT[size] if size < _SHORT_COUNT else encode_varint(size)
                record = b"".join((times, offset, key_length, key, value_length, value, _NO_HEADERS))
            size = len(record)
            body += _SHORT[size] if size < _SHORT_COUNT else encode_varint(size)
            body += record
        self._last_offset += len(records)
        self.records_count += len(records)
        self._max_timestamp = max(self._max_timestamp, timestamp)

    def append_at(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader] = (),
    ) -> None:
        """Add a record at its own offset, which must be above the last one's."""
        if offset <= self._last_offset:
            raise ValueError(f"offset {offset} after {self._last_offset}: offsets in a batch go up")
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        timestamp_delta = timestamp - self._base_timestamp
        offset_delta = offset - self._base_offset
        key_length = -1 if key is None else len(key)
        value_length = -1 if value is None else len(value)
        record = b"".join(
            (
                b"\x00",
                _SHORT[timestamp_delta] if 0 <= timestamp_delta < _SHORT_COUNT else encode_varint(timestamp_delta),
                _SHORT[offset_delta] if offset_delta < _SHORT_COUNT else encode_varint(offset_delta),
                _NULL
                if key is None
                else _SHORT[key_length]
                if key_length < _SHORT_COUNT
                else encode_varint(key_length),
                key or b"",
                _NULL
                if value is None
                else _SHORT[value_length]
                if value_length < _SHORT_COUNT
                else encode_varint(value_length),
                value or b"",
                encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
        length = len(record)
        self._body += _SHORT[length] if length < _SHORT_COUNT else encode_varint(length)
        self._body += record
        self._last_offset = offset
        self.records_count += 1

    def finish(
        self,
        *,
        last_offset: int | None = None,
        max_timestamp: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        leader_epoch: int = NO_LEADER_EPOCH,
        is_transactional: bool = False,
        is_control: bool = False,
    ) -> bytearray:
        """Give the batch; the builder is spent.

        `last_offset` and `max_timestamp` override what the records say: compaction keeps the last offset of a batch
        whose last record is gone, and with LogAppendTime the max timestamp is the time of the append.
        """
        batch = self._body
        if self._compression is not Compression.NONE:
            batch = bytearray(HEADER_SIZE)
            batch += compress(self._compression, memoryview(self._body)[HEADER_SIZE:], level=self._level)
        attributes = int(self._compression)
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            attributes |= LOG_APPEND_TIME_FLAG
        if is_transactional:
            attributes |= TRANSACTIONAL_FLAG
        if is_control:
            attributes |= CONTROL_FLAG
        if self._delete_horizon_ms is not None:
            attributes |= DELETE_HORIZON_FLAG
        HEADER.pack_into(
            batch,
            0,
            self._base_offset,
            len(batch) - LENGTH_END,
            leader_epoch,
            2,
            0,
            attributes,
            (self._last_offset if last_offset is None else last_offset) - self._base_offset,
            NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            self._max_timestamp if max_timestamp is None else max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.records_count,
        )
        crc = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
        batch[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc.to_bytes(4, "big")
        return batch


def write_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
    max_timestamp: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_LEADER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    """Make one batch of `records`, whose offsets are absolute and go up from `base_offset` or above.

    Without records it is the empty batch by which compaction keeps a producer's last sequence: give it `last_offset`.
    """
    builder = BatchBuilder(
        base_offset=base_offset, compression=compression, level=level, delete_horizon_ms=delete_horizon_ms
    )
    append_at = builder.append_at
    for record in records:
        append_at(record.offset, record.timestamp, record.key, record.value, record.headers)
    return builder.finish(
        last_offset=last_offset,
        max_timestamp=max_timestamp,
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
        is_transactional=is_transactional,
        is_control=is_control,
    )


def encode_headers(headers: Sequence[RecordHeader]) -> bytes:
    """Encode a record's headers with their count."""
    pieces: list[bytes] = [encode_varint(len(headers))]
    for key, value in headers:
        name = key.encode("utf-8", HEADER_KEY_ERRORS)
        pieces.append(encode_varint(len(name)))
        pieces.append(name)
        if value is None:
            pieces.append(_NULL)
        else:
            pieces.append(encode_varint(len(value)))
            pieces.append(value)
    return b"".join(pieces)


def record_size_bound(key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader] = ()) -> int:
    """Give the most bytes that a record can take in a batch, before compression."""
    size = _RECORD_BYTES_MAX + 5 + len(key or b"") + len(value or b"")
    return size + len(encode_headers(headers)) if headers else size
