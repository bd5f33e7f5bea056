"""Frames out of a stream, whatever pieces it comes in, and the headers inside them."""

from __future__ import annotations

import random
import struct
import tracemalloc

import pytest

from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.codec import decode_message, encode_message
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.frame import (
    BUFFER_BYTES_BUSY,
    BUFFER_BYTES_KEPT,
    FrameBuffer,
    encode_request,
    encode_response,
    read_request_header,
    read_response_header,
)
from tailrace.protocol.messages.api_versions import ApiVersionsResponse
from tailrace.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tailrace.protocol.messages.headers import RequestHeader
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

LIMIT = 100 * 1024 * 1024


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def drain(buffer: FrameBuffer) -> list[bytes]:
    frames: list[bytes] = []
    while (frame := buffer.next_frame()) is not None:
        frames.append(bytes(frame))
    return frames


def receive(buffer: FrameBuffer, data: bytes, sizes: list[int]) -> list[bytes]:
    """Play a socket: fill what the buffer offers, at most so many bytes at a time, and take the frames each time."""
    frames: list[bytes] = []
    position = turn = 0
    while position < len(data):
        room = buffer.writable()
        assert len(room) > 0
        count = min(len(room), sizes[turn % len(sizes)], len(data) - position)
        room[:count] = data[position : position + count]
        buffer.received(count)
        frames += drain(buffer)
        position += count
        turn += 1
    return frames


BODIES = [b"", b"a", b"four", bytes(range(256)) * 3, b"", b"x" * 20_000, b"y" * 70_000, b"last"]


@pytest.mark.parametrize("sizes", [[1], [2, 3], [4], [5], [1000, 1], [65536], [10**9]])
def test_frames_come_out_however_the_bytes_come_in(sizes: list[int]) -> None:
    assert receive(FrameBuffer(frame_bytes_max=LIMIT), framed(*BODIES), sizes) == BODIES


@pytest.mark.parametrize("seed", range(20))
def test_frames_of_any_size_in_pieces_of_any_size(seed: int) -> None:
    chance = random.Random(seed)
    choices = [0, 1, 3, 100, 16_380, 16_384, 16_388, 40_000, BUFFER_BYTES_BUSY, BUFFER_BYTES_BUSY + 1, 1_000_000]
    bodies = [chance.randbytes(chance.choice(choices)) for _ in range(12)]
    sizes = [chance.choice([1, 7, 1448, 65536, 300_000]) + chance.randrange(3) for _ in range(5)] + [5000]
    assert receive(FrameBuffer(frame_bytes_max=LIMIT), framed(*bodies), sizes) == bodies


def test_a_frame_larger_than_what_is_kept_grows_and_its_memory_is_given_back() -> None:
    buffer = FrameBuffer(frame_bytes_max=LIMIT)
    body = random.Random(1).randbytes(BUFFER_BYTES_KEPT * 3 + 5)
    assert receive(buffer, framed(b"a", body, b"b"), [700_000]) == [b"a", body, b"b"]
    buffer.writable()
    assert buffer.capacity_bytes == BUFFER_BYTES_BUSY


def test_frames_of_a_megabyte_are_received_in_place_and_their_memory_is_used_again() -> None:
    buffer = FrameBuffer(frame_bytes_max=LIMIT)
    body = bytes(1024 * 1024)
    data = framed(body)
    receive(buffer, data, [65536])
    capacity = buffer.capacity_bytes
    for _ in range(5):
        position = 0
        while position < len(data):
            room = buffer.writable()
            count = min(len(room), 65536, len(data) - position)
            buffer.received(count)
            position += count
            # Nothing is moved: what is offered next lies right behind what was received.
            assert buffer.capacity_bytes == capacity
        frame = buffer.next_frame()
        assert frame is not None
        assert len(frame) == len(body)
        frame.release()


def test_a_frame_is_a_view_of_the_memory_it_was_received_into() -> None:
    buffer = FrameBuffer(frame_bytes_max=LIMIT)
    room = buffer.writable()
    room[:8] = framed(b"abcd")
    buffer.received(8)
    frame = buffer.next_frame()
    assert frame is not None
    room[4] = ord("A")
    assert bytes(frame) == b"Abcd"


@pytest.mark.parametrize("size", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_an_impossible_size_is_refused_before_memory_is_made_for_it(size: int) -> None:
    buffer = FrameBuffer(frame_bytes_max=LIMIT)
    tracemalloc.start()
    try:
        buffer.feed(struct.pack(">i", size))
        with pytest.raises(MalformedFrame, match=str(size)):
            buffer.next_frame()
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_a_large_size_alone_reserves_little() -> None:
    buffer = FrameBuffer(frame_bytes_max=LIMIT)
    buffer.feed(struct.pack(">i", LIMIT))
    assert buffer.next_frame() is None
    assert len(buffer.writable()) > 0
    assert buffer.capacity_bytes <= BUFFER_BYTES_KEPT


def test_a_busy_connection_gets_more_room_and_an_idle_one_stays_small() -> None:
    idle, busy = FrameBuffer(frame_bytes_max=LIMIT), FrameBuffer(frame_bytes_max=LIMIT)
    receive(idle, framed(b"a" * 100) * 500, [104])
    receive(busy, framed(b"a" * 100) * 50_000, [10**9])
    assert idle.capacity_bytes < busy.capacity_bytes == BUFFER_BYTES_BUSY


def test_frames_not_taken_yet_are_kept() -> None:
    buffer = FrameBuffer(frame_bytes_max=LIMIT)
    bodies = [bytes([index]) * 5000 for index in range(30)]
    for body in bodies:
        buffer.feed(framed(body))
    assert buffer.buffered_bytes == 30 * 5004
    assert drain(buffer) == bodies


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("client_id", [None, "", "me", "漢" * 100])
def test_a_requests_header_says_what_follows(version: int, client_id: str | None) -> None:
    frame = b"".join(encode_request(MetadataRequest(), version, correlation_id=7, client_id=client_id))
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    api_key, api_version, correlation_id, name, position = read_request_header(memoryview(frame)[4:])
    assert (api_key, api_version, correlation_id, name) == (ApiKey.METADATA, version, 7, client_id)
    assert decode_message(MetadataRequest, version, frame, position + 4) == MetadataRequest()
    header = RequestHeader(request_api_key=3, request_api_version=version, correlation_id=7, client_id=client_id)
    assert frame[4 : position + 4] == encode_message(header, 2 if version >= 9 else 1)


@pytest.mark.parametrize("version", [8, 9])
def test_a_header_that_ends_too_early_is_malformed(version: int) -> None:
    frame = b"".join(encode_request(MetadataRequest(), version, correlation_id=7, client_id="me"))[4:]
    position = read_request_header(memoryview(frame))[4]
    for end in range(position):
        with pytest.raises(MalformedFrame):
            read_request_header(memoryview(frame[:end]))


@pytest.mark.parametrize(
    "header",
    [
        struct.pack(">hhih", 3, 8, 7, 32767),
        struct.pack(">hhih", 3, 9, 7, 0) + b"\xff\xff\xff\xff\xff\xff",
        struct.pack(">hhih", 3, 9, 7, 0) + b"\xff\xff\xff\xff\x0f" + b"\0" * 20,
        struct.pack(">hhih", 3, 9, 7, 0) + b"\x01\x00\x7f",
    ],
    ids=["long client id", "long varint", "many tags", "long tag"],
)
def test_a_hostile_header_is_malformed(header: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_request_header(memoryview(header))


def test_a_client_whose_name_is_no_utf_8_is_served() -> None:
    header = struct.pack(">hhih", 3, 8, 7, 5) + "caf\u00e9 ".encode("latin-1")
    assert read_request_header(memoryview(header)) == (3, 8, 7, "caf\ufffd ", len(header))


def test_an_unknown_tag_of_a_header_is_passed_over() -> None:
    header = struct.pack(">hhih", 3, 9, 7, -1) + b"\x02\x00\x01x\x63\x00"
    assert read_request_header(memoryview(header + b"body")) == (3, 9, 7, None, len(header))


@pytest.mark.parametrize("key", [-1, 4, 7, 93, 32767])
def test_an_unknown_api_has_a_header_without_tags(key: int) -> None:
    header = struct.pack(">hhih", key, 30, 7, -1)
    assert read_request_header(memoryview(header)) == (key, 30, 7, None, 10)


@pytest.mark.parametrize("header_version", [0, 1])
def test_a_response_has_its_size_and_header_in_front(header_version: int) -> None:
    response = ApiVersionsResponse(error_code=35)
    frame = b"".join(encode_response(response, 0, correlation_id=9, header_version=header_version))
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    correlation_id, position = read_response_header(memoryview(frame)[4:], header_version)
    assert (correlation_id, position) == (9, 4 + header_version)
    assert decode_message(ApiVersionsResponse, 0, frame, 4 + position) == response
    with pytest.raises(MalformedFrame):
        read_response_header(memoryview(frame)[4 : 7 + header_version], header_version)


def test_large_records_are_chunks_of_their_own_and_small_ones_are_not() -> None:
    large, small = bytes(100_000), b"small"

    def response(*batches: bytes) -> FetchResponse:
        partitions = [PartitionData(partition_index=index, records=batch) for index, batch in enumerate(batches)]
        return FetchResponse(responses=[FetchableTopicResponse(topic="flights", partitions=partitions)])

    chunks = encode_response(response(large, small, large), 12, correlation_id=1, header_version=1)
    assert [chunk is large for chunk in chunks] == [False, True, False, True, False]
    assert struct.unpack_from(">i", chunks[0])[0] == sum(map(len, chunks)) - 4
    body = b"".join(chunks)[9:]
    assert body == encode_message(response(large, small, large), 12)
    assert len(encode_response(response(small, small), 12, correlation_id=1, header_version=1)) == 1


def test_records_are_decoded_as_views_of_the_frame() -> None:
    topic = TopicProduceData(name="flights", partition_data=[PartitionProduceData(records=b"batch")])
    frame = bytearray(b"".join(encode_request(ProduceRequest(topic_data=[topic]), 9, correlation_id=1, client_id="")))
    position = read_request_header(memoryview(frame)[4:])[4]
    records = decode_message(ProduceRequest, 9, memoryview(frame), position + 4).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"batch")] = ord("B")
    assert bytes(records) == b"Batch"
