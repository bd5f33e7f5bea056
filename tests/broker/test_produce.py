"""Produce, one error after the other; what is expected was asked of Apache Kafka 4.1.0 with the same bytes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from struct import pack_into

import crc32c
import pytest

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.handlers import fetch, produce
from tailrace.broker.request import NO_RESPONSE, CloseConnection, Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.protocol.records.batch_header import TimestampType
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.reader import read_records
from tailrace.storage.log import Log
from tests.broker.parts import NODE_ID, Parts, batch, completed, make_parts, sole, stop_parts


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    yield parts
    await stop_parts(parts)


def produce_request(
    topic: str,
    records: bytes | bytearray | None,
    *,
    acks: int = -1,
    index: int = 0,
    topic_id: bytes = bytes(16),
    transactional_id: str | None = None,
    timeout_ms: int = 1000,
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records)]
    topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)]
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id, topic_data=topics)


def send(
    parts: Parts, topic: str, records: bytes | bytearray | None, *, version: int = 9, acks: int = -1, index: int = 0
) -> PartitionProduceResponse:
    return sole(parts.answer(produce, produce_request(topic, records, acks=acks, index=index), version))


def checksummed(records: bytearray) -> bytearray:
    """Write the checksum anew after a header field was changed."""
    pack_into(">I", records, 17, crc32c.crc32c(bytes(records[21:])))
    return records


@pytest.mark.parametrize("acks", [-1, 1])
async def test_records_get_the_next_offsets(parts: Parts, acks: int) -> None:
    await parts.create_topic("t")
    for expected in (0, 3):
        answer = send(parts, "t", batch(b"a", b"b", b"c"), acks=acks)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, expected, -1)
        assert (answer.log_start_offset, answer.record_errors, answer.error_message) == (0, [], None)
    assert parts.partition("t").log.high_watermark == 6


async def test_a_hundred_produces_leave_nothing_in_the_purgatory(parts: Parts) -> None:
    await parts.create_topic("t")
    for _ in range(100):
        send(parts, "t", batch(b"a"))
    assert parts.manager.produce_purgatory.delayed_count == 0
    assert parts.manager.produce_purgatory.timer_entry_count == 0


@pytest.mark.parametrize("acks", [2, -2, 5])
async def test_acks_other_than_minus_one_zero_and_one_are_refused_for_each_partition(parts: Parts, acks: int) -> None:
    await parts.create_topic("t", partitions=2)
    request = ProduceRequest(
        acks=acks,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=index, records=batch(b"a")) for index in (0, 1, 7)]
            )
        ],
    )
    (topic,) = parts.answer(produce, request, 9).responses
    assert [answer.error_code for answer in topic.partition_responses] == [
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert {answer.base_offset for answer in topic.partition_responses} == {-1}
    assert parts.partition("t").log.log_end_offset == 0


async def test_without_acks_nothing_is_answered(parts: Parts) -> None:
    await parts.create_topic("t")
    assert parts.handle(produce, produce_request("t", batch(b"a"), acks=0), 9) is NO_RESPONSE
    assert parts.partition("t").log.log_end_offset == 1


async def test_without_acks_an_error_closes_the_connection(parts: Parts) -> None:
    with pytest.raises(CloseConnection, match="nowhere-0 UNKNOWN_TOPIC_OR_PARTITION"):
        parts.handle(produce, produce_request("nowhere", batch(b"a"), acks=0), 9)
    with pytest.raises(CloseConnection):
        produce.error_response(
            parts.request(produce_request("t", batch(b"a"), acks=0), 9), ErrorCode.UNKNOWN_SERVER_ERROR, None
        )


async def test_what_is_wrong_with_one_partition_does_not_keep_the_others_from_being_appended(parts: Parts) -> None:
    await parts.create_topic("good")
    await parts.create_topic("secret")
    await parts.create_topic("__consumer_offsets")
    parts.authorizer.deny(AclOperation.WRITE, ResourceType.TOPIC, "secret")
    names = ["nowhere", "secret", "__consumer_offsets", "good"]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch(b"a"))])
            for name in names
        ],
    )
    response: ProduceResponse = parts.answer(produce, request, 9)
    codes = {topic.name: topic.partition_responses[0].error_code for topic in response.responses}
    assert codes == {
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "__consumer_offsets": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "good": ErrorCode.NONE,
    }
    assert parts.partition("good").log.log_end_offset == 1
    assert parts.partition("secret").log.log_end_offset == 0


async def test_kafkas_own_tools_may_write_to_internal_topics(parts: Parts) -> None:
    await parts.create_topic("__consumer_offsets")
    request = produce_request("__consumer_offsets", batch(b"a"))
    answer = sole(parts.answer(produce, request, 9, client_id="__admin_client"))
    assert answer.error_code == ErrorCode.NONE


async def test_from_v13_topics_are_named_by_id(parts: Parts) -> None:
    topic = await parts.create_topic("t")
    response = parts.answer(produce, produce_request("", batch(b"a"), topic_id=topic.topic_id), 13)
    assert response.responses[0].topic_id == topic.topic_id
    assert (sole(response).error_code, sole(response).base_offset) == (0, 0)
    unknown = parts.answer(produce, produce_request("", batch(b"a"), topic_id=b"x" * 16), 13)
    assert unknown.responses[0].topic_id == b"x" * 16
    assert sole(unknown).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def two_batches() -> bytearray:
    return batch(b"a") + batch(b"b")


def with_byte(position: int, value: int) -> bytearray:
    records = batch(b"a")
    records[position] = value
    return records


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (bytes(10), ErrorCode.INVALID_RECORD),
        (bytes(61), ErrorCode.CORRUPT_MESSAGE),
        (bytes(8) + b"\xff\xff\xff\xfb" + bytes(80), ErrorCode.CORRUPT_MESSAGE),
        (two_batches(), ErrorCode.INVALID_RECORD),
        (batch(b"a")[:-1], ErrorCode.INVALID_RECORD),
        (with_byte(16, 0), ErrorCode.INVALID_RECORD),
        (with_byte(16, 1), ErrorCode.INVALID_RECORD),
        (with_byte(16, 3), ErrorCode.CORRUPT_MESSAGE),
        (with_byte(17, 255), ErrorCode.CORRUPT_MESSAGE),
        (with_byte(7, 5), ErrorCode.INVALID_RECORD),
        (checksummed(with_byte(60, 9)), ErrorCode.INVALID_RECORD),
        (batch(b"a", is_control=True), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "null",
        "empty",
        "ten bytes",
        "zeros",
        "negative size",
        "two batches",
        "cut",
        "magic 0",
        "magic 1",
        "magic 3",
        "crc",
        "base offset",
        "count",
        "control",
    ],
)
async def test_records_that_are_no_batch(parts: Parts, records: bytes | None, code: ErrorCode) -> None:
    await parts.create_topic("t")
    answer = send(parts, "t", records if records is None else bytearray(records))
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert parts.partition("t").log.log_end_offset == 0


@pytest.mark.parametrize("tail", [b"12345", bytes(batch(b"b"))[:-1]])
async def test_what_is_no_whole_batch_behind_the_first_is_ignored(parts: Parts, tail: bytes) -> None:
    await parts.create_topic("t")
    assert send(parts, "t", batch(b"a") + tail).error_code == ErrorCode.NONE
    assert parts.partition("t").log.log_end_offset == 1


async def test_zstd_needs_v7(parts: Parts) -> None:
    await parts.create_topic("t")
    zstd = batch(b"a", compression=Compression.ZSTD)
    assert send(parts, "t", zstd, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert send(parts, "t", zstd, version=7).error_code == ErrorCode.NONE


async def test_records_without_key_on_a_compacted_topic_are_named(parts: Parts) -> None:
    await parts.create_topic("t", cleanup_policy="compact")
    answer = send(parts, "t", batch(b"a", b"b", key=None))
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (ErrorCode.INVALID_RECORD, -1, 0)
    assert [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors] == [
        (0, "Compacted topic cannot accept message without key in topic partition t-0"),
        (1, "Compacted topic cannot accept message without key in topic partition t-0"),
    ]
    error = "message='Compacted topic cannot accept message without key in topic partition t-0'"
    assert answer.error_message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=0, {error}), RecordError(batchIndex=1, {error})]"
    )


@pytest.mark.parametrize(
    ("topic_type", "timestamp", "code"),
    [
        ("CreateTime", 1234, ErrorCode.NONE),
        ("CreateTime", -1, ErrorCode.INVALID_TIMESTAMP),
        ("LogAppendTime", 1234, ErrorCode.INVALID_TIMESTAMP),
    ],
)
async def test_a_producer_that_marks_its_batch_with_log_append_time(
    parts: Parts, topic_type: str, timestamp: int, code: ErrorCode
) -> None:
    await parts.create_topic("t", message_timestamp_type=topic_type)
    marked = batch(b"a", timestamp=timestamp, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert send(parts, "t", marked).error_code == code


async def test_a_batch_above_max_message_bytes(parts: Parts) -> None:
    await parts.create_topic("t", max_message_bytes="200")
    assert send(parts, "t", batch(b"x" * 300)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert parts.broker.metrics.topic("t").bytes_rejected > 300


async def test_a_batch_larger_than_a_segment(parts: Parts) -> None:
    await parts.create_topic("t", segment_bytes=str(1 << 20), max_message_bytes=str(3 << 20))
    assert send(parts, "t", batch(b"x" * (2 << 20))).error_code == ErrorCode.RECORD_LIST_TOO_LARGE


async def test_log_append_time_is_told(parts: Parts) -> None:
    await parts.create_topic("t", message_timestamp_type="LogAppendTime")
    parts.clock.advance(5000)
    assert send(parts, "t", batch(b"a")).log_append_time_ms == parts.clock.time_ms()


async def test_the_window_of_an_idempotent_producer(parts: Parts) -> None:
    await parts.create_topic("t")

    def numbered(sequence: int, epoch: int = 0) -> PartitionProduceResponse:
        records = batch(b"a", timestamp=1234, producer_id=5, producer_epoch=epoch, base_sequence=sequence)
        return send(parts, "t", records)

    assert numbered(0).base_offset == 0
    again = numbered(0)
    # Kafka answers a duplicate with its batch's own timestamp, on a topic of CreateTime too.
    assert (again.error_code, again.base_offset, again.log_append_time_ms) == (0, 0, 1234)
    assert numbered(5).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for sequence in range(1, 7):
        assert numbered(sequence).base_offset == sequence
    assert numbered(0).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (numbered(2).error_code, numbered(2).base_offset) == (0, 2)
    assert numbered(3, epoch=1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert numbered(0, epoch=1).base_offset == 7
    assert numbered(7).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert parts.partition("t").log.log_end_offset == 8


async def test_a_transaction_that_no_coordinator_vouches_for(parts: Parts) -> None:
    await parts.create_topic("t")
    records = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    without_id = parts.answer(produce, produce_request("t", records), 9)
    assert sole(without_id).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    answer = sole(parts.answer(produce, produce_request("t", records, transactional_id="x"), 11))
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert answer.error_message == (
        "Unable to verify the partition has been added to the transaction. Underlying error: NOT_COORDINATOR"
    )
    parts.authorizer.deny(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "x")
    denied = parts.answer(produce, produce_request("t", records, transactional_id="x"), 11)
    assert sole(denied).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_a_broker_that_does_not_verify_takes_transactional_records(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data", texts={"transaction.partition.verification.enable": "false"})
    await parts.create_topic("t")
    records = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert sole(parts.answer(produce, produce_request("t", records, transactional_id="x"), 11)).error_code == 0
    log = parts.partition("t").log
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    await stop_parts(parts)


async def test_a_client_at_the_wrong_broker_is_told_the_leader(parts: Parts) -> None:
    await parts.register_broker(7)
    await parts.create_topic("t", replicas=(NODE_ID, 7))
    await parts.change_partition("t", leader=7, leader_epoch=3)
    for version, leader_id in ((9, -1), (10, 7)):
        response: ProduceResponse = parts.answer(produce, produce_request("t", batch(b"a")), version)
        answer = sole(response)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader.leader_id == leader_id
    assert answer.current_leader.leader_epoch == 3
    assert [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints] == [
        (7, "broker-7", 9092, "rack-7")
    ]


async def test_a_partition_of_another_broker(parts: Parts) -> None:
    await parts.create_topic("t", replicas=(7,))
    assert send(parts, "t", batch(b"a")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_records_are_made_into_the_topics_codec_on_a_thread(parts: Parts) -> None:
    await parts.create_topic("t", compression_type="zstd")
    waiting = parts.handle(produce, produce_request("t", batch(b"a" * 500, b"b" * 500)), 9)
    assert asyncio.iscoroutine(waiting)
    answer = sole(await waiting)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    log = parts.partition("t").log
    read = log.read(0, max_bytes=1 << 20, upper_offset=2, min_one_message=True)
    assert read.records[22] & 7 == Compression.ZSTD
    assert [record.value for record in read_records(read.records)] == [b"a" * 500, b"b" * 500]
    assert parts.broker.metrics.topic("t").produce_message_conversions == 1


async def test_a_batch_that_can_not_be_converted(parts: Parts) -> None:
    await parts.create_topic("t", compression_type="gzip")
    waiting = parts.handle(produce, produce_request("t", with_byte(70, 0xFF)), 9)
    answer = sole(await waiting)
    assert answer.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert parts.partition("t").log.log_end_offset == 0


async def test_known_and_unexpected_errors_are_counted_apart(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await parts.create_topic("t", max_message_bytes="200")
    metrics = parts.broker.metrics
    send(parts, "t", batch(b"x" * 300))
    send(parts, "t", with_byte(17, 1))
    assert metrics.topic("t").failed_produce_requests == 0
    send(parts, "t", batch(b"a", is_control=True))
    assert metrics.topic("t").failed_produce_requests == 1
    assert metrics.known_errors[("Produce", "MESSAGE_TOO_LARGE")] == 1

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(Log, "append_as_leader", broken)
    with caplog.at_level(logging.ERROR):
        assert send(parts, "t", batch(b"a")).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        # An idempotent producer has to send again: the batch may be in the log (KAFKA-14034).
        idempotent = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
        assert send(parts, "t", idempotent).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert metrics.unexpected_errors["Produce"] == 2
    assert metrics.topic("t").failed_produce_requests == 3
    assert "a bug of ours" in caplog.text


async def test_bytes_and_messages_are_counted(parts: Parts) -> None:
    await parts.create_topic("t")
    records = batch(b"a", b"b")
    size = len(records)
    send(parts, "t", records)
    counted = parts.broker.metrics.topic("t")
    assert (counted.bytes_in, counted.messages_in, counted.total_produce_requests) == (size, 2, 1)


async def test_a_consumer_that_waits_gets_the_records_of_all_partitions_at_once(parts: Parts) -> None:
    await parts.create_topic("t", partitions=2)
    asked = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000) for number in (0, 1)]
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic="t", partitions=asked)]
    )
    parked = parts.handle(fetch, request, 12)
    assert isinstance(parked, Parked)
    data = [PartitionProduceData(index=number, records=batch(b"a")) for number in (0, 1)]
    topics = [TopicProduceData(name="t", partition_data=data)]
    parts.answer(produce, ProduceRequest(acks=1, topic_data=topics), 9)
    (answered,) = completed(parked).responses
    assert [len(found.records) > 0 for found in answered.partitions] == [True, True]


@pytest.mark.parametrize("acks", [-1, 1])
async def test_with_flush_messages_the_answer_waits_for_the_disk(parts: Parts, acks: int) -> None:
    await parts.create_topic("t", flush_messages="1")
    log = parts.partition("t").log
    parked = parts.handle(produce, produce_request("t", batch(b"a"), acks=acks), 9)
    assert isinstance(parked, Parked)
    assert (parked.is_done, log.log_end_offset, log.high_watermark) == (False, 1, 0)
    await until_done(parked)
    assert (sole(completed(parked)).error_code, log.recovery_point, log.high_watermark) == (0, 1, 1)


async def test_one_sync_serves_all_who_wait(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    await parts.create_topic("t", flush_messages="1")
    log = parts.partition("t").log
    syncs: list[object] = []
    perform = log.flusher.perform
    monkeypatch.setattr(type(log.flusher), "perform", lambda *_: (syncs.append(1), perform(_[1]))[1])
    parked = [parts.handle(produce, produce_request("t", batch(b"a")), 9) for _ in range(20)]
    for one in parked:
        await until_done(one)
    assert [sole(completed(one)).base_offset for one in parked] == list(range(20))
    assert len(syncs) <= 2


async def test_below_flush_messages_nobody_waits(parts: Parts) -> None:
    await parts.create_topic("t", flush_messages="3")
    assert send(parts, "t", batch(b"a")).error_code == 0
    assert send(parts, "t", batch(b"b")).error_code == 0
    parked = parts.handle(produce, produce_request("t", batch(b"c")), 9)
    assert isinstance(parked, Parked)
    await until_done(parked)
    assert sole(completed(parked)).base_offset == 2
    assert send(parts, "t", batch(b"d")).error_code == 0


async def until_done(parked: Parked) -> None:
    done = asyncio.Event()
    parked.add_done_callback(lambda _: done.set())
    await asyncio.wait_for(done.wait(), 10)
