"""Which coordinator is asked about which group, how often, and what is made of its answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tailrace.client.admin import Admin, GroupDescription, GroupOffset, GroupState, GroupType
from tailrace.client.errors import BrokerError, OperationTimedOut
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.codec import encode_message
from tailrace.protocol.coordinator.consumer_protocol import (
    AssignedTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages import consumer_group_describe, describe_groups
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tailrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, drive, make_cluster

FLIGHTS = TopicPartition("flights", 0)


def coordinated(scripted: ScriptedCluster, where: Callable[[str], int | ErrorCode]) -> None:
    """Have FindCoordinator answered: by a broker's number, or with an error."""

    def entry(key: str) -> Coordinator:
        found = where(key)
        if isinstance(found, ErrorCode):
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=found)
        address = scripted.addresses[found]
        return Coordinator(key=key, node_id=found, host=address.host, port=address.port)

    def answer(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        if request.coordinator_keys:
            return FindCoordinatorResponse(coordinators=[entry(key) for key in request.coordinator_keys])
        one = entry(request.key)
        return FindCoordinatorResponse(
            error_code=one.error_code, node_id=one.node_id, host=one.host, port=one.port, error_message=None
        )

    scripted.scripts[ApiKey.FIND_COORDINATOR] = answer


def deleted(codes: dict[str, int]) -> Callable[[DeleteGroupsRequest], DeleteGroupsResponse]:
    return lambda request: DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=codes[name]) for name in request.groups_names]
    )


async def test_each_group_is_asked_of_its_own_coordinator() -> None:
    scripted = ScriptedCluster(brokers=2)
    coordinated(scripted, lambda key: 1 if key == "b" else 0)
    scripted.scripts[ApiKey.DELETE_GROUPS] = deleted({"a": 0, "b": ErrorCode.NON_EMPTY_GROUP, "c": 0})
    results = await Admin(make_cluster(scripted, VirtualClock())).delete_groups(["a", "b", "c"])
    assert results["a"] is results["c"] is None
    assert isinstance(results["b"], ApiError)
    assert results["b"].code is ErrorCode.NON_EMPTY_GROUP
    assert [
        (node_id, request.groups_names)
        for node_id, _, request in scripted.requests
        if isinstance(request, DeleteGroupsRequest)
    ] == [(0, ["a", "c"]), (1, ["b"])]
    assert len(scripted.requests_of(FindCoordinatorRequest)) == 1


async def test_old_brokers_are_asked_for_one_coordinator_at_a_time() -> None:
    scripted = ScriptedCluster()
    scripted.versions[ApiKey.FIND_COORDINATOR] = (0, 3)
    coordinated(scripted, lambda key: 0)
    scripted.scripts[ApiKey.DELETE_GROUPS] = deleted({"a": 0, "b": 0})
    results = await Admin(make_cluster(scripted, VirtualClock())).delete_groups(["a", "b"])
    assert results == {"a": None, "b": None}
    assert [request.key for request in scripted.requests_of(FindCoordinatorRequest)] == ["a", "b"]


async def test_a_coordinator_that_moved_is_looked_for_again_and_one_that_loads_is_asked_again() -> None:
    scripted, clock = ScriptedCluster(brokers=2), VirtualClock()
    finds: list[int | ErrorCode] = [ErrorCode.COORDINATOR_NOT_AVAILABLE, 0, 1]
    coordinated(scripted, lambda key: finds.pop(0))
    codes = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    scripted.scripts[ApiKey.DELETE_GROUPS] = lambda request: deleted({"g": codes.pop(0)})(request)
    admin = Admin(make_cluster(scripted, clock))
    assert await drive(clock, admin.delete_groups(["g"])) == {"g": None}
    asked = [node_id for node_id, _, request in scripted.requests if isinstance(request, DeleteGroupsRequest)]
    assert asked == [0, 1, 1]
    assert not finds


async def test_a_group_that_is_done_is_not_asked_about_again() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    coordinated(scripted, lambda key: 0)
    codes = {"a": 0, "b": int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}
    scripted.scripts[ApiKey.DELETE_GROUPS] = deleted(codes)
    admin = Admin(make_cluster(scripted, clock, default_api_timeout_ms=1_000))
    with pytest.raises(OperationTimedOut, match=r"deleting groups a, b: .*COORDINATOR_LOAD_IN_PROGRESS: group b"):
        await drive(clock, admin.delete_groups(["a", "b"]))
    assert [request.groups_names for request in scripted.requests_of(DeleteGroupsRequest)][:2] == [["a", "b"], ["b"]]


async def test_a_coordinator_that_dies_is_looked_for_again() -> None:
    scripted, clock = ScriptedCluster(brokers=2), VirtualClock()
    coordinated(scripted, lambda key: 0 if scripted.addresses[0] not in scripted.unreachable else 1)
    cluster = make_cluster(scripted, clock)

    def die_once(request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        if not scripted.unreachable:
            scripted.unreachable.add(scripted.addresses[0])
            raise ConnectionResetError
        return deleted({"g": 0})(request)

    scripted.scripts[ApiKey.DELETE_GROUPS] = die_once
    await cluster.metadata()
    assert await drive(clock, Admin(cluster).delete_groups(["g"])) == {"g": None}
    assert scripted.requests[-1][0] == 1


async def test_groups_of_every_broker_are_listed() -> None:
    scripted = ScriptedCluster(brokers=2)
    groups = [[ListedGroup(group_id="b", protocol_type="consumer", group_state="Stable", group_type="consumer")], []]
    groups[1] = [ListedGroup(group_id="a", protocol_type="connect", group_state="Unheard", group_type="classic")]
    scripted.scripts[ApiKey.LIST_GROUPS] = lambda request: ListGroupsResponse(groups=groups.pop())
    listed = await Admin(make_cluster(scripted, VirtualClock())).list_groups(
        states=[GroupState.STABLE], types=[GroupType.CONSUMER]
    )
    assert [(one.group_id, one.state, one.group_type, one.is_consumer_group) for one in listed] == [
        ("a", GroupState.UNKNOWN, GroupType.CLASSIC, False),
        ("b", GroupState.STABLE, GroupType.CONSUMER, True),
    ]


def classic_group(**changes: object) -> describe_groups.DescribedGroup:
    subscription = encode_message(ConsumerProtocolSubscription(topics=["flights"], rack_id="r"), 3)
    assigned = AssignedTopicPartition(topic="flights", partitions=[1, 0])
    assignment = encode_message(ConsumerProtocolAssignment(assigned_partitions=[assigned]), 1)
    member = describe_groups.DescribedGroupMember(
        member_id="m",
        client_id="c",
        client_host="/10.0.0.1",
        member_metadata=b"\0\x09" + subscription + b"later fields",
        member_assignment=b"\0\1" + assignment,
    )
    fields = {"group_id": "g", "group_state": "Stable", "protocol_type": "consumer", "protocol_data": "range"}
    return describe_groups.DescribedGroup(members=[member], **{**fields, **changes})  # type: ignore[arg-type]


async def described(scripted: ScriptedCluster, group: describe_groups.DescribedGroup) -> GroupDescription | BrokerError:
    coordinated(scripted, lambda key: 0)
    missing = consumer_group_describe.DescribedGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    scripted.scripts[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda request: ConsumerGroupDescribeResponse(groups=[missing])
    scripted.scripts[ApiKey.DESCRIBE_GROUPS] = lambda request: DescribeGroupsResponse(groups=[group])
    return (await Admin(make_cluster(scripted, VirtualClock())).describe_groups(["g"]))["g"]


async def test_a_classic_group_is_described_with_what_its_members_read() -> None:
    scripted = ScriptedCluster()
    group = await described(scripted, classic_group())
    assert isinstance(group, GroupDescription)
    assert (group.group_type, group.state, group.assignor) == (GroupType.CLASSIC, GroupState.STABLE, "range")
    assert group.coordinator.node_id == 0
    (member,) = group.members
    assert member.assignment == (FLIGHTS, TopicPartition("flights", 1))
    assert (member.subscribed_topics, member.rack, member.host) == (("flights",), "r", "/10.0.0.1")


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0\0\7", b"\xff\xff"])
async def test_members_that_speak_another_language_have_no_partitions(data: bytes) -> None:
    group = classic_group()
    group.members[0].member_assignment = data
    read = await described(ScriptedCluster(), group)
    assert isinstance(read, GroupDescription)
    assert read.members[0].assignment == ()
    assert read.members[0].assignment_bytes == data


async def test_a_dead_group_is_not_there() -> None:
    scripted = ScriptedCluster()
    scripted.versions[ApiKey.DESCRIBE_GROUPS] = (0, 5)
    del scripted.versions[ApiKey.CONSUMER_GROUP_DESCRIBE]
    error = await described(scripted, classic_group(group_state="Dead"))
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert len(scripted.requests_of(DescribeGroupsRequest)) == 1


async def test_a_consumer_group_is_described_with_its_epochs() -> None:
    scripted = ScriptedCluster()
    coordinated(scripted, lambda key: 0)
    topics = [consumer_group_describe.TopicPartitions(topic_name="flights", partitions=[0])]
    member = consumer_group_describe.Member(
        member_id="m",
        member_epoch=7,
        subscribed_topic_regex="f.*",
        target_assignment=consumer_group_describe.Assignment(topic_partitions=topics),
        member_type=1,
    )
    group = consumer_group_describe.DescribedGroup(
        group_id="g", group_state="Reconciling", group_epoch=8, assignment_epoch=7, members=[member]
    )
    scripted.scripts[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda request: ConsumerGroupDescribeResponse(groups=[group])
    read = (await Admin(make_cluster(scripted, VirtualClock())).describe_groups(["g"]))["g"]
    assert isinstance(read, GroupDescription)
    assert (read.state, read.epoch, read.assignment_epoch) == (GroupState.RECONCILING, 8, 7)
    (one,) = read.members
    assert (one.assignment, one.target_assignment, one.epoch, one.is_classic) == ((), (FLIGHTS,), 7, False)
    assert one.subscribed_pattern == "f.*"


@pytest.mark.parametrize("version", [7, 9])
async def test_offsets_are_listed_and_those_not_committed_are_not_there(version: int) -> None:
    scripted = ScriptedCluster()
    scripted.versions[ApiKey.OFFSET_FETCH] = (1, version)
    coordinated(scripted, lambda key: 0)
    numbers = [(0, 5, "m"), (1, -1, "")]
    one = [
        OffsetFetchResponsePartition(partition_index=p, committed_offset=o, metadata=m, committed_leader_epoch=2)
        for p, o, m in numbers
    ]
    many = [
        OffsetFetchResponsePartitions(partition_index=p, committed_offset=o, metadata=m, committed_leader_epoch=2)
        for p, o, m in numbers
    ]
    group = OffsetFetchResponseGroup(group_id="g", topics=[OffsetFetchResponseTopics(name="flights", partitions=many)])
    scripted.scripts[ApiKey.OFFSET_FETCH] = lambda request: (
        OffsetFetchResponse(groups=[group])
        if version >= 8
        else OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="flights", partitions=one)])
    )
    admin = Admin(make_cluster(scripted, VirtualClock()))
    assert await admin.list_group_offsets({"g": None}) == {"g": {FLIGHTS: GroupOffset(5, "m", 2)}}


async def test_offsets_that_wait_for_a_coordinator_are_committed_later_and_the_others_once() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    coordinated(scripted, lambda key: 0)
    codes = {0: [0], 1: [int(ErrorCode.NOT_COORDINATOR), 0], 2: [int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]}

    def answer(request: OffsetCommitRequest) -> OffsetCommitResponse:
        answered = [
            OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=codes[p.partition_index].pop(0))
            for p in request.topics[0].partitions
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="flights", partitions=answered)])

    scripted.scripts[ApiKey.OFFSET_COMMIT] = answer
    admin = Admin(make_cluster(scripted, clock))
    offsets = {TopicPartition("flights", number): GroupOffset(number) for number in codes}
    results = await drive(clock, admin.alter_group_offsets("g", offsets))
    assert [None if error is None else error.code for error in results.values()] == [
        None,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        None,
    ]
    assert codes == {0: [], 1: [], 2: []}
