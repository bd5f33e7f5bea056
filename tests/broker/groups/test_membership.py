"""Classic groups through their handlers: joining, limits, what survives, and how groups are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.groups.client_host import client_host
from tailrace.broker.handlers import describe_groups, heartbeat, leave_group, list_groups, sync_group
from tailrace.broker.request import Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.leave_group import LeaveGroupRequest
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tailrace.protocol.messages.sync_group import SyncGroupRequest
from tests.broker.groups.handled import (
    ask,
    beat,
    commit,
    done,
    join,
    leave,
    make_groups,
    stable_member,
    subscription,
    sync,
    sync_as_leader,
)
from tests.broker.parts import Parts, abandon_parts, make_parts, stop_parts


async def test_a_group_of_two_rebalances_and_hands_out_assignments(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    first = await stable_member(parts, protocols=["range", "sticky"])
    second = join(parts, protocols=["sticky"])
    assert second.error_code == ErrorCode.MEMBER_ID_REQUIRED
    waiting = join(parts, second.member_id, protocols=["sticky"])
    assert isinstance(waiting, Parked)
    assert beat(parts, first.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    leader = join(parts, first.member_id, protocols=["range", "sticky"])
    follower = done(waiting)
    assert (leader.generation_id, leader.protocol_name, leader.leader) == (2, "sticky", first.member_id)
    assert {m.member_id: m.metadata for m in leader.members} == dict.fromkeys(
        (first.member_id, second.member_id), subscription("t")
    )
    assert (follower.generation_id, follower.members, follower.leader) == (2, [], first.member_id)
    syncing = sync(parts, second.member_id, 2)
    assert isinstance(syncing, Parked)
    assigned = sync(parts, first.member_id, 2, **{first.member_id: b"A", second.member_id: b"B"})
    assert (assigned.assignment, done(syncing).assignment) == (b"A", b"B")
    assert beat(parts, second.member_id, 2) is ErrorCode.NONE
    await stop_parts(parts)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1800001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"kind": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_joins_that_are_refused(tmp_path: Path, options: dict[str, object], code: ErrorCode) -> None:
    parts = await make_groups(tmp_path)
    member_id = str(options.pop("member_id", ""))
    answer = join(parts, member_id, **options)  # type: ignore[arg-type]
    assert (answer.error_code, answer.member_id, answer.generation_id) == (code, member_id, -1)
    await stop_parts(parts)


async def test_a_group_has_at_most_the_size_it_may_have(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path, group_max_size="1")
    first = await stable_member(parts)
    assert join(parts).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert leave(parts, first.member_id).members[0].error_code == 0
    assert join(parts).error_code == ErrorCode.MEMBER_ID_REQUIRED
    await stop_parts(parts)


async def test_who_falls_silent_is_out_after_its_session_timeout(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    joined = await stable_member(parts, session_ms=6000)
    for _ in range(3):
        await parts.clock.advance_async(5999)
        assert beat(parts, joined.member_id, 1) is ErrorCode.NONE
    await parts.clock.advance_async(6001)
    assert beat(parts, joined.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert describe(parts, "g").group_state == "Empty"
    assert parts.broker.groups.counts.expired_members == 1
    await stop_parts(parts)


async def test_members_and_their_assignments_survive_a_kill(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    joined = await stable_member(parts, instance=None)
    abandon_parts(parts)
    parts = await make_groups(tmp_path, clock=parts.clock)
    assert beat(parts, joined.member_id, 1) is ErrorCode.NONE
    described = describe(parts, "g")
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    (member,) = described.members
    assert (member.member_id, member.member_assignment) == (joined.member_id, b"A")
    assert commit(parts, member_id=joined.member_id, generation=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    again = join(parts, joined.member_id)
    assert (again.error_code, again.generation_id) == (0, 2)
    assert sync_as_leader(parts, again, assignment=b"B").assignment == b"B"
    await stop_parts(parts)


async def test_a_session_begins_anew_when_the_group_was_loaded(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    joined = await stable_member(parts, session_ms=10_000)
    abandon_parts(parts)
    parts = await make_groups(tmp_path)
    await parts.clock.advance_async(10_001)
    assert beat(parts, joined.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    await stop_parts(parts)


async def test_a_group_that_is_too_large_now_rebalances_when_it_is_loaded(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    first = await stable_member(parts)
    waiting = join(parts, join(parts).member_id)
    leader = join(parts, first.member_id)
    assert sync_as_leader(parts, leader).error_code == 0
    second = done(waiting)
    abandon_parts(parts)
    parts = await make_groups(tmp_path, group_max_size="1")
    assert beat(parts, first.member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert isinstance(join(parts, first.member_id), Parked)
    assert join(parts, second.member_id).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    await stop_parts(parts)


async def test_who_waits_is_told_when_the_coordinator_goes(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await stable_member(parts, group="h")
    joining = join(parts, join(parts).member_id)
    second = join(parts, join(parts, group="h").member_id, group="h")
    assert isinstance(joining, Parked)
    assert isinstance(second, Parked)
    await parts.broker.groups.stop()
    assert {done(joining).error_code, done(second).error_code} == {ErrorCode.NOT_COORDINATOR}
    assert join(parts).error_code == ErrorCode.NOT_COORDINATOR
    await stop_parts(parts)


async def test_heartbeats_are_taken_for_good_while_groups_are_loaded(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    joined = await stable_member(parts)
    abandon_parts(parts)
    parts = await _made_but_not_loaded(tmp_path)
    assert beat(parts, joined.member_id, 99) is ErrorCode.NONE
    assert join(parts, joined.member_id).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert ask(parts, list_groups, ListGroupsRequest(), 5).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await parts.broker.groups.topic.loaded()
    assert beat(parts, joined.member_id, 99) is ErrorCode.ILLEGAL_GENERATION
    await stop_parts(parts)


async def test_a_static_member_comes_back_to_its_place(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    waiting = join(parts, instance="one")
    await parts.clock.advance_async(3000)
    first = done(waiting)
    assert first.member_id.startswith("one-")
    assert sync_as_leader(parts, first).error_code == 0
    again = join(parts, instance="one")
    assert (again.error_code, again.generation_id, again.skip_assignment) == (0, 1, True)
    assert again.member_id != first.member_id
    body = HeartbeatRequest(group_id="g", member_id=first.member_id, group_instance_id="one", generation_id=1)
    assert ask(parts, heartbeat, body, 4).error_code == ErrorCode.FENCED_INSTANCE_ID
    abandon_parts(parts)
    parts = await make_groups(tmp_path)
    (member,) = describe(parts, "g").members
    assert (member.group_instance_id, member.member_id) == ("one", again.member_id)
    await stop_parts(parts)


async def test_leaving_is_answered_for_each_member_and_at_the_top_in_old_versions(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    assert [m.error_code for m in leave(parts, "x", "y").members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    joined = await stable_member(parts)
    codes = [member.error_code for member in leave(parts, "stranger", joined.member_id).members]
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    answer = ask(parts, leave_group, LeaveGroupRequest(group_id="g", member_id="stranger"), 2)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await stop_parts(parts)


async def test_a_sync_has_to_name_the_protocol_from_version_5_on(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    joined = await stable_member(parts)
    body = SyncGroupRequest(group_id="g", member_id=joined.member_id, generation_id=1, protocol_name="range")
    assert ask(parts, sync_group, body, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    body.protocol_type = "connect"
    assert ask(parts, sync_group, body, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    body.protocol_type = "consumer"
    answer = ask(parts, sync_group, body, 5)
    assert (answer.error_code, answer.protocol_name, answer.assignment) == (0, "range", b"A")
    await stop_parts(parts)


async def test_groups_that_are_not_there_are_dead_or_not_found(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    old, new = describe(parts, "nope", version=5), describe(parts, "nope", version=6)
    assert (old.error_code, old.group_state, old.error_message) == (0, "Dead", None)
    assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert new.error_message == "Group nope not found."
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.GROUP, "nope")
    assert describe(parts, "nope").error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    await stop_parts(parts)


async def test_a_description_says_what_the_client_may_do(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await stable_member(parts)
    assert describe(parts, "g").authorized_operations == -(2**31)
    body = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    (group,) = ask(parts, describe_groups, body, 6).groups
    assert group.authorized_operations == sum(1 << operation for operation in (3, 6, 8, 10, 11))
    await stop_parts(parts)


async def test_groups_are_listed_by_state_and_type(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t")
    await stable_member(parts)
    commit(parts, group="simple")
    listed = ask(parts, list_groups, ListGroupsRequest(), 5).groups
    assert sorted((g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed) == [
        ("g", "consumer", "Stable", "classic"),
        ("simple", "", "Empty", "classic"),
    ]
    assert names(parts, states=["STABLE"]) == ["g"]
    assert names(parts, states=["empty", "Dead"]) == ["simple"]
    assert names(parts, types=["Classic"], states=["Stable"]) == ["g"]
    assert names(parts, types=["consumer"]) == []
    assert names(parts, types=["nonsense"]) == []
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.GROUP, "g")
    assert names(parts) == ["simple"]
    await stop_parts(parts)


def test_hosts_are_written_as_java_writes_them() -> None:
    assert [client_host(host) for host in ("127.0.0.1", "::1", "::ffff:10.0.0.1", "", "unix")] == [
        "/127.0.0.1",
        "/0:0:0:0:0:0:0:1",
        "/10.0.0.1",
        "/",
        "/unix",
    ]


def describe(parts: Parts, group: str, version: int = 6) -> Any:
    (described,) = ask(parts, describe_groups, DescribeGroupsRequest(groups=[group]), version).groups
    return described


def names(parts: Parts, *, states: list[str] | None = None, types: list[str] | None = None) -> list[str]:
    body = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
    return sorted(group.group_id for group in ask(parts, list_groups, body, 5).groups)


async def _made_but_not_loaded(folder: Path) -> Parts:
    """Start parts whose loader has not had its turn yet."""
    return await make_parts(folder, texts={"offsets.topic.num.partitions": "2"})
