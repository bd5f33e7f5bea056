"""What the codec refuses to write, what it leaves out, and what values of messages are."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tailrace.protocol.api_keys import APIS
from tailrace.protocol.codec import decode_message, decode_prefix, encode_chunks, encode_message
from tailrace.protocol.codec_decoder import decoder_source
from tailrace.protocol.codec_encoder import encoder_source
from tailrace.protocol.errors import MalformedFrame, UnwritableMessage
from tailrace.protocol.field_plan import plan_message
from tailrace.protocol.messages.api_versions import ApiVersionsResponse
from tailrace.protocol.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeResponse, Member
from tailrace.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.messages.headers import RequestHeader, ResponseHeader
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.messages.produce import ProduceRequest
from tailrace.protocol.schema import Message
from tailrace.protocol.varint import finish_unsigned_varint, read_unsigned_varint, unsigned_varint


@pytest.mark.parametrize(
    ("message", "version", "says"),
    [
        (ResponseHeader(correlation_id=2**31), 0, "v0: correlation_id: 2147483648 does not fit into int32"),
        (FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(fetch_offset=-(2**63) - 1)])]), 4,
         r"topics\[0\].partitions\[0\].fetch_offset: -9223372036854775809 does not fit into int64"),
        (FetchRequest(forgotten_topics_data=[ForgottenTopic(partitions=[1, 2**40])]), 7,
         r"forgotten_topics_data\[0\].partitions\[1\]: 1099511627776 does not fit into int32"),
        (FetchRequest(rack_id=7), 11, "rack_id: 7 does not fit into string"),  # type: ignore[arg-type]
        (FetchRequest(max_bytes="7"), 11, "max_bytes: '7' does not fit into int32"),  # type: ignore[arg-type]
        (FetchRequest(topics=7), 11, "topics: 7 is not a list"),  # type: ignore[arg-type]
        (FetchRequest(topics=[7]), 11, r"topics\[0\]: 7 is not a FetchTopic"),  # type: ignore[list-item]
        (FetchRequest(rack_id="\ud800"), 11, "rack_id: '.ud800' does not fit into string"),
        (FetchRequest(rack_id="a" * 32768), 11, "rack_id: a string of 32768 bytes; the limit is 32767"),
        (FetchRequest(rack_id="a" * 32768), 12, "rack_id: a string of 32768 bytes; the limit is 32767"),
        (FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13, "topics.topic_id: a uuid has 16 bytes, not 5"),
        (FetchRequest(rack_id=None), 11, "FetchRequest v11: rack_id cannot be null"),  # type: ignore[arg-type]
        (FetchRequest(topics=None), 4, "FetchRequest v4: topics cannot be null"),  # type: ignore[arg-type]
        (MetadataRequest(topics=None), 0, "MetadataRequest v0: topics cannot be null"),
        (FetchRequest(replica_id=3), 15, "FetchRequest v15: replica_id: version 15 cannot carry 3"),
        (FetchRequest(replica_state=ReplicaState(replica_id=3)), 14, "replica_state: version 14 cannot carry"),
        (FetchRequest(forgotten_topics_data=[ForgottenTopic()]), 6, "forgotten_topics_data: version 6 cannot carry"),
        (FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(preferred_read_replica=1)])]), 10,
         "responses.partitions.preferred_read_replica: version 10 cannot carry 1"),
        (FindCoordinatorRequest(coordinator_keys=["a"]), 3, "coordinator_keys: version 3 cannot carry"),
    ],
)  # fmt: skip
def test_what_a_version_cannot_carry_is_said(message: Message, version: int, says: str) -> None:
    with pytest.raises(UnwritableMessage, match=says):
        encode_message(message, version)


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (FetchRequest(session_id=9, rack_id="a", cluster_id="b"), 6),
        (FetchRequest(topics=[FetchTopic(topic="a", topic_id=b"i" * 16)]), 12),
        (ApiVersionsResponse(throttle_time_ms=3, zk_migration_ready=True), 0),
    ],
)
def test_ignorable_fields_are_left_out_where_the_version_lacks_them(message: Message, version: int) -> None:
    decoded = decode_message(type(message), version, encode_message(message, version))
    assert decoded != message
    assert encode_message(decoded, version) == encode_message(message, version)


def test_tagged_fields_are_written_in_order_and_only_away_from_their_default() -> None:
    assert encode_message(PartitionData_only(), 12).endswith(b"\0\0\0")
    body = encode_message(
        PartitionData_only(
            current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=2),
            diverging_epoch=EpochEndOffset(epoch=3, end_offset=4),
        ),
        12,
    )
    tags = b"\2" + b"\0\x0d\0\0\0\3" + b"\0" * 7 + b"\4\0" + b"\1\x09\0\0\0\1\0\0\0\2\0"
    assert body.endswith(tags + b"\0\0")


def PartitionData_only(**fields: Any) -> FetchResponse:  # noqa: N802, it stands for the class
    return FetchResponse(responses=[FetchableTopicResponse(topic="a", partitions=[PartitionData(**fields)])])


def test_a_default_that_was_made_anew_is_still_a_default() -> None:
    fresh = PartitionData_only(current_leader=LeaderIdAndEpoch(), diverging_epoch=EpochEndOffset())
    assert encode_message(fresh, 12) == encode_message(PartitionData_only(), 12)


def test_lists_longer_than_a_short_varint_are_written_and_read() -> None:
    for count in (126, 127, 128, 129, 16_383, 16_384):
        message = FindCoordinatorRequest(coordinator_keys=["key"] * count)
        assert decode_message(FindCoordinatorRequest, 4, encode_message(message, 4)) == message
    for size in (126, 127, 128, 16_383, 16_384, 32_767):
        header = RequestHeader(client_id="a" * size)
        assert decode_message(RequestHeader, 2, encode_message(header, 2)) == header
        request = MetadataRequest(topics=[MetadataRequestTopic(name="é" * (size // 2))])
        assert decode_message(MetadataRequest, 12, encode_message(request, 12)) == request


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 16_383, 16_384, 2**21, 2**28 - 1, 2**28, 2**32 - 1])
def test_varints_of_every_length(value: int) -> None:
    data = unsigned_varint(value)
    assert read_unsigned_varint(data + b"\7", 0) == (value, len(data))
    for end in range(len(data)):
        with pytest.raises(IndexError):
            read_unsigned_varint(data[:end], 0)


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80", b"\xff\xff\xff\xff\xff\x01"])
def test_a_varint_of_more_than_32_bits_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        finish_unsigned_varint(data, 1, data[0])


def test_a_prefix_is_decoded_and_says_where_it_ended() -> None:
    body = encode_message(RequestHeader(correlation_id=7, client_id="me"), 2)
    header, position = decode_prefix(RequestHeader, 2, body + b"body")
    assert (header.correlation_id, header.client_id, position) == (7, "me", len(body))


def test_chunks_continue_what_was_begun() -> None:
    assert encode_chunks(ResponseHeader(correlation_id=7), 0, bytearray(b"head")) == [bytearray(b"head\0\0\0\7")]
    assert encode_chunks(MetadataRequest(topics=[]), 1) == [bytearray(4)]


@pytest.mark.parametrize("data", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_decoded(data: Any) -> None:
    message = FetchResponse(node_endpoints=[NodeEndpoint(node_id=1, host="a", port=2)])
    assert decode_message(FetchResponse, 16, data(encode_message(message, 16))) == message


def test_the_generated_source_can_be_read() -> None:
    plan = plan_message(ProduceRequest, 9)
    assert decoder_source(plan).startswith("def decode(b, p):\n")
    assert encoder_source(plan).startswith("def encode(m, out, chunks):\n")


def test_messages_are_compared_copied_and_shown() -> None:
    message = PartitionData_only(records=b"abc")
    assert message == PartitionData_only(records=b"abc") != PartitionData_only(records=b"abd")
    assert message != FetchRequest()
    assert copy.deepcopy(message) == message == pickle.loads(pickle.dumps(message))
    assert repr(ResponseHeader(correlation_id=7)) == "ResponseHeader(correlation_id=7)"
    with pytest.raises(TypeError):
        ResponseHeader(no_such_field=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


def test_lists_of_a_default_are_never_shared_and_a_shared_structure_cannot_be_changed() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchTopic())
    assert second.topics == []
    with pytest.raises(AttributeError, match="shared default"):
        first.replica_state.replica_id = 3
    assert first.replica_state == ReplicaState()
    assert isinstance(first.replica_state, ReplicaState)
    member, other = Member(), Member()
    member.assignment.topic_partitions.append(Any)  # type: ignore[arg-type]
    assert other.assignment == Assignment()


def test_a_decoded_default_with_a_list_is_its_own() -> None:
    body = encode_message(ConsumerGroupDescribeResponse(), 0)
    assert decode_message(ConsumerGroupDescribeResponse, 0, body).groups == []
    decoded = decode_message(FetchRequest, 4, encode_message(FetchRequest(), 4))
    decoded.forgotten_topics_data.append(ForgottenTopic())
    assert decode_message(FetchRequest, 4, encode_message(FetchRequest(), 4)).forgotten_topics_data == []


def test_every_message_can_be_made_with_defaults_alone() -> None:
    for api in APIS.values():
        for cls in (api.request_class, api.response_class):
            assert cls() == cls()
