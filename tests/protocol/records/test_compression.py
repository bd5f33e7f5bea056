"""Codecs: what was compressed comes back, and hostile streams end in an error within their bounds."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from functools import partial

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records import lz4_frame
from tailrace.protocol.records.compression import Compression, compress, decompress
from tests.protocol.records.record_strategies import count_or_refusal

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
TEXT = b"".join(b"line %d of something that repeats\n" % number for number in range(9000))
LENGTHS = [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 300_000]


def expect_refusal(codec: Compression, data: bytes, *, bytes_max: int = 1 << 20) -> None:
    with pytest.raises(ApiError) as refused:
        decompress(codec, data, bytes_max=bytes_max)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("length", LENGTHS)
def test_data_of_any_length_comes_back(codec: Compression, length: int) -> None:
    data = TEXT[:length]
    for buffer in (data, bytearray(data), memoryview(data)):
        assert decompress(codec, compress(codec, buffer), bytes_max=length) == data


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=3000))
@settings(max_examples=30)
def test_anything_comes_back(codec: Compression, data: bytes) -> None:
    assert decompress(codec, memoryview(compress(codec, data))) == data


@pytest.mark.parametrize(
    ("codec", "level"), [(Compression.GZIP, 1), (Compression.GZIP, 9), (Compression.LZ4, 12), (Compression.ZSTD, 19)]
)
def test_a_level_is_used(codec: Compression, level: int) -> None:
    packed = compress(codec, TEXT, level=level)
    assert packed != compress(codec, TEXT)
    assert decompress(codec, packed) == TEXT


def test_names_are_those_of_the_setting() -> None:
    assert [codec.label for codec in Compression] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert Compression.parse("lz4") is Compression.LZ4
    with pytest.raises(ValueError, match="none, gzip, snappy, lz4, zstd"):
        Compression.parse("brotli")


@pytest.mark.parametrize("codec", CODECS)
def test_one_byte_above_the_limit_is_refused(codec: Compression) -> None:
    data = TEXT[:100_000]
    packed = bytes(compress(codec, data))
    assert decompress(codec, packed, bytes_max=100_000) == data
    expect_refusal(codec, packed, bytes_max=99_999)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_ends_in_an_error_and_not_in_memory(codec: Compression) -> None:
    bomb = bytes(compress(codec, bytes(64 << 20)))
    tracemalloc.start()
    expect_refusal(codec, bomb, bytes_max=1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_a_zstd_bomb_of_many_frames_or_without_a_size_is_refused() -> None:
    expect_refusal(Compression.ZSTD, bytes(cramjam.zstd.compress(bytes(1 << 20))) * 3)
    stream = cramjam.zstd.Compressor(3)
    stream.compress(bytes(3 << 20))
    expect_refusal(Compression.ZSTD, bytes(stream.finish()))


def test_zstd_that_was_flushed_after_every_record_is_read() -> None:
    stream = cramjam.zstd.Compressor(3)
    pieces: list[bytes] = []
    for number in range(100):
        stream.compress(b"record %d" % number)
        pieces.append(bytes(stream.flush()))
    pieces.append(bytes(stream.finish()))
    expected = b"".join(b"record %d" % number for number in range(100))
    assert decompress(Compression.ZSTD, b"".join(pieces), bytes_max=1 << 20) == expected


def test_gzip_of_several_members_is_read_as_one() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_snappy_without_a_frame_is_read() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_snappy_that_says_it_is_four_gigabytes_is_refused() -> None:
    expect_refusal(Compression.SNAPPY, b"\xff\xff\xff\xff\x0fabc")


def test_lz4_frames_of_other_writers_are_read() -> None:
    dependent = bytes(cramjam.lz4.compress(TEXT))
    assert dependent[4] & 0x20 == 0, "the blocks of cramjam's own frame depend on each other"
    assert decompress(Compression.LZ4, dependent) == TEXT
    expect_refusal(Compression.LZ4, dependent, bytes_max=1000)


def test_lz4_blocks_are_independent_because_apache_kafka_refuses_others() -> None:
    packed = bytes(compress(Compression.LZ4, TEXT))
    assert packed[:7] == bytes.fromhex("04224d18604082")
    assert bytes(cramjam.lz4.decompress(packed)) == TEXT


def test_the_broken_lz4_checksum_of_old_clients_is_accepted_only_where_asked_for() -> None:
    packed = bytearray(compress(Compression.LZ4, TEXT))
    packed[6] = 0x1A  # what Kafka writes into messages of magic 0
    expect_refusal(Compression.LZ4, bytes(packed))
    assert decompress(Compression.LZ4, packed, allow_broken_lz4_checksum=True) == TEXT
    packed[6] = 0x1B
    with pytest.raises(ApiError):
        decompress(Compression.LZ4, packed, allow_broken_lz4_checksum=True)


def test_the_broken_checksum_is_mended_where_the_library_reads_the_frame() -> None:
    packed = bytearray(cramjam.lz4.compress(TEXT))
    packed[6] = lz4_frame._xxhash32(bytes(packed[:6])) >> 8 & 0xFF
    assert decompress(Compression.LZ4, packed, allow_broken_lz4_checksum=True) == TEXT


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxhash32_is_the_published_one(data: bytes, digest: int) -> None:
    assert lz4_frame._xxhash32(data) == digest


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_refused(codec: Compression) -> None:
    packed = bytes(compress(codec, TEXT[:500]))
    for kept in range(len(packed) - 1):
        if codec is Compression.SNAPPY and kept in (0, 16):
            continue  # a frame without blocks is a snappy stream of nothing
        expect_refusal(codec, packed[:kept])


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_changed_bytes_end_in_the_error_or_in_bounded_output(codec: Compression, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[:2000]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    assert count_or_refusal(lambda: decompress(codec, packed, bytes_max=5000, allow_broken_lz4_checksum=True)) <= 5000


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_random_bytes_end_in_the_error_or_in_bounded_output(codec: Compression, data: bytes) -> None:
    headers = {
        Compression.GZIP: zlib.compress(b"", wbits=31)[:10],
        Compression.SNAPPY: b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01",
        Compression.LZ4: bytes.fromhex("04224d18604082"),
        Compression.ZSTD: bytes.fromhex("28b52ffd0058"),
    }
    for stream in (data, headers[codec] + data):
        assert count_or_refusal(partial(decompress, codec, stream, bytes_max=4096)) <= 4096
