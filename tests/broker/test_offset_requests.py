"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId and DescribeProducers; asked of Kafka 4.1.0, too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.handlers import (
    delete_records,
    describe_producers,
    init_producer_id,
    list_offsets,
    offset_for_leader_epoch,
)
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tailrace.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.parts import NODE_ID, Parts, batch, make_parts, stop_parts


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    yield parts
    await stop_parts(parts)


def add(parts: Parts, topic: str, *batches: bytearray) -> None:
    for records in batches:
        parts.partition(topic).append_as_leader(records, acks=1)


# ListOffsets


def offset_at(
    parts: Parts,
    timestamp: int,
    *,
    number: int = 0,
    topic: str = "t",
    version: int = 10,
    epoch: int = -1,
    **fields: int,
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=number, timestamp=timestamp, current_leader_epoch=epoch)
    topics = [ListOffsetsTopic(name=topic, partitions=[asked])]
    request = ListOffsetsRequest(topics=topics, **{"replica_id": -1, **fields})
    answer = parts.answer(list_offsets, request, version).topics[0].partitions[0]
    assert isinstance(answer, ListOffsetsPartitionResponse)
    return answer


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (-1, 6, 0)),
        (-2, (-1, 0, 0)),
        (-3, (1021, 3, 0)),
        (-4, (-1, 0, 0)),
        (-5, (-1, -1, -1)),
        (0, (1000, 0, 0)),
        (1000, (1000, 0, 0)),
        (1001, (1001, 1, 0)),
        (1010, (1020, 2, 0)),
        (1021, (1021, 3, 0)),
        (1022, (-1, -1, -1)),
    ],
)
async def test_offsets_by_time(parts: Parts, timestamp: int, expected: tuple[int, int, int]) -> None:
    await parts.create_topic("t")
    for base in (1000, 1020, 500):
        add(parts, "t", batch(b"a", b"b", timestamp=base))
    answer = offset_at(parts, timestamp)
    assert answer.error_code == ErrorCode.NONE
    assert (answer.timestamp, answer.offset, answer.leader_epoch) == expected
    assert offset_at(parts, timestamp, version=10 if timestamp < -1 else 3).leader_epoch == (
        expected[2] if timestamp < -1 else -1
    )


@pytest.mark.parametrize("timestamp", [-1, -2, -3, -4, -5, 0, 1000])
async def test_offsets_of_an_empty_partition(parts: Parts, timestamp: int) -> None:
    await parts.create_topic("t")
    answer = offset_at(parts, timestamp)
    assert answer.error_code == ErrorCode.NONE
    assert answer.offset == (0 if timestamp in (-1, -2, -4) else -1)


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 7), (-4, 8), (-5, 9)])
async def test_special_timestamps_need_their_version(parts: Parts, timestamp: int, version: int) -> None:
    await parts.create_topic("t")
    assert offset_at(parts, timestamp, version=version - 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert offset_at(parts, timestamp, version=version).error_code == ErrorCode.NONE


@pytest.mark.parametrize("timestamp", [-6, -100])
async def test_negative_timestamps_that_mean_nothing(parts: Parts, timestamp: int) -> None:
    await parts.create_topic("t")
    assert offset_at(parts, timestamp).error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_partition_that_is_named_twice_is_answered_once(parts: Parts) -> None:
    await parts.create_topic("t", partitions=2)
    asked = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in (0, 1, 0)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])
    answers = parts.answer(list_offsets, request, 10).topics[0].partitions
    assert [(answer.partition_index, answer.error_code) for answer in answers] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.NONE),
    ]


async def test_list_offsets_errors(parts: Parts) -> None:
    await parts.create_topic("t")
    await parts.create_topic("secret")
    await parts.create_topic("elsewhere", replicas=(7,))
    await parts.change_partition("t", leader_epoch=3)
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.TOPIC, "secret")
    codes = [
        offset_at(parts, -1, topic="secret").error_code,
        offset_at(parts, -1, topic="nowhere").error_code,
        offset_at(parts, -1, topic="elsewhere").error_code,
        offset_at(parts, -1, epoch=2).error_code,
        offset_at(parts, -1, epoch=4).error_code,
        offset_at(parts, -1, epoch=3).error_code,
    ]
    assert codes == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NONE,
    ]


async def test_only_a_debugging_client_asks_a_follower(parts: Parts) -> None:
    await parts.create_topic("t", replicas=(NODE_ID, 7), isr=(NODE_ID,))
    await parts.change_partition("t", leader=7, leader_epoch=1)
    assert offset_at(parts, -1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert offset_at(parts, -1, replica_id=-2).error_code == ErrorCode.NONE


async def test_read_committed_sees_nothing_of_an_open_transaction(parts: Parts) -> None:
    await parts.create_topic("t")
    add(parts, "t", batch(b"a", timestamp=1000))
    open_one = batch(b"b", timestamp=2000, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    add(parts, "t", open_one)
    found = [offset_at(parts, timestamp, isolation_level=1).offset for timestamp in (-1, 1000, 2000, -3)]
    assert found == [1, 0, -1, -1]
    assert [offset_at(parts, timestamp).offset for timestamp in (-1, 2000, -3)] == [2, 1, 1]


# OffsetForLeaderEpoch


def epoch_end(
    parts: Parts, leader_epoch: int, *, current: int = -1, topic: str = "t", version: int = 4
) -> EpochEndOffset:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=leader_epoch)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    answer = parts.answer(offset_for_leader_epoch, request, version).topics[0].partitions[0]
    assert isinstance(answer, EpochEndOffset)
    return answer


async def test_where_epochs_end(parts: Parts) -> None:
    await parts.create_topic("t")
    add(parts, "t", batch(b"a"), batch(b"b"))
    await parts.change_partition("t", leader_epoch=3)
    add(parts, "t", batch(b"c"))
    found = {epoch: epoch_end(parts, epoch) for epoch in (-1, 0, 1, 3, 4)}
    assert {epoch: (answer.leader_epoch, answer.end_offset) for epoch, answer in found.items()} == {
        -1: (-1, -1),
        0: (0, 2),
        1: (0, 2),
        3: (3, 3),
        4: (-1, -1),
    }
    assert {answer.error_code for answer in found.values()} == {ErrorCode.NONE}


async def test_a_new_leader_notes_its_epoch_before_it_has_a_record(parts: Parts) -> None:
    await parts.create_topic("t")
    assert (epoch_end(parts, 0).leader_epoch, epoch_end(parts, 0).end_offset) == (0, 0)


async def test_offset_for_leader_epoch_errors(parts: Parts) -> None:
    await parts.create_topic("t")
    await parts.create_topic("secret")
    parts.authorizer.deny(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.TOPIC, "secret")
    codes = [
        epoch_end(parts, 0, topic="nowhere").error_code,
        epoch_end(parts, 0, current=5).error_code,
        epoch_end(parts, 0, topic="secret").error_code,
        epoch_end(parts, 0).error_code,
    ]
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NONE,
    ]


# DeleteRecords


def delete(parts: Parts, offset: int, *, topic: str = "t", version: int = 2) -> tuple[int, int]:
    asked = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    request = DeleteRecordsRequest(timeout_ms=1000, topics=[DeleteRecordsTopic(name=topic, partitions=asked)])
    answer = parts.answer(delete_records, request, version).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


async def test_deleting_records_moves_the_log_start(parts: Parts) -> None:
    await parts.create_topic("t")
    add(parts, "t", *(batch(b"a") for _ in range(5)))
    assert delete(parts, 2) == (ErrorCode.NONE, 2)
    assert delete(parts, 1) == (ErrorCode.NONE, 2)
    assert offset_at(parts, -2).offset == 2
    assert delete(parts, -1) == (ErrorCode.NONE, 5)
    assert delete(parts, 6) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(parts, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_records_of_a_compacted_topic_are_not_deleted(parts: Parts) -> None:
    await parts.create_topic("compacted", cleanup_policy="compact")
    await parts.create_topic("both", cleanup_policy="compact,delete")
    add(parts, "both", batch(b"a"))
    assert delete(parts, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete(parts, 1, topic="both") == (ErrorCode.NONE, 1)


async def test_delete_records_errors(parts: Parts) -> None:
    await parts.create_topic("secret")
    await parts.create_topic("__consumer_offsets")
    parts.authorizer.deny(AclOperation.DELETE, ResourceType.TOPIC, "secret")
    codes = [delete(parts, 0, topic=name)[0] for name in ("nowhere", "secret", "__consumer_offsets")]
    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


# InitProducerId


def init(parts: Parts, transactional_id: str | None = None, **fields: int) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=transactional_id, **{"transaction_timeout_ms": 1000, **fields})
    answer = parts.answer(init_producer_id, request, 5)
    assert isinstance(answer, InitProducerIdResponse)
    return answer


async def test_each_producer_gets_an_id_of_its_own(parts: Parts) -> None:
    answers = [init(parts) for _ in range(5)]
    assert [answer.producer_id for answer in answers] == [0, 1, 2, 3, 4]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert init(parts, producer_id=3, producer_epoch=2).producer_id == 5


@pytest.mark.parametrize(
    ("transactional_id", "fields", "code"),
    [
        (None, {"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        (None, {"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ("", {}, ErrorCode.INVALID_REQUEST),
        ("x", {"transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", {"transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("x", {"transaction_timeout_ms": 60_000}, ErrorCode.NOT_COORDINATOR),  # __transaction_state is not there yet
    ],
)
async def test_producer_ids_that_are_not_given(
    parts: Parts, transactional_id: str | None, fields: dict[str, int], code: ErrorCode
) -> None:
    answer = init(parts, transactional_id, **fields)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


async def test_who_may_have_a_producer_id(parts: Parts) -> None:
    parts.authorizer.deny(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME)
    parts.authorizer.deny(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "x")
    assert init(parts).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert init(parts, "x").error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


# DescribeProducers


async def test_the_producers_of_a_partition(parts: Parts) -> None:
    await parts.create_topic("t")
    idempotent = {"producer_id": 77, "producer_epoch": 3}
    add(parts, "t", batch(b"a", b"b", timestamp=1000, base_sequence=0, **idempotent))
    add(parts, "t", batch(b"c", timestamp=2000, base_sequence=2, is_transactional=True, **idempotent))
    request = DescribeProducersRequest(
        topics=[TopicRequest(name="t", partition_indexes=[0, 5]), TopicRequest(name="nowhere", partition_indexes=[0])]
    )
    known, unknown = parts.answer(describe_producers, request, 0).topics
    (state,) = known.partitions[0].active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence, state.last_timestamp) == (77, 3, 2, 2000)
    assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, 2)
    assert (known.partitions[1].error_code, known.partitions[1].error_message) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        None,
    )
    assert unknown.partitions[0].error_message == "This server does not host this topic-partition."


async def test_who_may_see_producers(parts: Parts) -> None:
    await parts.create_topic("t")
    parts.authorizer.deny(AclOperation.READ, ResourceType.TOPIC, "t")
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    (topic,) = parts.answer(describe_producers, request, 0).topics
    assert topic.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# Every one of them can be answered as a whole


async def test_a_request_that_failed_as_a_whole(parts: Parts) -> None:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    offsets = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition()])])
    epochs = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition()])]
    )
    deletions = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition()])])
    producers = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    answers = [
        list_offsets.error_response(parts.request(offsets, 10), code, None),
        offset_for_leader_epoch.error_response(parts.request(epochs, 4), code, None),
        delete_records.error_response(parts.request(deletions, 2), code, None),
        describe_producers.error_response(parts.request(producers, 0), code, "because"),
    ]
    assert [answer.topics[0].partitions[0].error_code for answer in answers] == [code] * 4  # type: ignore[union-attr]
    whole = init_producer_id.error_response(parts.request(InitProducerIdRequest(), 5), code, None)
    assert (whole.error_code, whole.producer_id) == (code, -1)  # type: ignore[union-attr]
