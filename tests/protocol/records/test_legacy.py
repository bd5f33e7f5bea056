"""Messages of magic 0 and 1: wrappers, their offsets and timestamps, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.compression import Compression, compress
from tailrace.protocol.records.legacy import message_attributes
from tailrace.protocol.records.reader import read_records
from tailrace.protocol.records.record import Record
from tests.protocol.records.record_strategies import count_or_refusal, message

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


def wrapper(
    offset: int,
    codec: int,
    *,
    magic: int,
    inner: bytes | None = None,
    timestamp: int = 7,
    log_append_time: bool = False,
) -> bytes:
    if inner is None:
        inner = b"".join(message(number, b"k", b"v", magic=magic, timestamp=100 + number) for number in range(3))
    packed = bytes(compress(Compression(codec), inner)) if codec <= 4 else inner
    return message(offset, None, packed, magic=magic, timestamp=timestamp, attributes=codec | log_append_time << 3)


def expect_refusal(data: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        list(read_records(data))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def offsets(data: bytes) -> list[int]:
    return [record.offset for record in read_records(data)]


@given(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=20), st.sampled_from([0, 1]))
def test_a_message_is_read(key: bytes | None, value: bytes | None, magic: int) -> None:
    data = message(9, key, value, magic=magic, timestamp=55)
    assert list(read_records(data)) == [Record(9, 55 if magic else -1, key, value)]
    assert message_attributes(data, 0) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_offsets_in_a_wrapper_of_magic_0_are_absolute(codec: Compression) -> None:
    assert offsets(wrapper(100, codec, magic=0)) == [0, 1, 2]


@pytest.mark.parametrize("codec", CODECS)
def test_offsets_in_a_wrapper_of_magic_1_end_at_the_wrappers(codec: Compression) -> None:
    assert offsets(wrapper(100, codec, magic=1)) == [98, 99, 100]
    assert offsets(wrapper(2, codec, magic=1)) == [0, 1, 2]


def test_a_wrapper_with_offset_0_is_what_some_producers_send() -> None:
    assert offsets(wrapper(0, Compression.GZIP, magic=1)) == [0, 1, 2]
    expect_refusal(wrapper(1, Compression.GZIP, magic=1))


def test_log_append_time_of_a_wrapper_is_every_records() -> None:
    data = wrapper(2, Compression.GZIP, magic=1, timestamp=5, log_append_time=True)
    assert [record.timestamp for record in read_records(data)] == [5, 5, 5]
    data = wrapper(2, Compression.GZIP, magic=1, timestamp=5)
    assert [record.timestamp for record in read_records(data)] == [100, 101, 102]


def test_a_wrong_crc_is_corrupt() -> None:
    data = bytearray(message(0, b"k", b"v", magic=1))
    data[-1] ^= 1
    expect_refusal(bytes(data))


@pytest.mark.parametrize("codec", [4, 5, 7])
def test_codecs_that_these_formats_do_not_have_are_corrupt(codec: int) -> None:
    expect_refusal(wrapper(2, codec, magic=1))


def test_wrappers_that_hold_no_set_of_their_magic_are_corrupt() -> None:
    expect_refusal(message(2, None, None, magic=1, attributes=1))
    expect_refusal(wrapper(2, Compression.GZIP, magic=1, inner=b""))
    expect_refusal(wrapper(2, Compression.GZIP, magic=1, inner=b"abc"))
    expect_refusal(wrapper(2, Compression.GZIP, magic=1, inner=message(0, None, b"", magic=0)))
    expect_refusal(wrapper(2, Compression.GZIP, magic=1, inner=wrapper(0, Compression.GZIP, magic=1)))
    expect_refusal(wrapper(2, Compression.GZIP, magic=1, inner=message(0, None, b"", magic=1) + b"tail"))


@pytest.mark.parametrize("size", [-1, 0, 21, 10_000, 2**31 - 1])
def test_an_impossible_size_is_malformed(size: int) -> None:
    data = bytearray(message(0, b"k", b"v", magic=1))
    data[8:12] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(MalformedFrame):
        list(read_records(data))


@given(st.data())
def test_changed_bytes_end_in_a_typed_error_or_in_records(data: st.DataObject) -> None:
    buffer = bytearray(wrapper(2, Compression.GZIP, magic=1) + message(3, b"k", b"v", magic=1))
    for _ in range(data.draw(st.integers(1, 4))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    assert count_or_refusal(lambda: list(read_records(buffer, check_crcs=False))) <= len(buffer)
