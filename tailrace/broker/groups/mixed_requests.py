"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-848).

While a group is upgraded it has members of both protocols. The broker assigns to all of them. A classic member learns
by its heartbeat that it has to join again (its epoch is behind, it has to give partitions up, or some became free),
tells in its subscription what it owns, and fetches its assignment by SyncGroup; its generation is its epoch, and nobody
leads. As in `consumer_requests`, a function reads the group and gives a decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tailrace.broker.groups.assignors.group_spec import NO_PARTITIONS
from tailrace.broker.groups.classic_records import CONSUMER_PROTOCOL_TYPE
from tailrace.broker.groups.classic_requests import Joining
from tailrace.broker.groups.consumer_change import MemberChange
from tailrace.broker.groups.consumer_decision import JOIN, SESSION, SYNC, Decision, Surroundings, timer_name
from tailrace.broker.groups.consumer_group import NO_EPOCH, ConsumerGroup
from tailrace.broker.groups.consumer_member import ConsumerMember, MemberState
from tailrace.broker.groups.consumer_requests import check_size, known_static_member, unknown_member
from tailrace.broker.groups.effects import CancelTimer, SetTimer
from tailrace.broker.groups.embedded_protocol import read_subscription, read_version, with_topic_ids, write_assignment
from tailrace.broker.groups.group_conversion import classic_metadata, downgrade, may_downgrade
from tailrace.broker.groups.member_removal import remove_members, replace_member
from tailrace.protocol.coordinator.consumer_protocol import ConsumerProtocolSubscription
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupResponse
from tailrace.protocol.messages.leave_group import MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# Joining


def join(group: ConsumerGroup, event: Joining, surroundings: Surroundings) -> Decision[JoinGroupResponse]:
    """JoinGroup to a consumer group that has members."""
    request = event.request
    is_unknown = not request.member_id
    member_id = event.new_member_id if is_unknown else request.member_id
    check_size(group, member_id, surroundings.rules)
    protocols = frozenset(protocol.name for protocol in request.protocols)
    if not group.supports_classic(request.protocol_type, protocols):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    decision = Decision[JoinGroupResponse]()
    if is_unknown and request.group_instance_id is None and event.needs_known_id:
        decision.response = JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED)
        return decision
    subscription = _subscription(event)
    former = _joining_member(group, event, member_id, is_unknown, decision)
    change = MemberChange(group, former, _told(former, event, subscription), surroundings, decision)
    change.update_group_epoch(rises=change.update_subscription())
    target = change.update_target()
    owned = with_topic_ids(subscription.owned_partitions, surroundings.cluster)
    member = change.reconcile_member(target, owned)
    _maybe_downgrade(group, member, surroundings, decision)
    decision.response = JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )
    decision.effects.append(CancelTimer(timer_name(JOIN, member.member_id)))
    if decision.downgrade is None:
        decision.effects += [
            SetTimer(timer_name(SESSION, member.member_id), request.session_timeout_ms),
            SetTimer(timer_name(SYNC, member.member_id), event.rebalance_timeout_ms),
        ]
    return decision


def _subscription(event: Joining) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(event.request.protocols[0].metadata)
    except MalformedFrame as error:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Malformed embedded consumer protocol in subscription deserialization."
        ) from error


def _joining_member(
    group: ConsumerGroup, event: Joining, member_id: str, is_unknown: bool, decision: Decision[JoinGroupResponse]
) -> ConsumerMember:
    instance_id = event.request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    if not is_unknown:
        return known_static_member(group, member_id, instance_id)
    present = group.static_member(instance_id)
    if present is None:
        return ConsumerMember(member_id=member_id)
    member = replace(present, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    replace_member(group, present, member, decision)
    return member


def _told(former: ConsumerMember, event: Joining, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    request = event.request
    return replace(
        former,
        instance_id=former.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or former.rack_id,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        client_id=event.client_id,
        client_host=event.client_host,
        classic=classic_metadata(request.session_timeout_ms, request.protocols),
    )


def _maybe_downgrade(
    group: ConsumerGroup, member: ConsumerMember, surroundings: Surroundings, decision: Decision[JoinGroupResponse]
) -> None:
    """Where the last member of the consumer protocol came back as a classic one, the group is classic from now on."""
    replaced = group.static_member(member.instance_id)
    if replaced is None or not may_downgrade(group, {replaced.member_id}, len(group.members), surroundings):
        return
    decision.downgrade, records = downgrade(
        group, {replaced.member_id}, surroundings, replacement=(replaced.member_id, member)
    )
    decision.records += records


# Fetching the assignment


def sync(group: ConsumerGroup, request: SyncGroupRequest, surroundings: Surroundings) -> Decision[SyncGroupResponse]:
    """SyncGroup."""
    member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    assert member.classic is not None
    _check_protocol(member, request)
    decision = Decision[SyncGroupResponse]()
    if group.group_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        decision.timers_if_absent.append(_join_timer(member))
        decision.response = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return decision
    metadata = member.classic.supported_protocols[0].metadata
    decision.response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=write_assignment(member.assigned, read_version(metadata), surroundings.cluster),
    )
    decision.effects += [
        CancelTimer(timer_name(SYNC, member.member_id)),
        SetTimer(timer_name(SESSION, member.member_id), member.classic.session_timeout_ms),
    ]
    return decision


def _join_timer(member: ConsumerMember) -> SetTimer:
    """Give a member its rebalance timeout to join again."""
    return SetTimer(timer_name(JOIN, member.member_id), member.rebalance_timeout_ms)


def _check_protocol(member: ConsumerMember, request: SyncGroupRequest) -> None:
    assert member.classic is not None
    if request.protocol_type is not None and request.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol type {request.protocol_type} from member {member.member_id} request is not equal to the "
            f"group protocol type {CONSUMER_PROTOCOL_TYPE}.",
        )
    name = member.classic.supported_protocols[0].name
    if request.protocol_name is not None and request.protocol_name != name:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol name {request.protocol_name} from member {member.member_id} request is not equal to the "
            f"protocol name {name} returned in the join response.",
        )


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    """Find the member, which has to speak the classic protocol and to know its epoch."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise unknown_member(group, member_id)
    else:
        member = known_static_member(group, member_id, instance_id)
    if not member.uses_classic_protocol:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation != member.member_epoch:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of "
            f"member {member_id}.",
        )
    return member


# Heartbeat


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest) -> tuple[Decision[None], ErrorCode]:
    """Heartbeat: give the decision, and the answer's code."""
    member = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    assert member.classic is not None
    decision = Decision[None]()
    decision.effects.append(SetTimer(timer_name(SESSION, member.member_id), member.classic.session_timeout_ms))
    must_rejoin = (
        member.member_epoch < group.group_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member))
    )
    if not must_rejoin:
        return decision, ErrorCode.NONE
    decision.timers_if_absent.append(_join_timer(member))
    return decision, ErrorCode.REBALANCE_IN_PROGRESS


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether some partition of its target is still held by somebody else."""
    return any(
        group.partition_epoch(topic_id, partition) != NO_EPOCH
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions - member.assigned.get(topic_id, NO_PARTITIONS)
    )


# Leaving


def leave(
    group: ConsumerGroup, identities: Sequence[MemberIdentity], surroundings: Surroundings
) -> tuple[Decision[None], list[ErrorCode]]:
    """LeaveGroup: give the decision, and each member's code."""
    decision = Decision[None]()
    codes: list[ErrorCode] = []
    gone: dict[str, ConsumerMember] = {}
    for identity in identities:
        try:
            member = _leaving_member(group, identity)
        except ApiError as error:
            codes.append(error.code)
        else:
            codes.append(ErrorCode.NONE)
            gone[member.member_id] = member
    if gone:
        remove_members(group, list(gone.values()), surroundings, decision)
    return decision, codes


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        member = group.members.get(identity.member_id)
        if member is None:
            raise unknown_member(group, identity.member_id)
        return member
    if identity.member_id:
        return known_static_member(group, identity.member_id, instance_id)
    member = group.static_member(instance_id)  # an operator removes whoever has the instance id (KIP-345)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return member
