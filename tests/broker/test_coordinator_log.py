"""An internal topic's partitions as a coordinator's logs: written, committed, loaded, lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tailrace.broker.coordinator_log import CoordinatorLog, TransactionalProducer
from tailrace.broker.coordinator_topic import CoordinatorTopic
from tailrace.broker.java_hash import java_hash
from tailrace.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.coordinator.record_codec import GROUP_RECORDS, CoordinatorRecord
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.control import ControlType, EndTxnMarker
from tailrace.protocol.records.reader import read_records
from tests.broker.parts import Parts, abandon_parts, batch, make_parts, stop_parts

TOPIC = "__consumer_offsets"
PRODUCER = TransactionalProducer(7, 0)


@dataclass
class Shard:
    """Remembers what it was told."""

    log: CoordinatorLog
    told: list[object] = field(default_factory=list)

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        value = record.value
        self.told.append((record.key.topic, value and value.offset, offset, producer_id))  # type: ignore[attr-defined]

    def replay_marker(self, *, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        self.told.append(("commit" if is_commit else "abort", producer_id, producer_epoch))

    def activate(self) -> None:
        self.told.append("active")

    def resign(self) -> None:
        self.told.append("resigned")


def record(topic: str, offset: int | None = 0, metadata: str = "") -> CoordinatorRecord:
    value = None if offset is None else OffsetCommitValue(offset=offset, metadata=metadata)
    return CoordinatorRecord(OffsetCommitKey(group="g", topic=topic), value)


def start(parts: Parts, timeout_ms: float = 5000) -> CoordinatorTopic[Shard]:
    topic = CoordinatorTopic(
        TOPIC,
        table=GROUP_RECORDS,
        replica_manager=parts.manager,
        make_shard=Shard,
        default_partitions=50,
        timeout_ms=timeout_ms,
    )
    topic.start()
    return topic


async def make(folder: Path, **texts: str) -> tuple[Parts, CoordinatorTopic[Shard]]:
    settings = {key.replace("_", "."): value for key, value in texts.items()}
    parts = await make_parts(folder, texts={"offsets.topic.num.partitions": "3", **settings})
    topic = start(parts)
    await topic.ensure_created()
    return parts, topic


async def test_keys_go_to_the_partitions_that_kafka_gives_them(tmp_path: Path) -> None:
    parts, topic = await make(tmp_path)
    # what Java prints for "...".hashCode()
    assert [java_hash(text) for text in ("", "g", "group-1", "größe", "\U0001d4b3")] == [
        0,
        103,
        293427299,
        98762257,
        1772318,
    ]
    assert topic.partition_of("g") == 103 % 3
    assert java_hash("offsets.g") == -1960664007
    assert topic.partition_of("offsets.g") == 1960664007 % 3
    assert java_hash("polygenelubricants") == 0  # it is -2^31, whose absolute value Kafka takes for 0
    await stop_parts(parts)


async def test_the_topic_has_kafkas_configuration_and_is_led_at_once(tmp_path: Path) -> None:
    parts, topic = await make(tmp_path)
    config = parts.partition(TOPIC, 2).log.config
    assert (config.cleanup_policy, config.segment_bytes) == (frozenset({"compact"}), 104857600)
    assert [shard.told for shard in topic.shards()] == [["active"]] * 3
    await topic.ensure_created()
    await stop_parts(parts)


async def test_an_append_is_committed_within_the_call_and_replayed_after_a_crash(tmp_path: Path) -> None:
    parts, topic = await make(tmp_path)
    log = topic.shard("g").log
    told: list[object] = []
    log.append([record("a", 1), record("b", 2)], on_done=told.append, on_commit=lambda: told.append("committed"))
    assert told == ["committed", ErrorCode.NONE]
    log.append([record("a", None)], on_done=told.append)
    abandon_parts(parts)
    parts = await make_parts(tmp_path, texts={"offsets.topic.num.partitions": "3"})
    topic = start(parts)
    with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        topic.shard("g")
    await topic.loaded()
    assert topic.shard("g").told == [("a", 1, 0, -1), ("b", 2, 1, -1), ("a", None, 2, -1), "active"]
    await stop_parts(parts)


async def test_transactional_records_and_markers_are_replayed_as_such(tmp_path: Path) -> None:
    parts, topic = await make(tmp_path)
    log = topic.shard("g").log
    told: list[object] = []
    log.append([record("a", 1)], on_done=told.append, producer=PRODUCER)
    log.append_marker(
        EndTxnMarker(ControlType.COMMIT, 3), PRODUCER, on_done=told.append, on_commit=lambda: told.append("ended")
    )
    assert told == [0, "ended", 0]
    assert log.partition.log.last_stable_offset == 2
    fresh = Shard(log)
    again = CoordinatorLog(log.partition, table=GROUP_RECORDS, replica_manager=parts.manager, timeout_ms=1)
    await again.load(fresh)
    assert fresh.told == [("a", 1, 0, 7), ("commit", 7, 0), "active"]
    await stop_parts(parts)


async def test_what_belongs_together_goes_into_one_batch_or_nowhere(tmp_path: Path) -> None:
    parts, topic = await make(tmp_path)
    await parts.configure_topic(TOPIC, cleanup_policy="compact", max_message_bytes="2000")
    log = topic.shard("g").log
    told: list[object] = []
    many = [record(f"topic-{number}", number, "m" * 50) for number in range(100)]
    log.append(many, on_done=told.append)
    assert told == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert log.partition.log.log_end_offset == 0
    log.append(many, on_done=told.append, is_atomic=False)
    assert told[1:] == [ErrorCode.NONE]
    view = log.partition.log.read(0, max_bytes=10**6, upper_offset=100, min_one_message=True).records
    assert len(list(read_records(view))) == 100
    await stop_parts(parts)


async def test_with_followers_a_record_counts_when_they_have_it(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    await parts.register_broker(1)
    await parts.create_topic(TOPIC, replicas=(0, 1), cleanup_policy="compact")
    topic = start(parts)
    log = topic.shard("g").log
    told: list[object] = []
    log.append([record("a", 1)], on_done=told.append, on_commit=lambda: told.append("first"))
    log.append([record("a", 2)], on_done=told.append, on_commit=lambda: told.append("second"))
    assert told == []
    partition = log.partition
    for offset in (1, 2):
        partition.follower_fetched(
            partition.followers[1], fetch_offset=offset, log_start_offset=0, broker_epoch=0, leader_end=2
        )
    assert told == ["first", 0, "second", 0]
    await stop_parts(parts)


async def test_replicas_that_take_too_long_are_told_and_the_record_counts_later(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    await parts.register_broker(1)
    await parts.create_topic(TOPIC, replicas=(0, 1), cleanup_policy="compact")
    topic = start(parts, timeout_ms=5000)
    log = topic.shard("g").log
    told: list[object] = []
    log.append([record("a", 1)], on_done=told.append, on_commit=lambda: told.append("committed"))
    await parts.clock.advance_async(5001)
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    partition = log.partition
    partition.follower_fetched(partition.followers[1], fetch_offset=1, log_start_offset=0, broker_epoch=0, leader_end=1)
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE, "committed"]
    await stop_parts(parts)


async def test_too_few_replicas_are_told_before_anything_is_written(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    await parts.register_broker(1)
    await parts.create_topic(TOPIC, replicas=(0, 1), isr=(0,), cleanup_policy="compact", min_insync_replicas="2")
    log = start(parts).shard("g").log
    told: list[object] = []
    log.append([record("a", 1)], on_done=told.append)
    assert told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert log.partition.log.log_end_offset == 0
    await stop_parts(parts)


async def test_who_loses_the_leadership_answers_all_and_forgets(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    await parts.register_broker(1)
    await parts.create_topic(TOPIC, replicas=(0, 1), cleanup_policy="compact")
    topic = start(parts)
    shard = topic.shard("g")
    told: list[object] = []
    shard.log.append([record("a", 1)], on_done=told.append)
    await parts.change_partition(TOPIC, leader=1, leader_epoch=1)
    assert told == [ErrorCode.NOT_COORDINATOR]
    assert shard.told[-1] == "resigned"
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        topic.shard("g")
    shard.log.append([record("a", 1)], on_done=told.append)
    assert told[1:] == [ErrorCode.NOT_COORDINATOR]
    await parts.change_partition(TOPIC, leader=0, leader_epoch=2)
    await topic.loaded()
    assert topic.shard("g").told == [("a", 1, 0, -1), "active"]
    await stop_parts(parts)


async def test_unknown_records_are_passed_over_and_broken_ones_stop_the_load(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts, topic = await make(tmp_path)
    log = topic.shard("g").log
    strange = batch(b"\x00\x00whatever", key=b"\x00\x63whatever")
    log.partition.append_as_leader(strange, acks=-1)
    log.append([record("a", 1)], on_done=lambda code: None)
    fresh = Shard(log)
    await CoordinatorLog(log.partition, table=GROUP_RECORDS, replica_manager=parts.manager, timeout_ms=1).load(fresh)
    assert fresh.told == [("a", 1, 1, -1), "active"]
    assert "type 99" in caplog.text
    log.partition.append_as_leader(batch(b"\x00\x04\x00", key=b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"), acks=-1)
    again = CoordinatorLog(log.partition, table=GROUP_RECORDS, replica_manager=parts.manager, timeout_ms=1)
    await again.load(fresh)
    assert again.state.value == "Failed"
    await stop_parts(parts)


async def test_loading_lets_others_run(tmp_path: Path) -> None:
    parts, topic = await make(tmp_path)
    log = topic.shard("g").log
    for number in range(30):
        log.append([record(f"t{n}", number) for n in range(200)], on_done=lambda code: None)
    clock_reads = iter(range(10**9))
    parts.clock.monotonic = lambda: next(clock_reads) / 1000  # type: ignore[method-assign]
    fresh = Shard(log)
    loading = asyncio.create_task(
        CoordinatorLog(log.partition, table=GROUP_RECORDS, replica_manager=parts.manager, timeout_ms=1).load(fresh)
    )
    turns = 0
    while not loading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 20
    assert len(fresh.told) == 6001
    await stop_parts(parts)
