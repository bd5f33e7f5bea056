"""Rewriting batches keeps what identifies them; markers say how a transaction ended."""

from __future__ import annotations

import pytest

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.batch_header import TimestampType, iterate_batch_headers, read_batch_header
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.control import (
    ControlType,
    EndTxnMarker,
    read_control_batch,
    read_control_type,
    read_end_txn_marker,
    write_end_txn_marker,
)
from tailrace.protocol.records.conversion import convert_records
from tailrace.protocol.records.reader import read_records
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tests.protocol.records.record_strategies import flatten, message
from tests.protocol.records.test_legacy import wrapper

RECORDS = [Record(10, 500, b"a", b"1", [("h", b"x")]), Record(13, 400, None, b"2"), Record(14, 600, b"c", None)]


def renumbered(records: list[Record], first: int = 0) -> list[tuple[object, ...]]:
    return flatten([Record(n, r.timestamp, r.key, r.value, r.headers) for n, r in enumerate(records, first)])


@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("target", Compression)
def test_another_codec_keeps_who_produced_the_batch(source: Compression, target: Compression) -> None:
    batch = write_batch(
        RECORDS,
        base_offset=10,
        compression=source,
        producer_id=5,
        producer_epoch=1,
        base_sequence=77,
        leader_epoch=3,
        is_transactional=True,
    )
    converted = convert_records(batch, compression=target)
    header = read_batch_header(converted)
    assert header.compression is target
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 1, 77)
    assert header.is_transactional
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (0, 2, 600)
    assert flatten(list(read_records(converted))) == renumbered(RECORDS)


def test_offsets_may_be_kept() -> None:
    batch = write_batch(RECORDS, base_offset=9, last_offset=20)
    header = read_batch_header(convert_records(batch, compression=Compression.LZ4, keep_offsets=True))
    assert (header.base_offset, header.last_offset) == (9, 20)
    converted = convert_records(batch, keep_offsets=True)
    assert converted == batch


def test_log_append_time_is_set_and_taken_away() -> None:
    batch = write_batch(RECORDS, base_offset=10)
    appended = convert_records(batch, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=9_000)
    assert {record.timestamp for record in read_records(appended)} == {9_000}
    assert convert_records(appended, timestamp_type=TimestampType.LOG_APPEND_TIME) == appended
    created = convert_records(appended)
    assert read_batch_header(created).timestamp_type is TimestampType.CREATE_TIME
    assert {record.timestamp for record in read_records(created)} == {9_000}


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_in_a_row_become_one_batch(magic: int) -> None:
    old = message(5, b"k", b"v", magic=magic, timestamp=70) + wrapper(8, Compression.GZIP, magic=magic)
    converted = convert_records(old, compression=Compression.ZSTD)
    assert [(h.records_count, h.compression) for _, h in iterate_batch_headers(converted)] == [(4, Compression.ZSTD)]
    expected = [Record(n, r.timestamp, r.key, r.value) for n, r in enumerate(read_records(old))]
    assert flatten(list(read_records(converted))) == flatten(expected)


def test_each_new_batch_stays_a_batch_and_offsets_go_on() -> None:
    buffer = write_batch(RECORDS, base_offset=10) + wrapper(2, Compression.LZ4, magic=1) + write_batch(RECORDS)
    headers = [header for _, header in iterate_batch_headers(convert_records(buffer))]
    assert [header.base_offset for header in headers] == [0, 3, 6]
    assert [header.compression for header in headers] == [Compression.NONE, Compression.LZ4, Compression.NONE]


def test_old_messages_together_stay_within_the_limit() -> None:
    bomb = wrapper(0, Compression.GZIP, magic=1, inner=message(0, None, bytes(30_000), magic=1))
    assert convert_records(bomb, decompressed_bytes_max=40_000)
    with pytest.raises(ApiError) as refused:
        convert_records(bomb * 3, decompressed_bytes_max=40_000)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_whose_crc_is_wrong_is_not_converted() -> None:
    batch = write_batch(RECORDS)
    batch[-1] ^= 1
    with pytest.raises(ApiError, match="CRC-32C"):
        convert_records(batch)


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_comes_back(control_type: ControlType) -> None:
    marker = EndTxnMarker(control_type, 12)
    batch = write_end_txn_marker(marker, producer_id=3, producer_epoch=1, timestamp=1000, base_offset=44)
    header = read_batch_header(batch)
    assert (header.is_control, header.is_transactional, header.base_offset) == (True, True, 44)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, -1)
    assert read_control_batch(batch, 0, header) == marker


def test_other_control_records_are_no_markers() -> None:
    assert read_control_type(b"\x00\x00\x00\x02") is ControlType.LEADER_CHANGE
    assert read_control_type(b"\x00\x01\x00\x63more") is ControlType.UNKNOWN
    assert read_end_txn_marker(Record(0, 0, b"\x00\x00\x00\x02", b"")) is None
    empty = write_batch([], base_offset=4, last_offset=4, is_control=True, max_timestamp=1)
    assert read_control_batch(empty, 0, read_batch_header(empty)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00\x00\x00\x00\x00\x05"),
        (b"\x00", b"\x00\x00\x00\x00\x00\x05"),
        (b"\xff\xff\x00\x01", b"\x00\x00\x00\x00\x00\x05"),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x05"),
    ],
)
def test_broken_markers_are_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        read_end_txn_marker(Record(7, 0, key, value))
