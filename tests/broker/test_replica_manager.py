"""The replica manager follows the metadata store, and its partitions outlive the broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tailrace.broker.handlers import produce
from tailrace.broker.request import Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.storage.disk import DiskError
from tests.broker.parts import NODE_ID, Parts, abandon_parts, batch, completed, make_parts, sole, stop_parts


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    yield parts
    await stop_parts(parts)


def code_of(parts: Parts, topic: str, number: int = 0) -> ErrorCode:
    try:
        return parts.manager.partition(topic, number).availability()
    except ApiError as error:
        return error.code


async def test_partitions_come_and_go_as_the_store_says(parts: Parts) -> None:
    assert code_of(parts, "t") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = await parts.create_topic("t", partitions=2)
    assert [code_of(parts, "t", number) for number in (0, 1, 2)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    await parts.metadata.add_partitions(topic.topic_id, expected_count=2, partitions=topic.partitions[:1])
    assert code_of(parts, "t", 2) == ErrorCode.NONE
    await parts.metadata.delete_topics([topic.topic_id])
    assert code_of(parts, "t") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert TopicPartition("t", 0) not in parts.broker.log_manager.logs
    assert "t" not in parts.broker.metrics.topics


async def test_a_topic_made_anew_under_its_name_begins_empty(parts: Parts) -> None:
    topic = await parts.create_topic("t")
    parts.partition("t").append_as_leader(batch(b"a"), acks=1)
    await parts.metadata.delete_topics([topic.topic_id])
    await parts.create_topic("t")
    assert parts.partition("t").log.log_end_offset == 0


async def test_a_partition_that_moves_away_is_given_up(parts: Parts) -> None:
    await parts.create_topic("t", replicas=(NODE_ID, 7))
    await parts.change_partition("t", replicas=(7,), isr=(7,), leader=7, leader_epoch=1)
    assert code_of(parts, "t") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert TopicPartition("t", 0) not in parts.broker.log_manager.logs


async def test_an_older_word_of_the_store_is_ignored(parts: Parts) -> None:
    await parts.create_topic("t", replicas=(NODE_ID, 7))
    first = parts.metadata.partition("t", 0)
    await parts.change_partition("t", leader=7, leader_epoch=1)
    assert first is not None
    parts.partition("t").apply(first)
    assert parts.partition("t").leader == 7


async def test_topics_follow_their_settings(parts: Parts) -> None:
    await parts.create_topic("t")
    log = parts.partition("t").log
    await parts.configure_topic("t", max_message_bytes="100", min_insync_replicas="3")
    assert log.config.max_message_bytes == 100
    # A topic of one replica never needs more than that one (KIP-966).
    assert parts.partition("t").effective_min_isr == 1
    with pytest.raises(ApiError) as caught:
        parts.partition("t").append_as_leader(batch(b"x" * 100), acks=-1)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    await parts.configure_topic("t")
    assert log.config.max_message_bytes == 1_048_588


async def test_topics_follow_the_brokers_settings(parts: Parts) -> None:
    await parts.create_topic("t")
    changed = parts.broker.config.with_dynamic(dynamic_default={"message.max.bytes": "100"}, dynamic_broker={})
    parts.manager.reconfigure(changed)
    assert parts.partition("t").log.config.max_message_bytes == 100


@pytest.mark.parametrize("is_killed", [True, False])
async def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path, is_killed: bool) -> None:
    parts = await make_parts(tmp_path / "data")
    await parts.create_topic("t")
    parts.partition("t").append_as_leader(batch(b"a", b"b"), acks=-1)
    if is_killed:
        abandon_parts(parts)
    else:
        await stop_parts(parts)
    again = await make_parts(tmp_path / "data")
    log = again.partition("t").log
    assert (log.log_end_offset, log.high_watermark, again.partition("t").is_leader) == (2, 2, True)
    await stop_parts(again)


async def test_a_disk_that_fails_takes_the_partition_offline_and_answers_who_waits(parts: Parts) -> None:
    await parts.create_topic("t", replicas=(NODE_ID, 7))
    await parts.create_topic("other", replicas=(NODE_ID, 7))
    data = [PartitionProduceData(index=0, records=batch(b"a"))]
    topics = [TopicProduceData(name="other", partition_data=data)]
    parked = parts.handle(produce, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
    assert isinstance(parked, Parked)
    log = parts.partition("t").log
    log.disk_failed(DiskError("write", log.directory, 5))
    await asyncio.sleep(0)  # the news comes through the loop, because it may come from a thread
    assert sole(completed(parked)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(parts, "t") == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError) as caught:
        parts.partition("t").append_as_leader(batch(b"a"), acks=1)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_partition_whose_log_could_not_be_made_says_so(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    monkeypatch.setattr(parts.broker.log_manager, "get_or_create", refuse)
    await parts.create_topic("t")
    assert code_of(parts, "t") == ErrorCode.KAFKA_STORAGE_ERROR
