"""Groups asked through their handlers, as a client would: a broker's parts with the offsets topic made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailrace.broker.handlers import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from tailrace.broker.request import Parked
from tailrace.protocol.codec import encode_message
from tailrace.protocol.coordinator.consumer_protocol import ConsumerProtocolSubscription
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tailrace.testing.virtual_clock import VirtualClock
from tests.broker.parts import Parts, make_parts

NO_GENERATION = -1
INITIAL_DELAY_MS = 3000


async def make_groups(folder: Path, clock: VirtualClock | None = None, **texts: str) -> Parts:
    """Start parts whose offsets topic is there; it has two partitions unless told otherwise."""
    settings = {"offsets.topic.num.partitions": "2"} | {key.replace("_", "."): value for key, value in texts.items()}
    parts = await make_parts(folder, texts=settings, clock=clock)
    await parts.broker.groups.topic.ensure_created()
    await parts.broker.groups.topic.loaded()
    return parts


def subscription(*topics: str) -> bytes:
    return b"\x00\x01" + encode_message(ConsumerProtocolSubscription(topics=list(topics)), 1)


def ask(parts: Parts, module: Any, body: Any, version: int) -> Any:
    """Give a handler's answer, `Parked` where it waits; what it raises is answered as by the dispatcher."""
    try:
        return parts.handle(module, body, version)
    except ApiError as error:
        make = getattr(module, "error_response", None)
        if make is None:
            return error.code
        return make(parts.request(body, version), error.code, error.message)


def join(
    parts: Parts,
    member_id: str = "",
    *,
    group: str = "g",
    version: int = 9,
    topics: Sequence[str] = ("t",),
    protocols: Sequence[str] = ("range",),
    session_ms: int = 10_000,
    rebalance_ms: int = 60_000,
    instance: str | None = None,
    kind: str = "consumer",
) -> Any:
    body = JoinGroupRequest(
        group_id=group,
        member_id=member_id,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=subscription(*topics)) for name in protocols],
    )
    return ask(parts, join_group, body, version)


def sync(
    parts: Parts, member_id: str, generation: int, *, group: str = "g", version: int = 4, **assignments: bytes
) -> Any:
    body = SyncGroupRequest(
        group_id=group,
        member_id=member_id,
        generation_id=generation,
        assignments=[SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in assignments.items()],
    )
    return ask(parts, sync_group, body, version)


def sync_as_leader(parts: Parts, joined: Any, *, group: str = "g", assignment: bytes = b"A") -> Any:
    body = SyncGroupRequest(
        group_id=group,
        member_id=joined.member_id,
        generation_id=joined.generation_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment) for member in joined.members
        ],
    )
    return ask(parts, sync_group, body, 4)


def beat(parts: Parts, member_id: str, generation: int, *, group: str = "g") -> ErrorCode:
    answer = ask(parts, heartbeat, HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation), 4)
    return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)


def leave(parts: Parts, *member_ids: str, group: str = "g") -> Any:
    members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
    return ask(parts, leave_group, LeaveGroupRequest(group_id=group, members=members), 5)


async def stable_member(parts: Parts, *, group: str = "g", topics: Sequence[str] = ("t",), **options: Any) -> Any:
    """Bring a group of one to a stable generation; give what its member was told when it joined."""
    first = join(parts, group=group, topics=topics, **options)
    parked = join(parts, first.member_id, group=group, topics=topics, **options)
    await parts.clock.advance_async(INITIAL_DELAY_MS)
    joined = done(parked)
    assert joined.error_code == 0
    assert sync_as_leader(parts, joined, group=group).error_code == 0
    return joined


def done(result: Any) -> Any:
    """Give the answer that must be there by now."""
    if not isinstance(result, Parked):
        return result
    assert result.answer is not None, result.error
    return result.answer


def commit(
    parts: Parts,
    offset: int = 42,
    *,
    group: str = "g",
    topic: str = "t",
    partition: int = 0,
    member_id: str = "",
    generation: int = NO_GENERATION,
    metadata: str | None = "",
    version: int = 9,
    retention_ms: int = -1,
    leader_epoch: int = -1,
    instance: str | None = None,
) -> Any:
    """Commit one offset; give its error code, or `Parked` while the answer waits."""
    body = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        retention_time_ms=retention_ms,
        group_instance_id=instance,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                        committed_leader_epoch=leader_epoch,
                    )
                ],
            )
        ],
    )
    answer = ask(parts, offset_commit, body, version)
    return answer if isinstance(answer, Parked) else ErrorCode(answer.topics[0].partitions[0].error_code)


def fetch(
    parts: Parts,
    *partitions: int,
    group: str = "g",
    topic: str = "t",
    require_stable: bool = False,
    version: int = 9,
) -> Any:
    """Fetch offsets, all of them where no partition is named; give the group's answer."""
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))] if partitions else None
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    answer = ask(parts, offset_fetch, OffsetFetchRequest(groups=[asked], require_stable=require_stable), version)
    return answer if isinstance(answer, Parked) else answer.groups[0]


def fetched(parts: Parts, partition: int = 0, **options: Any) -> int:
    """Give the one committed offset."""
    answer = fetch(parts, partition, **options)
    return answer.topics[0].partitions[0].committed_offset
