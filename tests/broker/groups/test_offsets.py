"""Committing, fetching and deleting offsets: who may, what comes back, and what survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.coordinator_log import TransactionalProducer
from tailrace.broker.groups.offset_requests import Committer, OffsetToCommit
from tailrace.broker.handlers import delete_groups, offset_commit, offset_delete, offset_fetch
from tailrace.broker.request import Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.records.control import ControlType, EndTxnMarker
from tests.broker.groups.handled import ask, commit, fetch, fetched, join, make_groups, stable_member
from tests.broker.parts import Parts, abandon_parts, stop_parts

PRODUCER = TransactionalProducer(7, 0)


async def test_an_offset_comes_back_as_it_was_committed_and_survives_a_kill(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t", partitions=2)
    assert commit(parts, 42, metadata="nö", leader_epoch=3) is ErrorCode.NONE
    assert commit(parts, 43, partition=1, metadata=None) is ErrorCode.NONE
    for _ in range(2):
        ((topic,),) = [fetch(parts).topics]
        assert [(p.committed_offset, p.metadata, p.committed_leader_epoch) for p in topic.partitions] == [
            (42, "nö", 3),
            (43, "", -1),
        ]
        abandon_parts(parts)
        parts = await make_groups(tmp_path)
    await stop_parts(parts)


async def test_what_nobody_committed_is_minus_one_and_no_error(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    (topic,) = fetch(parts, 0, 9, topic="nowhere", group="nobody").topics
    assert [(p.committed_offset, p.metadata, p.error_code) for p in topic.partitions] == [(-1, "", 0)] * 2
    assert fetch(parts, group="nobody").topics == []
    await stop_parts(parts)


async def test_partitions_that_are_not_there_or_not_allowed_are_answered_apart(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    await parts.create_topic("secret")
    parts.authorizer.deny(AclOperation.READ, ResourceType.TOPIC, "secret")
    asked = [("t", 0), ("t", 1), ("gone", 0), ("secret", 0)]
    body = OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=[OffsetCommitRequestPartition(partition_index=index)])
            for name, index in asked
        ],
    )
    answer = ask(parts, offset_commit, body, 8)
    assert [(topic.name, topic.partitions[0].error_code) for topic in answer.topics] == [
        ("t", 0),
        ("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    await stop_parts(parts)


async def test_metadata_that_is_too_long_is_refused_as_java_counts_it(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path, offset_metadata_max_bytes="4")
    await parts.create_topic("t")
    assert commit(parts, metadata="12345") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(parts, metadata="ößää") is ErrorCode.NONE
    assert commit(parts, metadata="\U0001f600\U0001f600x") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert fetched(parts) == 42
    await stop_parts(parts)


async def test_members_commit_in_their_generation_and_others_only_where_there_are_none(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    assert commit(parts, generation=3, member_id="m", version=8) is ErrorCode.ILLEGAL_GENERATION
    assert commit(parts, generation=3, member_id="m") is ErrorCode.GROUP_ID_NOT_FOUND
    assert commit(parts) is ErrorCode.NONE
    joined = await stable_member(parts)
    member, generation = joined.member_id, joined.generation_id
    assert commit(parts) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(parts, member_id="stranger", generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(parts, member_id=member, generation=generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(parts, 50, member_id=member, generation=generation) is ErrorCode.NONE
    assert commit(parts, member_id=member, generation=generation, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID
    again = join(parts, member)
    assert again.generation_id == generation + 1
    assert commit(parts, member_id=member, generation=generation + 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert fetched(parts) == 50
    await stop_parts(parts)


async def test_a_commit_keeps_the_session(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    joined = await stable_member(parts, session_ms=10_000)
    for _ in range(5):
        await parts.clock.advance_async(9000)
        assert commit(parts, member_id=joined.member_id, generation=joined.generation_id) is ErrorCode.NONE
    await parts.clock.advance_async(10_001)
    assert commit(parts, member_id=joined.member_id, generation=joined.generation_id) is ErrorCode.UNKNOWN_MEMBER_ID
    await stop_parts(parts)


async def test_groups_that_may_not_be_seen_are_refused_alone(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    await parts.create_topic("secret")
    commit(parts, 1)
    commit(parts, 2, topic="secret")
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.GROUP, "hidden")
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.TOPIC, "secret")
    named = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in ("secret", "t")]
    body = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="hidden", topics=None),
            OffsetFetchRequestGroup(group_id="g", topics=None),
            OffsetFetchRequestGroup(group_id="g", topics=named),
        ]
    )
    hidden, everything, some = ask(parts, offset_fetch, body, 8).groups
    assert hidden.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [topic.name for topic in everything.topics] == ["t"]
    assert [(t.name, t.partitions[0].error_code, t.partitions[0].committed_offset) for t in some.topics] == [
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1),
        ("t", 0, 1),
    ]
    await stop_parts(parts)


@pytest.mark.parametrize(("version", "top", "below"), [(1, 0, ErrorCode.NOT_COORDINATOR), (2, 16, None)])
async def test_a_groups_error_is_at_the_top_from_version_2_on(
    tmp_path: Path, version: int, top: int, below: int | None
) -> None:
    parts = await make_groups(tmp_path)
    await parts.broker.groups.stop()
    body = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[3])])
    answer = ask(parts, offset_fetch, body, version)
    assert answer.error_code == (top if version > 1 else below)
    assert [p.error_code for topic in answer.topics for p in topic.partitions] == ([below] if below else [])
    await stop_parts(parts)


async def test_offsets_of_topics_that_are_read_may_not_be_deleted(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    for name in ("t", "u"):
        await parts.create_topic(name)
        commit(parts, topic=name)
    joined = await stable_member(parts, topics=["t"])
    answer = delete_offsets(parts, ("t", 0), ("u", 0), ("u", 5))
    assert [topic.partitions[0].error_code for topic in answer.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert (fetched(parts), fetched(parts, topic="u")) == (42, -1)
    assert joined.generation_id == 1
    assert delete_offsets(parts, ("t", 0), group="none").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offsets(parts, ("t", 0), group="").error_code == ErrorCode.INVALID_GROUP_ID
    await stop_parts(parts)


async def test_offsets_of_members_of_another_kind_stay(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    await stable_member(parts, kind="connect")
    assert delete_offsets(parts, ("t", 0)).error_code == ErrorCode.NON_EMPTY_GROUP
    await stop_parts(parts)


async def test_groups_without_members_go_with_their_offsets(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    commit(parts, group="idle")
    await stable_member(parts, group="busy")
    assert delete(parts, "idle", "busy", "none", "idle") == {
        "idle": ErrorCode.NONE,
        "busy": ErrorCode.NON_EMPTY_GROUP,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert fetched(parts, group="idle") == -1
    abandon_parts(parts)
    parts = await make_groups(tmp_path)
    assert fetched(parts, group="idle") == -1
    assert delete(parts, "idle") == {"idle": ErrorCode.GROUP_ID_NOT_FOUND}
    await stop_parts(parts)


async def test_a_deleted_topic_takes_its_offsets_with_it(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    topic = await parts.create_topic("t", partitions=2)
    await parts.create_topic("u")
    commit(parts)
    commit(parts, partition=1, group="other")
    commit(parts, topic="u")
    await parts.metadata.delete_topics([topic.topic_id])
    assert [fetched(parts), fetched(parts, 1, group="other"), fetched(parts, topic="u")] == [-1, -1, 42]
    abandon_parts(parts)
    parts = await make_groups(tmp_path)
    assert [fetched(parts), fetched(parts, topic="u")] == [-1, 42]
    await stop_parts(parts)


async def test_offsets_of_a_transaction_count_when_it_is_committed(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    commit(parts, 1)
    assert commit_in_transaction(parts, 5) is ErrorCode.NONE
    assert fetched(parts) == 1
    unstable = fetch(parts, 0, require_stable=True).topics[0].partitions[0]
    assert (unstable.error_code, unstable.committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    abandon_parts(parts)
    parts = await make_groups(tmp_path)
    assert fetch(parts, 0, require_stable=True).topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    end_transaction(parts, ControlType.COMMIT)
    assert fetched(parts, require_stable=True) == 5
    abandon_parts(parts)
    parts = await make_groups(tmp_path)
    assert fetched(parts, require_stable=True) == 5
    await stop_parts(parts)


async def test_offsets_of_an_aborted_transaction_never_count(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    commit_in_transaction(parts, 5)
    end_transaction(parts, ControlType.ABORT)
    assert fetched(parts, require_stable=True) == -1
    await stop_parts(parts)


async def test_a_plain_commit_behind_a_transactional_one_stays(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    commit_in_transaction(parts, 5)
    commit(parts, 9)
    end_transaction(parts, ControlType.COMMIT)
    assert fetched(parts) == 9
    await stop_parts(parts)


async def test_with_followers_an_answer_waits_for_them_and_so_does_a_stable_fetch(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    await parts.register_broker(1)
    number = parts.broker.groups.topic.partition_of("g")
    await parts.change_partition("__consumer_offsets", number, replicas=(0, 1), isr=(0, 1))
    parked = commit(parts, 7)
    assert isinstance(parked, Parked)
    assert fetched(parts) == -1
    stable = fetch(parts, 0, require_stable=True)
    assert isinstance(stable, Parked)
    assert delete(parts, "g") == {"g": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    partition = parts.partition("__consumer_offsets", number)
    partition.follower_fetched(partition.followers[1], fetch_offset=1, log_start_offset=0, broker_epoch=0, leader_end=1)
    assert parked.answer is not None
    assert stable.answer.groups[0].topics[0].partitions[0].committed_offset == 7  # type: ignore[union-attr]
    await stop_parts(parts)


async def test_everything_is_refused_where_the_partition_is_not_led(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    await parts.register_broker(1)
    for number in range(2):
        await parts.change_partition("__consumer_offsets", number, replicas=(1,), isr=(1,), leader=1, leader_epoch=1)
    assert commit(parts) is ErrorCode.NOT_COORDINATOR
    assert fetch(parts, 0).error_code == ErrorCode.NOT_COORDINATOR
    assert join(parts).error_code == ErrorCode.NOT_COORDINATOR
    assert delete(parts, "g") == {"g": ErrorCode.NOT_COORDINATOR}
    await stop_parts(parts)


def delete_offsets(parts: Parts, *partitions: tuple[str, int], group: str = "g") -> object:
    body = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
            for name, index in partitions
        ],
    )
    return ask(parts, offset_delete, body, 0)


def delete(parts: Parts, *group_ids: str) -> dict[str, int]:
    answer = ask(parts, delete_groups, DeleteGroupsRequest(groups_names=list(group_ids)), 2)
    return {result.group_id: result.error_code for result in answer.results}


def commit_in_transaction(parts: Parts, offset: int) -> ErrorCode:
    told: list[ErrorCode] = []
    parts.broker.groups.commit_transactional_offsets(
        Committer(group_id="g"),
        [OffsetToCommit("t", bytes(16), 0, offset, -1, "", OffsetCommitResponsePartition())],
        producer=PRODUCER,
        version=5,
        on_done=told.append,
    )
    (code,) = told
    return code


def end_transaction(parts: Parts, end: ControlType) -> None:
    told: list[ErrorCode] = []
    number = parts.broker.groups.topic.partition_of("g")
    marker = EndTxnMarker(end, 0)
    parts.broker.groups.complete_transaction(number, marker=marker, producer=PRODUCER, on_done=told.append)
    assert told == [ErrorCode.NONE]
