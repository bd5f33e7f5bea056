"""What is written is read again; what is broken is refused with the typed errors and nothing else."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.batch_header import read_batch_header, update_crc
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.reader import read_batch, read_records
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.varint import decode_varint, encode_varint
from tailrace.protocol.records.writer import BatchBuilder, record_size_bound, write_batch
from tests.protocol.records.record_strategies import count_or_refusal, flatten, record_lists

PLAIN = [Record(0, 100, b"key", b"value", [("h", b"x"), ("n", None)]), Record(1, 90, None, None)]


def patched(position: int, replacement: bytes, *, crc: bool = True) -> bytearray:
    """A batch of PLAIN with other bytes at `position`."""
    batch = write_batch(PLAIN)
    batch[position : position + len(replacement)] = replacement
    if crc:
        update_crc(batch, 0)
    return batch


def _read_all(buffer: bytes) -> list[Record]:
    return list(read_records(buffer, check_crcs=False))


def expect_refusal(batch: bytes | bytearray) -> None:
    with pytest.raises(ApiError) as refused:
        list(read_records(batch))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@given(records=record_lists(), codec=st.sampled_from(Compression))
@settings(deadline=None)
def test_what_is_written_is_read(records: list[Record], codec: Compression) -> None:
    batch = write_batch(records, base_offset=records[0].offset, compression=codec)
    header = read_batch_header(batch)
    assert flatten(list(read_records(batch))) == flatten(records)
    assert header.records_count == len(records)
    assert (header.base_offset, header.last_offset) == (records[0].offset, records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in records)


@given(st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-200, 200)))
def test_varints_come_back(value: int) -> None:
    encoded = encode_varint(value)
    assert decode_varint(encoded + b"\xff", 0) == (value, len(encoded))
    assert len(encoded) <= 5


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (-(2**31), "ffffffff0f")]
)
def test_varints_are_zigzag(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


@pytest.mark.parametrize("timestamps", [(0, 2**62), (2**62, 0), (-1, 1_700_000_000_000)])
def test_timestamps_far_apart_are_kept(timestamps: tuple[int, int]) -> None:
    records = [Record(offset, timestamp, b"k", b"v") for offset, timestamp in enumerate(timestamps)]
    assert flatten(list(read_records(write_batch(records)))) == flatten(records)


def test_header_keys_that_are_not_utf8_come_back_as_they_were() -> None:
    batch = write_batch([Record(0, 0, None, b"v", [("?", b"")])])
    batch[batch.index(b"?")] = 0xFF
    update_crc(batch, 0)
    records = list(read_records(batch))
    assert write_batch(records) == batch


def test_a_builder_knows_its_size() -> None:
    builder = BatchBuilder(base_offset=5)
    for number in range(20):
        before = builder.size
        key, value, headers = b"k" * number, b"v" * number * 30, [("h" * number, b"w")] if number % 2 else []
        builder.append(1000 + number, key, value, headers)
        assert builder.size - before <= record_size_bound(key, value, headers)
    assert builder.next_offset == 25
    assert builder.max_timestamp == 1019
    size = builder.size
    batch = builder.finish()
    assert len(batch) == size
    assert [record.offset for record in read_records(batch)] == list(range(5, 25))


def test_offsets_of_a_batch_go_up() -> None:
    with pytest.raises(ValueError, match="offsets in a batch go up"):
        write_batch([Record(3, 0, None, None), Record(3, 0, None, None)])
    with pytest.raises(ValueError, match="offsets in a batch go up"):
        write_batch([Record(3, 0, None, None)], base_offset=4)


def test_a_wrong_crc_is_corrupt_unless_it_is_not_looked_at() -> None:
    batch = patched(-1, b"\x02", crc=False)
    expect_refusal(batch)
    with pytest.raises(ApiError, match="a count of 1 headers"):
        list(read_records(batch, check_crcs=False))


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 2**31 - 1])
def test_a_count_that_is_not_that_of_the_records_is_corrupt(count: int) -> None:
    expect_refusal(patched(57, count.to_bytes(4, "big", signed=True)))


@pytest.mark.parametrize("position", range(61, len(write_batch(PLAIN))))
@pytest.mark.parametrize("byte", [0x00, 0x01, 0x03, 0x7F, 0x80, 0xFF])
def test_any_byte_of_a_record_may_be_wrong(position: int, byte: int) -> None:
    assert count_or_refusal(lambda: list(read_records(patched(position, bytes([byte]))))) in (2, -1)


@pytest.mark.parametrize("length", ["ffffffff0f", "ffffffffffff7f", "feffffff0f", "ffffffffffffffffffff01"])
def test_a_length_past_the_end_is_corrupt(length: str) -> None:
    for position in (61, 65):
        expect_refusal(patched(position, bytes.fromhex(length)))


def test_records_that_go_on_behind_the_last_are_corrupt() -> None:
    batch = write_batch(PLAIN) + b"\x00"
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    update_crc(batch, 0)
    expect_refusal(batch)


def test_a_batch_is_read_where_it_lies_in_a_buffer() -> None:
    batch = write_batch(PLAIN)
    buffer = memoryview(b"before" + bytes(batch) + b"behind")
    header = read_batch_header(buffer, 6)
    assert flatten(read_batch(buffer, 6, header)) == flatten(PLAIN)


@given(data=st.binary(max_size=150))
def test_random_bytes_end_in_a_typed_error_or_in_nothing(data: bytes) -> None:
    for buffer in (data, data[:16] + b"\x00" + data[17:], data[:16] + b"\x01" + data[17:]):
        assert count_or_refusal(partial(_read_all, buffer)) <= 0


@given(data=st.data(), codec=st.sampled_from(Compression))
@settings(max_examples=300, deadline=None)
def test_changed_bytes_end_in_a_typed_error_or_in_records(data: st.DataObject, codec: Compression) -> None:
    records = [Record(offset, offset, b"k%d" % offset, b"v" * 50, [("h", b"x")]) for offset in range(5)]
    batch = write_batch(records, compression=codec)
    for _ in range(data.draw(st.integers(1, 5))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    assert (
        count_or_refusal(lambda: list(read_records(batch, check_crcs=False, decompressed_bytes_max=10_000))) <= 10_000
    )
