"""The header of a batch: read, walked over, refused, and patched in place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.batch_header import (
    HEADER_SIZE,
    BatchHeader,
    TimestampType,
    check_crc,
    crc_matches,
    is_partial,
    iterate_batch_headers,
    magic_at,
    read_batch_header,
    set_base_offset,
    set_leader_epoch,
    set_max_timestamp_and_type,
    set_producer,
)
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.reader import read_records
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch

RECORDS = [Record(offset, 1000 + offset, b"k", b"v%d" % offset) for offset in range(3)]


def make_batch(**options: object) -> bytearray:
    return write_batch(RECORDS, **options)  # type: ignore[arg-type]


def test_a_header_says_what_was_written() -> None:
    batch = make_batch(producer_id=7, producer_epoch=2, base_sequence=40, leader_epoch=5, is_transactional=True)
    header = read_batch_header(batch)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 2, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1002)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 2, 40, 42)
    assert (header.partition_leader_epoch, header.records_count, header.magic) == (5, 3, 2)
    assert header.compression is Compression.NONE
    assert not header.is_compressed
    assert header.is_transactional
    assert header.has_producer_id
    assert not header.is_control
    assert not header.has_delete_horizon
    assert header.delete_horizon_ms is None
    assert header.timestamp_type is TimestampType.CREATE_TIME


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    batch = make_batch(delete_horizon_ms=5_000)
    header = read_batch_header(batch)
    assert header.has_delete_horizon
    assert header.delete_horizon_ms == header.base_timestamp == 5_000
    assert [record.timestamp for record in read_records(batch)] == [1000, 1001, 1002]


def test_sequences_go_round_to_zero() -> None:
    header = read_batch_header(make_batch(producer_id=7, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0
    assert read_batch_header(make_batch()).last_sequence == -1


def test_an_empty_batch_is_the_one_kafka_writes() -> None:
    kafka = bytes.fromhex(
        "0000000000000064000000310000000302d91fb75e000000000009ffffffffffffffff00000000000004d2"
        "000000000000000700010000000500000000"
    )
    batch = write_batch(
        [],
        base_offset=100,
        last_offset=109,
        max_timestamp=1234,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        leader_epoch=3,
    )
    assert batch == kafka
    assert list(read_records(batch)) == []


def test_headers_are_walked_over() -> None:
    first, second = make_batch(), make_batch(compression=Compression.GZIP)
    buffer = first + second
    walked = list(iterate_batch_headers(buffer))
    assert [position for position, _ in walked] == [0, len(first)]
    assert [header.compression for _, header in walked] == [Compression.NONE, Compression.GZIP]
    assert list(iterate_batch_headers(b"")) == []


@pytest.mark.parametrize("kept", [1, 11, 12, 16, 17, 60, 61, 80])
def test_a_batch_that_is_cut_off_is_refused_or_left_out(kept: int) -> None:
    batch = make_batch()
    buffer = bytes(batch) + bytes(batch[:kept])
    with pytest.raises(MalformedFrame):
        list(iterate_batch_headers(buffer))
    assert is_partial(buffer, len(batch))
    assert len(list(iterate_batch_headers(buffer, allow_partial_tail=True))) == 1
    assert list(read_records(buffer, allow_partial_tail=True)) == RECORDS


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 2**31 - 1])
def test_an_impossible_length_is_malformed(length: int) -> None:
    batch = make_batch()
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(MalformedFrame):
        read_batch_header(batch)


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_another_magic_is_malformed(magic: int) -> None:
    batch = make_batch()
    batch[16] = magic
    with pytest.raises(MalformedFrame):
        read_batch_header(batch)
    assert magic_at(batch, 0) == magic


@given(st.integers(HEADER_SIZE - 40, 200), st.integers(0, 7))
def test_every_flipped_bit_behind_the_crc_is_found(position: int, bit: int) -> None:
    batch = make_batch()
    header = read_batch_header(batch)
    position %= len(batch) - 21
    batch[21 + position] ^= 1 << bit
    assert not crc_matches(batch, 0, header)
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        check_crc(batch, 0, header)


def test_offset_and_epoch_are_patched_without_a_new_crc() -> None:
    buffer = bytearray(b"xyz") + make_batch()
    set_base_offset(buffer, 3, 2**40)
    set_leader_epoch(buffer, 3, 17)
    header = read_batch_header(buffer, 3)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 17)
    assert crc_matches(buffer, 3, header)
    assert buffer[:3] == b"xyz"


def test_timestamp_and_type_are_patched_with_a_new_crc() -> None:
    buffer = make_batch()
    set_max_timestamp_and_type(buffer, 0, max_timestamp=9_999, timestamp_type=TimestampType.LOG_APPEND_TIME)
    header = read_batch_header(buffer)
    assert crc_matches(buffer, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in read_records(buffer)] == [9_999] * 3
    set_max_timestamp_and_type(buffer, 0, max_timestamp=1_002, timestamp_type=TimestampType.CREATE_TIME)
    assert buffer == make_batch()


def test_the_producer_is_patched_with_a_new_crc() -> None:
    buffer = make_batch()
    set_producer(buffer, 0, producer_id=9, producer_epoch=1, base_sequence=33, transactional=True)
    assert buffer == make_batch(producer_id=9, producer_epoch=1, base_sequence=33, is_transactional=True)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_corrupt(codec: int) -> None:
    header = BatchHeader(0, 49, 0, 2, 0, codec, 0, 0, 0, -1, -1, -1, 0)
    with pytest.raises(ApiError, match="no such codec"):
        _ = header.compression
