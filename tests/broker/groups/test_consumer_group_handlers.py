"""ConsumerGroupHeartbeat and ConsumerGroupDescribe through their handlers: refusals, rights, settings, answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.handlers import consumer_group_describe, consumer_group_heartbeat, offset_commit, offset_fetch
from tailrace.broker.metadata_store import ConfigResource, ConfigResourceType
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitionsRequest,
)
from tailrace.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tests.broker.groups.handled import ask, make_groups
from tests.broker.parts import Parts, stop_parts
from tests.broker.wire import connected

JOINING: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "rebalance_timeout_ms": 1000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}
OWNED = [TopicPartitionsRequest(topic_id=bytes(16), partitions=[1])]
UNNAMED = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
ASSIGNORS = "Supported assignors: uniform, range."
REGEX = "SubscribedTopicRegex `(` is not a valid regular expression: missing closing )."

REFUSALS: list[tuple[int, dict[str, Any], str, str]] = [
    (1, {**JOINING, "member_id": ""}, "INVALID_REQUEST", "MemberId can't be empty."),
    (1, {**JOINING, "member_id": " "}, "INVALID_REQUEST", "MemberId can't be empty."),
    (1, {**JOINING, "member_id": "", "group_id": ""}, "INVALID_REQUEST", "MemberId can't be empty."),
    (0, {"group_id": "g", "member_epoch": 1}, "INVALID_REQUEST", "MemberId can't be empty."),
    (0, {"group_id": "g", "member_epoch": -1}, "INVALID_REQUEST", "MemberId can't be empty."),
    (1, {**JOINING, "group_id": ""}, "INVALID_REQUEST", "GroupId can't be empty."),
    (1, {**JOINING, "group_id": "  "}, "INVALID_REQUEST", "GroupId can't be empty."),
    (1, {**JOINING, "instance_id": ""}, "INVALID_REQUEST", "InstanceId can't be empty."),
    (1, {**JOINING, "rack_id": ""}, "INVALID_REQUEST", "RackId can't be empty."),
    (
        1,
        {**JOINING, "rebalance_timeout_ms": -1},
        "INVALID_REQUEST",
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    (1, {**JOINING, "topic_partitions": OWNED}, "INVALID_REQUEST", "TopicPartitions must be empty when (re-)joining."),
    (1, {**JOINING, "topic_partitions": None}, "INVALID_REQUEST", "TopicPartitions must be empty when (re-)joining."),
    (1, {**JOINING, "subscribed_topic_names": None}, "INVALID_REQUEST", UNNAMED),
    (1, {**JOINING, "member_epoch": -3}, "INVALID_REQUEST", "MemberEpoch is invalid."),
    (1, {"group_id": "g", "member_id": "m", "member_epoch": -2}, "INVALID_REQUEST", "InstanceId can't be null."),
    (1, {**JOINING, "server_assignor": "x"}, "UNSUPPORTED_ASSIGNOR", f"ServerAssignor x is not supported. {ASSIGNORS}"),
    (1, {**JOINING, "server_assignor": ""}, "UNSUPPORTED_ASSIGNOR", f"ServerAssignor  is not supported. {ASSIGNORS}"),
    (1, {**JOINING, "subscribed_topic_regex": "("}, "INVALID_REGULAR_EXPRESSION", REGEX),
    (
        1,
        {"group_id": "none", "member_id": "m", "member_epoch": 3},
        "GROUP_ID_NOT_FOUND",
        "Consumer group none not found.",
    ),
    (1, {"group_id": "none", "member_id": "m", "member_epoch": -1}, "GROUP_ID_NOT_FOUND", "Group none not found."),
    (
        1,
        {"group_id": "g", "member_id": "z", "member_epoch": 3},
        "UNKNOWN_MEMBER_ID",
        "Member z is not a member of group g.",
    ),
]
"""Version, request, and what Apache Kafka answers; `test_kafka_refuses_alike` asks it."""


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t", partitions=2)
    yield parts
    await stop_parts(parts)


def beat(parts: Parts, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    response = ask(parts, consumer_group_heartbeat, ConsumerGroupHeartbeatRequest(**fields), version)
    assert isinstance(response, ConsumerGroupHeartbeatResponse), response
    return response


def describe(parts: Parts, *groups: str, operations: bool = False) -> list[DescribedGroup]:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)
    response = ask(parts, consumer_group_describe, request, 1)
    assert isinstance(response, ConsumerGroupDescribeResponse)
    return response.groups


@pytest.mark.parametrize(("version", "fields", "code", "message"), REFUSALS)
async def test_refusals_are_kafkas(parts: Parts, version: int, fields: dict[str, Any], code: str, message: str) -> None:
    assert beat(parts, **JOINING | {"member_id": "first"}).error_code == ErrorCode.NONE
    answer = beat(parts, version, **fields)
    assert (ErrorCode(answer.error_code).name, answer.error_message) == (code, message)
    assert (answer.member_id, answer.heartbeat_interval_ms, answer.assignment) == (None, 0, None)


@pytest.mark.slow
@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_kafka_refuses_alike(tmp_path: Path) -> None:
    async def refusals(port: int) -> list[tuple[str, str | None]]:
        async with connected(port) as wire:

            async def ask_kafka(version: int, fields: dict[str, Any]) -> ConsumerGroupHeartbeatResponse:
                wire.ask(ConsumerGroupHeartbeatRequest(**fields), version)
                return (await wire.answer(ConsumerGroupHeartbeatResponse, version))[1]

            async with asyncio.timeout(60):
                joined = False
                while not joined:  # it makes the topic of its groups when somebody asks for their coordinator
                    wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
                    await wire.answer(FindCoordinatorResponse, 4)
                    joined = not (await ask_kafka(1, JOINING | {"member_id": "first"})).error_code
            answers = [await ask_kafka(version, fields) for version, fields, _, _ in REFUSALS]
            return [(ErrorCode(answer.error_code).name, answer.error_message) for answer in answers]

    with ApacheKafka(tmp_path) as kafka:
        assert asyncio.run(refusals(kafka.port)) == [(code, message) for _, _, code, message in REFUSALS]


async def test_a_member_without_an_id_is_given_one(parts: Parts) -> None:
    answer = beat(parts, 0, **JOINING | {"member_id": ""})
    assert (answer.error_code, answer.member_epoch, len(answer.member_id or "")) == (ErrorCode.NONE, 1, 22)
    assert answer.assignment is not None
    assert [topic.partitions for topic in answer.assignment.topic_partitions] == [[0, 1]]
    assert answer.heartbeat_interval_ms == 5000


async def test_rights_are_asked_for(parts: Parts) -> None:
    beat(parts, **JOINING)
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.TOPIC, "t")
    assert beat(parts, **JOINING | {"member_id": "n"}).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (hidden,) = describe(parts, "g")
    assert (hidden.error_code, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
    assert hidden.error_message == "The group has described topic(s) that the client is not authorized to describe."
    parts.authorizer.deny(AclOperation.READ, ResourceType.GROUP, "g")
    assert beat(parts, **JOINING).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.GROUP, "g")
    assert [group.error_code for group in describe(parts, "g")] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]


async def test_a_pattern_finds_what_its_member_may_see(parts: Parts) -> None:
    await parts.create_topic("t-hidden")
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.TOPIC, "t-hidden")
    subscription = {"subscribed_topic_names": None, "subscribed_topic_regex": "t.*"}
    beat(parts, **JOINING | subscription)
    parts.clock.advance(0)
    answer = beat(parts, group_id="g", member_id="m", member_epoch=1)
    assert answer.assignment is not None
    assert [topic.partitions for topic in answer.assignment.topic_partitions] == [[0, 1]]


async def test_the_protocol_can_be_turned_off(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path, group_coordinator_rebalance_protocols="classic")
    assert beat(parts, **JOINING).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [group.error_code for group in describe(parts, "g")] == [ErrorCode.UNSUPPORTED_VERSION]
    await stop_parts(parts)


async def test_a_group_has_settings_of_its_own(parts: Parts) -> None:
    assert beat(parts, **JOINING).heartbeat_interval_ms == 5000
    values = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}
    resource = ConfigResource(ConfigResourceType.GROUP, "g")
    await parts.metadata.change_configs(resource, expected={}, values=values)
    assert beat(parts, group_id="g", member_id="m", member_epoch=1).heartbeat_interval_ms == 6000
    parts.clock.advance(49_999)
    assert [len(group.members) for group in describe(parts, "g")] == [1]
    parts.clock.advance(1)
    assert [len(group.members) for group in describe(parts, "g")] == [0]
    await parts.metadata.change_configs(resource, expected=values, values={})
    assert beat(parts, **JOINING).heartbeat_interval_ms == 5000


async def test_a_group_is_described(parts: Parts) -> None:
    beat(parts, **JOINING | {"rack_id": "r", "instance_id": "i"})
    unnamed, none, group = describe(parts, "", "none", "g", operations=True)
    assert unnamed.error_code == ErrorCode.INVALID_GROUP_ID
    assert (none.error_code, none.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 1, 1)
    assert (group.assignor_name, group.authorized_operations) == ("uniform", 3400)
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 1)
    assert (member.subscribed_topic_names, member.subscribed_topic_regex, member.member_type) == (["t"], "", 1)
    for assignment in (member.assignment, member.target_assignment):
        assert [(topic.topic_name, topic.partitions) for topic in assignment.topic_partitions] == [("t", [0, 1])]


# Offsets


def commit(parts: Parts, version: int = 9, *, member: str = "m", epoch: int = 1) -> ErrorCode:
    request = OffsetCommitRequest(
        group_id="g",
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(committed_offset=7)])],
    )
    return ErrorCode(ask(parts, offset_commit, request, version).topics[0].partitions[0].error_code)


def fetch(parts: Parts, *, member: str | None = "m", epoch: int = 1) -> ErrorCode:
    group = OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=None)
    return ErrorCode(ask(parts, offset_fetch, OffsetFetchRequest(groups=[group]), 9).groups[0].error_code)


async def test_offsets_go_with_the_members_epoch(parts: Parts) -> None:
    assert commit(parts, member="", epoch=-1) == ErrorCode.NONE
    beat(parts, **JOINING)
    assert commit(parts) == ErrorCode.NONE
    assert commit(parts, epoch=0) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(parts, epoch=2) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(parts, member="z") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(parts, member="", epoch=-1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(parts, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert fetch(parts) == ErrorCode.NONE
    assert fetch(parts, epoch=5) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(parts, member="z") == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(parts, member=None, epoch=-1) == ErrorCode.NONE
