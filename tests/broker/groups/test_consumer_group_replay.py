"""A consumer group that is loaded is the group that was served; damage and refused writes leave it whole."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tailrace.broker.groups.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer_replay import CONSUMER_RECORD_TYPES, replay
from tailrace.broker.groups.group import GroupType
from tailrace.broker.groups.hosted_consumer import HostedConsumerGroup
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.error_codes import ErrorCode
from tests.broker.groups.group_events import GroupEvents
from tests.broker.groups.random_group import RandomGroup


def played(seed: int, *, has_classic: bool, steps: int = 80) -> GroupEvents:
    """Give a coordinator after random events; member ids that it makes up are as good as Kafka's."""
    ours = GroupEvents()
    made = [0]

    def perform(event: dict[str, Any]) -> dict[str, Any]:
        made[0] += 1
        number = f"{made[0]:032x}"
        java_form = "-".join((number[:8], number[8:12], number[12:16], number[16:20], number[20:]))
        return ours.perform(event, new_ids=[f"client-{java_form}", f"{made[0]:022d}"[:21] + "A"])

    RandomGroup(Random(seed), perform, has_classic=has_classic, protocol=ours.protocol, due=ours.due).play(steps)
    return ours


def state(ours: GroupEvents) -> dict[str, Any]:
    """Give what groups are, without what is not written down."""
    found: dict[str, Any] = {}
    for group_id, hosted in ours.shard.groups.items():
        if isinstance(hosted, HostedConsumerGroup):
            group = hosted.group
            found[group_id] = {
                name: getattr(group, name)
                for name in ConsumerGroup.__slots__
                if name not in ("refresh_at_ms", "refresh_epoch")
            }
    return found


@pytest.mark.parametrize("has_classic", [False, True], ids=["consumers", "mixed"])
@pytest.mark.parametrize("seed", range(100, 120))
def test_the_same_records_make_the_same_group(seed: int, has_classic: bool) -> None:
    ours = played(seed, has_classic=has_classic)
    before, count = state(ours), len(ours.log.records)
    ours.load(ours.log.records)
    assert state(ours) == before
    assert count > 0


@pytest.mark.parametrize("seed", range(120, 130))
def test_a_partition_has_one_holder(seed: int) -> None:
    for group in state(played(seed, has_classic=seed % 2 == 0)).values():
        held = [
            (topic_id, partition)
            for member in group["members"].values()
            for assignment in (member.assigned, member.pending_revocation)
            for topic_id, partitions in assignment.items()
            for partition in partitions
        ]
        assert len(held) == len(set(held))
        assert set(held) == set(group["partition_epochs"])


def test_the_last_records_of_each_key_make_the_same_group() -> None:
    """What compaction keeps is enough, in the order in which it keeps it."""
    ours = played(131, has_classic=False, steps=150)
    before = state(ours)
    latest: dict[Any, CoordinatorRecord] = {}
    for record in ours.log.records:
        key = json.dumps([record.key.record_type, str(record.key)])
        latest.pop(key, None)
        latest[key] = record
    assert len(latest) < len(ours.log.records)
    ours.load(latest.values())
    assert state(ours) == before


def test_a_refused_write_changes_nothing() -> None:
    ours = played(132, has_classic=False)
    before, count = state(ours), len(ours.log.records)
    ours.log.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    event = RandomGroup._heartbeat("z", 0, rebalanceTimeoutMs=1000, subscribedTopicNames=["t1"], topicPartitions=[])
    outcome = ours.perform(event)
    assert outcome["response"]["errorCode"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (state(ours), len(ours.log.records)) == (before, count)
    ours.log.failure = ErrorCode.NONE
    assert ours.perform(event)["response"]["errorCode"] == ErrorCode.NONE


def test_a_timer_whose_records_were_refused_comes_again() -> None:
    ours = GroupEvents()
    ours.perform({"op": "reset", "topics": {"t": {"id": "AAAAAAAAAAAAAAAAAAAAAg", "partitions": 1}}})
    ours.perform(
        RandomGroup._heartbeat("a", 0, rebalanceTimeoutMs=1000, subscribedTopicNames=["t"], topicPartitions=[])
    )
    ours.log.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    ours.perform({"op": "advance", "ms": 45_000})
    assert ours.protocol() == "consumer"
    ours.log.failure = ErrorCode.NONE
    ours.perform({"op": "advance", "ms": 500})
    assert ours.protocol() == "none"


def test_sessions_begin_anew_when_a_group_is_loaded() -> None:
    ours = GroupEvents()
    ours.perform({"op": "reset", "topics": {"t": {"id": "AAAAAAAAAAAAAAAAAAAAAg", "partitions": 1}}})
    ours.perform(
        RandomGroup._heartbeat("a", 0, rebalanceTimeoutMs=1000, subscribedTopicNames=["t"], topicPartitions=[])
    )
    ours.perform({"op": "advance", "ms": 44_000})
    ours.load(ours.log.records)
    ours.perform({"op": "advance", "ms": 44_000})
    assert ours.protocol() == "consumer"
    ours.perform({"op": "advance", "ms": 1_000})
    assert ours.protocol() == "none"


def test_tombstones_of_what_is_not_there_are_nothing() -> None:
    ours = played(133, has_classic=False)
    tombstones = [
        CoordinatorRecord(record.key, None)
        for record in ours.log.records
        if record.key.record_type in CONSUMER_RECORD_TYPES
    ]
    group = ConsumerGroup("g")
    for tombstone in tombstones:
        replay(group, tombstone)
    assert (group.members, group.targets, group.resolved_regexes, group.partition_epochs) == ({}, {}, {}, {})
    ours.load(tombstones)
    assert ours.shard.groups == {}


def test_a_group_without_members_is_there_until_it_is_deleted() -> None:
    ours = GroupEvents()
    ours.perform({"op": "reset", "topics": {}})
    told = {"rebalanceTimeoutMs": 1000, "subscribedTopicNames": ["t"], "topicPartitions": []}
    ours.perform(RandomGroup._heartbeat("a", 0, **told))
    ours.perform(RandomGroup._heartbeat("a", -1))
    ours.load(ours.log.records)
    assert ours.shard.groups["g"].group_type is GroupType.CONSUMER
    codes: list[ErrorCode] = []
    ours.coordinator.delete("g", on_done=codes.append)
    assert codes == [ErrorCode.NONE]
    ours.load(ours.log.records)
    assert ours.shard.groups == {}
