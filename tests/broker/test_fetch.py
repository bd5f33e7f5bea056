"""Fetch through its handler: limits, waiting, sessions, isolation and errors; Apache Kafka 4.1.0 was asked the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.handlers import fetch, produce
from tailrace.broker.request import Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.records.control import ControlType, EndTxnMarker, write_end_txn_marker
from tailrace.protocol.records.reader import read_records
from tailrace.storage.append_origin import AppendOrigin
from tests.broker.parts import NODE_ID, Parts, batch, completed, make_parts, stop_parts

BATCH_SIZE = len(batch(b"a"))


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    yield parts
    await stop_parts(parts)


def add(parts: Parts, topic: str, *values: bytes, number: int = 0) -> None:
    """Append one batch for each value."""
    for value in values:
        data = [PartitionProduceData(index=number, records=batch(value))]
        parts.handle(produce, ProduceRequest(acks=1, topic_data=[TopicProduceData(name=topic, partition_data=data)]), 9)


def asked(number: int = 0, offset: int = 0, max_bytes: int = 1 << 20, **fields: int) -> FetchPartition:
    return FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def fetch_request(
    topic: str, partitions: Sequence[FetchPartition], *, topic_id: bytes = bytes(16), **fields: int
) -> FetchRequest:
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=list(partitions))] if partitions else []
    return FetchRequest(topics=topics, **values)


def get(parts: Parts, topic: str, *partitions: FetchPartition, version: int = 12, **fields: int) -> list[PartitionData]:
    """Fetch without waiting; give the answers about the partitions of the one topic."""
    response: FetchResponse = parts.answer(fetch, fetch_request(topic, partitions, **fields), version)
    return [found for topic_answer in response.responses for found in topic_answer.partitions]


def values_of(found: PartitionData) -> list[bytes | None]:
    return [record.value for record in read_records(found.records or b"")]


async def test_records_come_with_the_offsets_beside_them(parts: Parts) -> None:
    await parts.create_topic("t")
    add(parts, "t", b"a", b"b", b"c")
    (found,) = get(parts, "t", asked(offset=1))
    assert values_of(found) == [b"b", b"c"]
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (3, 3, 0)
    assert (found.aborted_transactions, found.preferred_read_replica) == (None, -1)


async def test_records_are_a_view_of_the_mapped_segment(parts: Parts) -> None:
    await parts.create_topic("t")
    add(parts, "t", b"a")
    (found,) = get(parts, "t", asked())
    assert isinstance(found.records, memoryview)
    assert found.records.obj is parts.partition("t").log.active.view.obj


async def test_an_offset_inside_a_batch_gives_the_whole_batch(parts: Parts) -> None:
    await parts.create_topic("t")
    data = [PartitionProduceData(index=0, records=batch(b"a", b"b", b"c"))]
    parts.handle(produce, ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)]), 9)
    (found,) = get(parts, "t", asked(offset=2))
    assert values_of(found) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("max_bytes", [1, BATCH_SIZE - 1, BATCH_SIZE, BATCH_SIZE + 5, 10 * BATCH_SIZE])
async def test_the_first_batch_is_whole_whatever_the_limit(parts: Parts, max_bytes: int) -> None:
    await parts.create_topic("t")
    add(parts, "t", b"a", b"b")
    expected = min(max(max_bytes, BATCH_SIZE), 2 * BATCH_SIZE)
    (by_partition,) = get(parts, "t", asked(max_bytes=max_bytes))
    (by_request,) = get(parts, "t", asked(), max_bytes=max_bytes)
    assert (len(by_partition.records or b""), len(by_request.records or b"")) == (expected, expected)


async def test_only_the_first_partition_that_has_records_may_break_the_limit(parts: Parts) -> None:
    await parts.create_topic("t", partitions=3)
    for number in (1, 2):
        add(parts, "t", b"a", number=number)
    found = get(parts, "t", *(asked(number, max_bytes=10) for number in (0, 1, 2)))
    assert [len(one.records or b"") for one in found] == [0, BATCH_SIZE, 0]


async def test_bytes_are_shared_out_in_the_order_of_the_request(parts: Parts) -> None:
    await parts.create_topic("t", partitions=2)
    for number in (0, 1):
        add(parts, "t", b"a", number=number)
    found = get(parts, "t", asked(0), asked(1), max_bytes=BATCH_SIZE + 5)
    assert [len(one.records or b"") for one in found] == [BATCH_SIZE, 0]
    found = get(parts, "t", asked(1), asked(0), max_bytes=2 * BATCH_SIZE)
    assert [(one.partition_index, len(one.records or b"")) for one in found] == [(1, BATCH_SIZE), (0, BATCH_SIZE)]


async def test_the_brokers_own_limit_holds(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data", texts={"fetch.max.bytes": "1024"})
    await parts.create_topic("t")
    add(parts, "t", *[b"x" * 500] * 4)
    (found,) = get(parts, "t", asked())
    assert len(found.records or b"") == 1024
    await stop_parts(parts)


@pytest.mark.parametrize("offset", [-1, 3, 100])
async def test_an_offset_out_of_range(parts: Parts, offset: int) -> None:
    await parts.create_topic("t")
    add(parts, "t", b"a", b"b")
    (found,) = get(parts, "t", asked(offset=offset))
    assert (found.error_code, found.high_watermark, found.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)
    assert found.records == b""


async def test_errors_are_answered_for_each_partition(parts: Parts) -> None:
    await parts.create_topic("good")
    await parts.create_topic("secret")
    await parts.create_topic("elsewhere", replicas=(7,))
    add(parts, "good", b"a")
    parts.authorizer.deny(AclOperation.READ, ResourceType.TOPIC, "secret")
    request = FetchRequest(
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=name, partitions=[asked()]) for name in ("secret", "nowhere", "elsewhere", "good")],
    )
    response: FetchResponse = parts.answer(fetch, request, 12)
    assert {topic.topic: topic.partitions[0].error_code for topic in response.responses} == {
        "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "elsewhere": ErrorCode.NOT_LEADER_OR_FOLLOWER,
        "good": ErrorCode.NONE,
    }


@pytest.mark.parametrize(
    ("epoch", "code"), [(2, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.NONE), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_the_leader_epoch_a_client_knows_is_compared(parts: Parts, epoch: int, code: ErrorCode) -> None:
    topic = await parts.create_topic("t")
    await parts.change_partition("t", leader_epoch=3)
    request = fetch_request("", [asked(current_leader_epoch=epoch)], topic_id=topic.topic_id)
    response: FetchResponse = parts.answer(fetch, request, 16)
    (found,) = response.responses[0].partitions
    assert found.error_code == code
    # Only a client that is behind is told the leader: one that is ahead knows more than this broker (KIP-951).
    is_told = code == ErrorCode.FENCED_LEADER_EPOCH
    assert found.current_leader.leader_epoch == (3 if is_told else -1)


async def test_a_client_at_the_wrong_broker_is_told_the_leader(parts: Parts) -> None:
    await parts.register_broker(7)
    topic = await parts.create_topic("t", replicas=(NODE_ID, 7))
    await parts.change_partition("t", leader=7, leader_epoch=1)
    request = fetch_request("", [asked()], topic_id=topic.topic_id, replica_id=-1)
    request.replica_state = ReplicaState(replica_id=7)
    response: FetchResponse = parts.answer(fetch, request, 16)
    (found,) = response.responses[0].partitions
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (7, 1)
    assert [(node.node_id, node.host) for node in response.node_endpoints] == [(7, "broker-7")]


async def test_consumers_from_v11_on_may_read_from_a_follower(parts: Parts) -> None:
    await parts.create_topic("t", replicas=(NODE_ID, 7), isr=(NODE_ID,))
    add(parts, "t", b"a")
    await parts.change_partition("t", leader=7, leader_epoch=1)
    assert get(parts, "t", asked(), version=11)[0].error_code == ErrorCode.NONE
    assert get(parts, "t", asked(), version=10)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_reader_whose_last_epoch_ended_earlier_is_told_where(parts: Parts) -> None:
    await parts.create_topic("t")
    add(parts, "t", b"a", b"b", b"c")
    await parts.change_partition("t", leader_epoch=2)
    add(parts, "t", b"d")
    (level,) = get(parts, "t", asked(offset=2, last_fetched_epoch=0))
    (diverged,) = get(parts, "t", asked(offset=4, last_fetched_epoch=0))
    (between,) = get(parts, "t", asked(offset=4, last_fetched_epoch=1))
    (unknown,) = get(parts, "t", asked(offset=4, last_fetched_epoch=9))
    assert (level.diverging_epoch.epoch, values_of(level)) == (-1, [b"c", b"d"])
    assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, 3)
    assert (between.diverging_epoch.epoch, between.diverging_epoch.end_offset) == (0, 3)
    assert (diverged.records, diverged.high_watermark) == (b"", 4)
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# Waiting


async def test_a_fetch_at_the_end_waits_until_a_record_comes(parts: Parts) -> None:
    await parts.create_topic("t")
    parked = parts.handle(fetch, fetch_request("t", [asked()], max_wait_ms=500), 12)
    assert isinstance(parked, Parked)
    assert parts.manager.fetch_purgatory.delayed_count == 1
    add(parts, "t", b"a")
    (topic,) = completed(parked).responses
    assert values_of(topic.partitions[0]) == [b"a"]
    assert parts.manager.fetch_purgatory.delayed_count == 0


async def test_a_fetch_that_waits_ends_empty_when_its_time_is_over(parts: Parts) -> None:
    await parts.create_topic("t")
    parked = parts.handle(fetch, fetch_request("t", [asked()], max_wait_ms=500), 12)
    parts.clock.advance(499)
    assert not parked.is_done
    parts.clock.advance(1)
    (topic,) = completed(parked).responses
    assert (topic.partitions[0].error_code, topic.partitions[0].records) == (0, b"")
    assert parts.manager.expired_fetches == {"follower": 0, "consumer": 1}


async def test_a_fetch_waits_for_min_bytes_over_all_its_partitions(parts: Parts) -> None:
    await parts.create_topic("t", partitions=2)
    request = fetch_request("t", [asked(0), asked(1)], max_wait_ms=500, min_bytes=2 * BATCH_SIZE)
    parked = parts.handle(fetch, request, 12)
    add(parts, "t", b"a", number=0)
    assert not parked.is_done
    add(parts, "t", b"b", number=1)
    (topic,) = completed(parked).responses
    assert [values_of(found) for found in topic.partitions] == [[b"a"], [b"b"]]


async def test_what_exceeds_the_partitions_limit_does_not_count_for_min_bytes(parts: Parts) -> None:
    await parts.create_topic("t")
    request = fetch_request("t", [asked(max_bytes=BATCH_SIZE)], max_wait_ms=500, min_bytes=2 * BATCH_SIZE)
    parked = parts.handle(fetch, request, 12)
    add(parts, "t", b"a", b"b", b"c")
    assert not parked.is_done


async def test_min_bytes_above_max_bytes_is_max_bytes(parts: Parts) -> None:
    await parts.create_topic("t")
    add(parts, "t", b"a")
    found = get(parts, "t", asked(), max_wait_ms=500, min_bytes=1 << 30, max_bytes=BATCH_SIZE)
    assert values_of(found[0]) == [b"a"]


async def test_a_fetch_on_a_closed_segment_does_not_wait_for_more(parts: Parts) -> None:
    await parts.create_topic("t", segment_bytes="1048576")
    request = fetch_request("t", [asked()], max_wait_ms=500, min_bytes=1 << 20)
    parked = parts.handle(fetch, request, 12)
    add(parts, "t", b"a")
    assert not parked.is_done
    parts.partition("t").log.roll()
    add(parts, "t", b"b")
    (topic,) = completed(parked).responses
    assert values_of(topic.partitions[0]) == [b"a"]


async def test_an_error_in_one_partition_is_answered_at_once(parts: Parts) -> None:
    await parts.create_topic("t", partitions=2)
    found = get(parts, "t", asked(0), asked(1, offset=9), max_wait_ms=500)
    assert [one.error_code for one in found] == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_only_unknown_partitions_are_answered_at_once(parts: Parts) -> None:
    (found,) = get(parts, "nowhere", asked(), max_wait_ms=500)
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_fetch_that_waits_hears_that_the_topic_is_gone(parts: Parts) -> None:
    topic = await parts.create_topic("t")
    parked = parts.handle(fetch, fetch_request("t", [asked()], max_wait_ms=500), 12)
    await parts.metadata.delete_topics([topic.topic_id])
    (answer,) = completed(parked).responses
    assert answer.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_fetch_that_waits_hears_that_the_leader_changed(parts: Parts) -> None:
    await parts.create_topic("t", replicas=(NODE_ID, 7), isr=(NODE_ID,))
    request = fetch_request("t", [asked(current_leader_epoch=0)], max_wait_ms=500)
    parked = parts.handle(fetch, request, 12)
    await parts.change_partition("t", leader=7, leader_epoch=1)
    (answer,) = completed(parked).responses
    assert answer.partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_fetch_that_waits_hears_that_the_log_went_offline(parts: Parts) -> None:
    await parts.create_topic("t")
    log = parts.partition("t").log
    parked = {
        version: parts.handle(fetch, fetch_request("t", [asked()], max_wait_ms=500), version) for version in (5, 6)
    }
    log.take_offline("the test says so")
    parts.manager.high_watermark_moved(parts.partition("t"))
    codes = {version: completed(one).responses[0].partitions[0].error_code for version, one in parked.items()}
    # Before v6 clients do not know KAFKA_STORAGE_ERROR.
    assert codes == {5: ErrorCode.NOT_LEADER_OR_FOLLOWER, 6: ErrorCode.KAFKA_STORAGE_ERROR}


async def test_the_end_of_the_broker_answers_those_who_wait(parts: Parts) -> None:
    await parts.create_topic("t")
    parked = parts.handle(fetch, fetch_request("t", [asked()], max_wait_ms=500_000), 12)
    await parts.manager.stop()
    assert completed(parked).responses[0].partitions[0].error_code == ErrorCode.NONE


# Sessions


async def test_a_session_answers_what_is_new(parts: Parts) -> None:
    await parts.create_topic("t", partitions=2)
    opened: FetchResponse = parts.answer(fetch, fetch_request("t", [asked(0), asked(1)], session_epoch=0), 12)
    assert opened.session_id > 0
    assert len(opened.responses[0].partitions) == 2

    def go_on(epoch: int, *partitions: FetchPartition, version: int = 12, **fields: int) -> FetchResponse:
        request = fetch_request("t", partitions, session_id=opened.session_id, session_epoch=epoch, **fields)
        answer = parts.answer(fetch, request, version)
        assert isinstance(answer, FetchResponse)
        return answer

    assert go_on(1).responses == []
    add(parts, "t", b"a", number=1)
    (topic,) = go_on(2).responses
    assert [(found.partition_index, values_of(found)) for found in topic.partitions] == [(1, [b"a"])]
    assert go_on(2).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    (topic,) = go_on(3, asked(1, offset=1), asked(5)).responses
    assert [(found.partition_index, found.error_code) for found in topic.partitions] == [
        (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ]
    assert go_on(4, version=13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    request = fetch_request("t", [], session_id=opened.session_id, session_epoch=4)
    request.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[5])]
    assert parts.answer(fetch, request, 12).responses == []


async def test_a_session_nobody_knows(parts: Parts) -> None:
    request = fetch_request("t", [], session_id=77, session_epoch=3)
    assert parts.answer(fetch, request, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_goes_on_after_a_fetch_that_waited(parts: Parts) -> None:
    await parts.create_topic("t")
    opened: FetchResponse = parts.answer(fetch, fetch_request("t", [asked()], session_epoch=0), 12)
    request = fetch_request("t", [], session_id=opened.session_id, session_epoch=1, max_wait_ms=500)
    parked = parts.handle(fetch, request, 12)
    add(parts, "t", b"a")
    answer = completed(parked)
    assert (answer.session_id, values_of(answer.responses[0].partitions[0])) == (opened.session_id, [b"a"])


async def test_topic_ids_in_a_session(parts: Parts) -> None:
    topic = await parts.create_topic("t")
    add(parts, "t", b"a")
    request = FetchRequest(
        session_epoch=0,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic_id=one, partitions=[asked()]) for one in (b"x" * 16, topic.topic_id)],
    )
    opened: FetchResponse = parts.answer(fetch, request, 13)
    codes = {answer.topic_id: answer.partitions[0].error_code for answer in opened.responses}
    assert codes == {topic.topic_id: ErrorCode.NONE, b"x" * 16: ErrorCode.UNKNOWN_TOPIC_ID}
    await parts.metadata.delete_topics([topic.topic_id])
    await parts.create_topic("t")

    def go_on(epoch: int) -> set[int]:
        request = fetch_request("", [], session_id=opened.session_id, session_epoch=epoch)
        response = parts.answer(fetch, request, 13)
        return {answer.partitions[0].error_code for answer in response.responses}

    # The session remembers the name that the id had; the partition of that name has another id now.
    assert go_on(1) == {ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID}


# Isolation


def end_transaction(parts: Parts, topic: str, producer_id: int, *, commit: bool) -> None:
    """Write a marker, as the transaction coordinator would."""
    marker = write_end_txn_marker(
        EndTxnMarker(ControlType.COMMIT if commit else ControlType.ABORT, 0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp=0,
    )
    partition = parts.partition(topic)
    result = partition.append_as_leader(marker, acks=1, origin=AppendOrigin.COORDINATOR)
    parts.manager.appended(partition, high_watermark_moved=result.high_watermark_moved)


async def test_read_committed_stops_at_the_last_stable_offset(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data", texts={"transaction.partition.verification.enable": "false"})
    await parts.create_topic("t")

    def transact(sequence: int, value: bytes) -> None:
        records = batch(value, producer_id=9, producer_epoch=0, base_sequence=sequence, is_transactional=True)
        parts.partition("t").append_as_leader(records, acks=1)

    transact(0, b"aborted")
    (open_one,) = get(parts, "t", asked(), isolation_level=1)
    assert (open_one.records, open_one.high_watermark, open_one.last_stable_offset) == (b"", 1, 0)
    assert open_one.aborted_transactions == []
    assert len(get(parts, "t", asked())[0].records or b"") > 0

    parked = parts.handle(fetch, fetch_request("t", [asked()], max_wait_ms=500, isolation_level=1), 12)
    assert isinstance(parked, Parked)
    end_transaction(parts, "t", 9, commit=False)
    found = completed(parked).responses[0].partitions[0]
    assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions] == [(9, 0)]
    assert (found.high_watermark, found.last_stable_offset) == (2, 2)

    transact(1, b"committed")
    end_transaction(parts, "t", 9, commit=True)
    (after,) = get(parts, "t", asked(offset=2), isolation_level=1)
    assert (after.aborted_transactions, after.last_stable_offset) == ([], 4)
    await stop_parts(parts)


# Followers


async def test_a_follower_needs_the_clusters_leave(parts: Parts) -> None:
    await parts.create_topic("t", replicas=(NODE_ID, 7), isr=(NODE_ID,))
    parts.authorizer.deny(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    (found,) = get(parts, "t", asked(), replica_id=7)
    assert found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_a_replica_that_is_not_assigned(parts: Parts, epoch: int, code: ErrorCode) -> None:
    await parts.create_topic("t")
    (found,) = get(parts, "t", asked(current_leader_epoch=epoch), replica_id=7)
    assert found.error_code == code


# What is counted, and what a request is answered that failed as a whole


async def test_bytes_and_requests_are_counted(parts: Parts) -> None:
    await parts.create_topic("t")
    add(parts, "t", b"a")
    get(parts, "t", asked())
    get(parts, "t", asked(offset=9))
    counted = parts.broker.metrics.topic("t")
    assert (counted.bytes_out, counted.total_fetch_requests, counted.failed_fetch_requests) == (BATCH_SIZE, 2, 0)
    assert parts.broker.metrics.known_errors[("Fetch", "OFFSET_OUT_OF_RANGE")] == 1


async def test_before_v13_a_failed_request_says_so_in_each_partition(parts: Parts) -> None:
    request = fetch_request("t", [asked(0), asked(1)], session_id=5)
    old = fetch.error_response(parts.request(request, 12), ErrorCode.UNKNOWN_SERVER_ERROR, None)
    new = fetch.error_response(parts.request(request, 13), ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert (old.error_code, old.session_id, len(old.responses[0].partitions)) == (-1, 5, 2)
    assert (new.error_code, new.responses) == (-1, [])
