"""Bytes that a hostile peer may send: one typed error comes of them, soon, and in memory bounded by the frame."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.protocol.api_keys import find_message_class
from tailrace.protocol.codec import decode_message, encode_message
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.fetch import FetchRequest
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.schema import Message
from tests.protocol.vectors import all_type_names, load_vectors

SECONDS_MAX = 1.0
BYTES_MAX = 64 * 1024
"""What a refused message of a few hundred bytes may have used on the way."""

COUNTS = [0x7FFFFFFF, 0x7FFFFFFE, 0x10000000, 0xFFFFFF, 0xFFFF, 0x8000]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def check_decode(cls: type[Message], version: int, body: bytes) -> None:
    """Decode or fail with MalformedFrame, anything else is a finding; what decodes must mean what it says."""
    try:
        message = decode_message(cls, version, body)
    except MalformedFrame:
        return
    written = encode_message(message, version)
    assert encode_message(decode_message(cls, version, written), version) == written


def damaged(body: bytes, chance: random.Random) -> Iterator[bytes]:
    """Damage bytes in each way a peer might."""
    at = chance.randrange(len(body) + 1)
    yield body[:at]
    yield body + chance.randbytes(1 + chance.randrange(8))
    yield body[:at] + chance.randbytes(chance.randrange(1, 9)) + body[at:]
    yield body[:at] + body[at + chance.randrange(1, 9) :]
    for count in COUNTS:
        yield body[:at] + struct.pack(">I", count) + body[at + 4 :]
        yield body[:at] + varint(count) + body[at + 1 :]
    yield body[:at] + struct.pack(">h", 0x7FFF) + body[at + 2 :]
    yield body[:at] + b"\xff" * 12 + body[at + 1 :]
    yield body[:at] + b"\x80" * 12 + body[at + 1 :]
    if at < len(body):
        yield body[:at] + bytes([body[at] ^ 1 << chance.randrange(8)]) + body[at + 1 :]


@pytest.mark.parametrize("type_name", all_type_names())
def test_damaged_messages_are_malformed_frames_or_other_messages(type_name: str) -> None:
    vectors = load_vectors()[type_name]
    for vector in vectors:  # Compiled before the measurement begins.
        check_decode(vector.message_class, vector.version, vector.body)
    chance = random.Random(type_name)
    tracemalloc.start()
    try:
        for vector in vectors:
            for body in damaged(vector.body, chance):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                begin = time.perf_counter()
                check_decode(vector.message_class, vector.version, body)
                assert time.perf_counter() - begin < SECONDS_MAX
                assert tracemalloc.get_traced_memory()[1] - before < BYTES_MAX + 100 * len(body)
    finally:
        tracemalloc.stop()


@settings(max_examples=400, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_bytes_are_a_malformed_frame_or_a_message(data: st.DataObject) -> None:
    cls = find_message_class(data.draw(st.sampled_from(all_type_names())))
    version = data.draw(st.integers(cls.versions.first, cls.versions.last))
    check_decode(cls, version, data.draw(st.binary(max_size=200)))


@pytest.mark.parametrize("count", COUNTS)
def test_an_array_count_past_the_frame_costs_nothing(count: int) -> None:
    plain = struct.pack(">iiiibiiI", -1, 0, 0, 0, 0, 0, 0, count) + bytes(100)
    flexible = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, 0) + varint(count) + bytes(100)
    tracemalloc.start()
    try:
        for version, body in ((7, plain), (12, flexible)):
            with pytest.raises(MalformedFrame, match=f"topics has {count - (version == 12)} elements"):
                decode_message(FetchRequest, version, body)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000  # Compiling both decoders is most of it.
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        for version, body in ((7, plain), (12, flexible)):
            with pytest.raises(MalformedFrame):
                decode_message(FetchRequest, version, body)
        assert tracemalloc.get_traced_memory()[1] - before < 10_000
    finally:
        tracemalloc.stop()


def test_the_smallest_elements_in_the_largest_number_stay_a_multiple_of_the_frame() -> None:
    count = 100_000
    decode_message(MetadataRequest, 4, struct.pack(">i?", 0, True))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        message = decode_message(MetadataRequest, 4, struct.pack(">i", count) + bytes(2 * count) + b"\1")
        assert message.topics is not None
        assert len(message.topics) == count
        assert tracemalloc.get_traced_memory()[1] - before < 60 * 2 * count
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("cls", "version", "body", "says"),
    [
        (ProduceRequest, 8, struct.pack(">h", 30_000), "transactional_id has a length of 30000; 0 bytes are left"),
        (ProduceRequest, 9, varint(40_000) + bytes(50_000), "transactional_id has a length of 39999"),
        (ProduceRequest, 9, b"\x80\x80\x80\x80\x80\x01", "varint of more than 32 bits"),
        (ProduceRequest, 9, b"\xff\xff\xff\xff\xff\xff", "varint of more than 32 bits"),
        (ProduceRequest, 8, struct.pack(">hhii", -1, 1, 1, -1), "topic_data is null"),
        (ProduceRequest, 9, struct.pack(">bhib", 0, 1, 1, 0), "topic_data is null"),
        (ProduceRequest, 9, struct.pack(">bhib", 0, 1, 1, 2) + bytes(3), "topic_data.name is null"),
        (ProduceRequest, 8, struct.pack(">h", 2) + b"\xff\xfe" + bytes(9), "not UTF-8"),
        (ProduceRequest, 8, struct.pack(">h", 3) + b"\xed\xa0\x80" + bytes(9), "not UTF-8"),
        (ProduceRequest, 9, struct.pack(">bhib", 0, 1, 1, 1) + b"\x01\x05", "bytes end"),
        (ProduceRequest, 9, struct.pack(">bhib", 0, 1, 1, 1) + b"\x01\x05\x10", "tagged field 5 has a size of 16"),
        (ApiVersionsRequest, 3, b"\x01\x01" + varint(0xFFFFFFFF), "bytes end"),
        (ApiVersionsRequest, 3, b"\x01\x01\x00\x00", "1 bytes are left over"),
        (FetchRequest, 12, bytes(25) + b"\x01\x01\x01\x01\x00\x03\x02a\x00", "tagged field 0 ends"),
        (ConsumerGroupHeartbeatRequest, 0, b"", "bytes end"),
    ],
)
def test_what_is_wrong_is_said(cls: type[Message], version: int, body: bytes, says: str) -> None:
    with pytest.raises(MalformedFrame, match=says):
        decode_message(cls, version, body)


@pytest.mark.parametrize("version", [-1, 3, 19, 32767, 32768])
def test_a_version_that_is_not_there_is_our_own_fault(version: int) -> None:
    with pytest.raises(ValueError, match="FetchRequest has versions 4-18"):
        decode_message(FetchRequest, version, b"")


def test_unknown_tagged_fields_are_passed_over() -> None:
    body = b"\x03abc"[:0] + b"\x02a\x02b" + b"\x02" + b"\x07\x03xyz" + varint(300) + b"\x00"
    message = decode_message(ApiVersionsRequest, 3, body)
    assert (message.client_software_name, message.client_software_version) == ("a", "b")


def test_a_tag_that_comes_twice_counts_the_last_time() -> None:
    body = bytes(4 * 3 + 1 + 8) + b"\x01\x01\x01" + b"\x02" + b"\x00\x02\x02a" + b"\x00\x02\x02b"
    assert decode_message(FetchRequest, 12, bytes(4) + body).cluster_id == "b"
