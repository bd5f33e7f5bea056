"""Elections and reassignments that an administrator asks for: the decisions, and the APIs that carry them out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from inspect import isawaitable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.handlers import alter_partition_reassignments, elect_leaders, list_partition_reassignments
from tailrace.broker.leader_election import ElectionType, elect
from tailrace.broker.partition_reassignment import reassign
from tailrace.broker.partition_registration import NO_LEADER, PartitionRegistration
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tailrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tailrace.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tailrace.protocol.schema import Message
from tests.broker.parts import NODE_ID, Parts, make_parts, stop_parts

OTHER = 5
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def partition(
    replicas: Sequence[int] = (1, 2, 3), isr: Sequence[int] = (1, 2), leader: int = 1
) -> PartitionRegistration:
    return PartitionRegistration(tuple(replicas), tuple(isr), leader, leader_epoch=4, partition_epoch=9)


@pytest.mark.parametrize(
    ("kind", "before", "alive", "leader", "isr"),
    [
        (PREFERRED, partition(leader=2), (1, 2, 3), 1, (1, 2)),
        (PREFERRED, partition(leader=NO_LEADER), (1, 2, 3), 1, (1, 2)),
        (UNCLEAN, partition(leader=1), (2, 3), 2, (1, 2)),
        (UNCLEAN, partition(leader=1), (3,), 3, (3,)),
        (UNCLEAN, partition(isr=(1,), leader=NO_LEADER), (3, 2), 2, (2,)),
    ],
)
def test_the_right_replica_is_elected(
    kind: ElectionType, before: PartitionRegistration, alive: Sequence[int], leader: int, isr: tuple[int, ...]
) -> None:
    after = elect(before, kind, alive)
    assert (after.leader, after.isr) == (leader, isr)
    assert (after.leader_epoch, after.partition_epoch) == (5, 10)
    assert after.replicas == before.replicas


@pytest.mark.parametrize(
    ("kind", "before", "alive", "code"),
    [
        (PREFERRED, partition(), (1, 2, 3), ErrorCode.ELECTION_NOT_NEEDED),
        (PREFERRED, partition(leader=2), (2, 3), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (PREFERRED, partition(isr=(2,), leader=2), (1, 2, 3), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (UNCLEAN, partition(), (1, 2, 3), ErrorCode.ELECTION_NOT_NEEDED),
        (UNCLEAN, partition(), (7,), ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_no_leader_is_put_in_the_place_of_a_good_one(
    kind: ElectionType, before: PartitionRegistration, alive: Sequence[int], code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as error:
        elect(before, kind, alive)
    assert error.value.code is code


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 2], ErrorCode.INVALID_REPLICATION_FACTOR),
        ([1, 2, 4], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_can_not_be_granted_is_refused(wish: list[int] | None, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as error:
        reassign(partition(), wish, brokers=(1, 2, 3, 4), may_change_factor=False)
    assert error.value.code is code


def test_a_new_order_of_replicas_changes_the_preferred_leader_only() -> None:
    after = reassign(partition(), [2, 3, 1], brokers=(1, 2, 3))
    assert after is not None
    assert after == PartitionRegistration((2, 3, 1), (1, 2), 1, leader_epoch=4, partition_epoch=10)
    assert reassign(partition(), [1, 2, 3], brokers=(1, 2, 3)) is None


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    await parts.register_broker(OTHER)
    await parts.create_topic("led-by-other", partitions=2, replicas=(NODE_ID, OTHER))
    await parts.create_topic("settled")
    await parts.change_partition("led-by-other", 1, leader=OTHER, leader_epoch=1)
    yield parts
    await stop_parts(parts)


async def ask(parts: Parts, module: ModuleType, body: Message, version: int) -> Any:
    try:
        result = parts.handle(module, body, version)
        return await result if isawaitable(result) else result
    except ApiError as error:
        return module.error_response(parts.request(body, version), error.code, error.message)


async def test_an_election_moves_the_lead_to_the_preferred_replica(parts: Parts) -> None:
    asked = [TopicPartitions(topic="led-by-other", partitions=[0, 1, 7]), TopicPartitions(topic="no", partitions=[0])]
    answer = await ask(parts, elect_leaders, ElectLeadersRequest(topic_partitions=asked), 2)
    codes = [[result.error_code for result in topic.partition_result] for topic in answer.replica_election_results]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [[ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.NONE, unknown], [unknown]]
    elected = parts.metadata.partition("led-by-other", 1)
    assert elected is not None
    assert (elected.leader, elected.leader_epoch) == (NODE_ID, 2)
    assert parts.partition("led-by-other", 1).is_leader


async def test_who_asks_for_all_is_told_of_changes_only(parts: Parts) -> None:
    answer = await ask(parts, elect_leaders, ElectLeadersRequest(topic_partitions=None), 1)
    told = {
        topic.topic: [result.partition_id for result in topic.partition_result]
        for topic in answer.replica_election_results
    }
    assert told == {"led-by-other": [1], "settled": []}


@pytest.mark.parametrize("version", [0, 1])
async def test_an_election_of_no_kind_is_refused(parts: Parts, version: int) -> None:
    body = ElectLeadersRequest(election_type=9, topic_partitions=[TopicPartitions(topic="settled", partitions=[0])])
    answer = await ask(parts, elect_leaders, body, version)
    assert answer.error_code == (ErrorCode.INVALID_REQUEST if version else ErrorCode.NONE)
    assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.INVALID_REQUEST


async def test_replicas_change_their_order(parts: Parts) -> None:
    wishes = [ReassignablePartition(partition_index=n, replicas=[OTHER, NODE_ID]) for n in (0, 7)]
    body = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="led-by-other", partitions=wishes)])
    answer = await ask(parts, alter_partition_reassignments, body, 1)
    codes = [result.error_code for result in answer.responses[0].partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    changed = parts.metadata.partition("led-by-other", 0)
    assert changed is not None
    assert (changed.replicas, changed.leader) == ((OTHER, NODE_ID), NODE_ID)
    listed = await ask(parts, list_partition_reassignments, ListPartitionReassignmentsRequest(topics=None), 0)
    assert (listed.error_code, listed.topics) == (ErrorCode.NONE, [])


async def test_elections_and_reassignments_need_the_cluster(parts: Parts) -> None:
    for operation in (AclOperation.ALTER, AclOperation.DESCRIBE):
        parts.authorizer.deny(operation, ResourceType.CLUSTER, CLUSTER_NAME)
    wish = ReassignableTopic(name="settled", partitions=[ReassignablePartition(partition_index=0, replicas=[NODE_ID])])
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for module, body, version in (
        (elect_leaders, ElectLeadersRequest(topic_partitions=None), 2),
        (alter_partition_reassignments, AlterPartitionReassignmentsRequest(topics=[wish]), 1),
        (list_partition_reassignments, ListPartitionReassignmentsRequest(), 0),
    ):
        assert (await ask(parts, module, body, version)).error_code == refused
