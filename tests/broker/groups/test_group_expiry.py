"""When offsets and groups go: the rules of KIP-211, turned by the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailrace.broker.handlers import list_groups
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_groups import ListGroupsRequest
from tests.broker.groups.handled import ask, beat, commit, fetched, join, leave, make_groups, stable_member
from tests.broker.groups.test_offsets import commit_in_transaction
from tests.broker.parts import Parts, abandon_parts, stop_parts

MINUTE_MS = 60_000
CHECK_MS = 10 * MINUTE_MS


async def make(folder: Path, **texts: str) -> Parts:
    parts = await make_groups(folder, offsets_retention_minutes="60", **texts)
    for name in ("t", "u"):
        if parts.metadata.topic(name) is None:
            await parts.create_topic(name)
    return parts


async def turn(parts: Parts, minutes: float, *, member: Any = None) -> None:
    """Turn the clock, with heartbeats in between."""
    left_ms = minutes * MINUTE_MS
    while left_ms > 0:
        step_ms = min(left_ms, 5000 if member is not None else CHECK_MS)
        await parts.clock.advance_async(step_ms)
        left_ms -= step_ms
        if member is not None:
            assert beat(parts, member.member_id, member.generation_id) is ErrorCode.NONE


def names(parts: Parts) -> list[str]:
    return sorted(group.group_id for group in ask(parts, list_groups, ListGroupsRequest(), 5).groups)


async def test_offsets_of_who_is_no_member_go_by_the_time_of_their_commit(tmp_path: Path) -> None:
    parts = await make(tmp_path)
    commit(parts, 1)
    await turn(parts, 30)
    commit(parts, 2, topic="u")
    await turn(parts, 31)
    assert (fetched(parts), fetched(parts, topic="u")) == (-1, 2)
    assert names(parts) == ["g"]
    await turn(parts, 40)
    assert (fetched(parts, topic="u"), names(parts)) == (-1, [])
    abandon_parts(parts)
    parts = await make(tmp_path)
    assert (fetched(parts, topic="u"), names(parts)) == (-1, [])
    await stop_parts(parts)


async def test_of_a_group_that_had_members_they_go_by_the_time_the_last_one_left(tmp_path: Path) -> None:
    parts = await make(tmp_path)
    joined = await stable_member(parts)
    commit(parts, 1, member_id=joined.member_id, generation=joined.generation_id)
    await turn(parts, 61, member=joined)
    assert fetched(parts) == 1
    leave(parts, joined.member_id)
    left_at_ms = parts.clock.time_ms()
    await turn(parts, 50)
    assert fetched(parts) == 1
    abandon_parts(parts)
    parts = await make_groups(tmp_path, clock=parts.clock, offsets_retention_minutes="60")
    await turn(parts, 9)
    assert fetched(parts) == 1
    await turn(parts, 11)
    assert parts.clock.time_ms() >= left_at_ms + 60 * MINUTE_MS
    assert (fetched(parts), names(parts)) == (-1, [])
    await stop_parts(parts)


async def test_members_keep_what_they_read_and_lose_what_they_no_longer_read(tmp_path: Path) -> None:
    parts = await make(tmp_path)
    joined = await stable_member(parts, topics=["t"])
    for name in ("t", "u"):
        commit(parts, topic=name, member_id=joined.member_id, generation=joined.generation_id)
    await turn(parts, 71, member=joined)
    assert (fetched(parts), fetched(parts, topic="u")) == (42, -1)
    await stop_parts(parts)


async def test_members_of_another_kind_keep_everything(tmp_path: Path) -> None:
    parts = await make(tmp_path)
    joined = await stable_member(parts, kind="connect")
    commit(parts, member_id=joined.member_id, generation=joined.generation_id)
    await turn(parts, 71, member=joined)
    assert fetched(parts) == 42
    await stop_parts(parts)


async def test_a_retention_of_the_commits_own_counts(tmp_path: Path) -> None:
    parts = await make(tmp_path)
    commit(parts, version=2, retention_ms=5 * MINUTE_MS)
    commit(parts, topic="u", version=2, retention_ms=100 * MINUTE_MS)
    await turn(parts, 11)
    assert (fetched(parts), fetched(parts, topic="u")) == (-1, 42)
    await turn(parts, 70)
    assert fetched(parts, topic="u") == 42
    await turn(parts, 30)
    assert fetched(parts, topic="u") == -1
    await stop_parts(parts)


async def test_an_open_transaction_keeps_the_group_and_the_offset(tmp_path: Path) -> None:
    parts = await make(tmp_path)
    commit(parts)
    commit(parts, topic="u")
    assert commit_in_transaction(parts, 50) is ErrorCode.NONE
    await turn(parts, 71)
    assert (fetched(parts), fetched(parts, topic="u"), names(parts)) == (42, -1, ["g"])
    await stop_parts(parts)


async def test_a_group_that_nobody_came_to_goes_at_the_next_look(tmp_path: Path) -> None:
    parts = await make(tmp_path, offsets_retention_check_interval_ms="120000")
    assert join(parts).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert names(parts) == ["g"]
    await turn(parts, 3)
    assert names(parts) == []
    await stop_parts(parts)
