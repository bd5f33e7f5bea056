"""What a consumer group does with ConsumerGroupHeartbeat: joining, telling, owning, leaving.

Each function takes the group and an event and gives a decision, or raises the ApiError that the member is told. The
group is not changed. The words of errors are Kafka's, because people search for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tailrace.broker.groups.assignors.group_spec import NO_PARTITIONS, Assignment
from tailrace.broker.groups.consumer_change import MemberChange
from tailrace.broker.groups.consumer_decision import (
    REBALANCE,
    SESSION,
    ConsumerRules,
    Decision,
    Surroundings,
    timer_name,
)
from tailrace.broker.groups.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer_member import (
    JOINING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
)
from tailrace.broker.groups.consumer_records import current_record
from tailrace.broker.groups.effects import SetTimer
from tailrace.broker.groups.member_removal import remove_members, replace_member
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.consumer_group_heartbeat import (
    Assignment as AssignmentResponse,
)
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitionsRequest,
    TopicPartitionsResponse,
)

MEMBER_ID_VERSION_FIRST = 1
"""From here on the member makes its own id (KIP-1082)."""
NOT_GIVEN = -1


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A ConsumerGroupHeartbeat, who sent it, and the member's id: its own, or one that was made for it."""

    request: ConsumerGroupHeartbeatRequest
    member_id: str
    client_id: str
    client_host: str

    @property
    def owned(self) -> Assignment | None:
        """What the member says it owns; None where it says nothing."""
        listed = self.request.topic_partitions
        return None if listed is None else owned_partitions(listed)

    @property
    def is_full(self) -> bool:
        """Whether it tells everything: so a member does that joins, or that lost an answer."""
        request = self.request
        has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return request.rebalance_timeout_ms != NOT_GIVEN and has_subscription and request.topic_partitions is not None


HeartbeatDecision = Decision[ConsumerGroupHeartbeatResponse]


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Iterable[str]) -> None:
    """Check what needs no group: INVALID_REQUEST, or UNSUPPORTED_ASSIGNOR."""
    if version >= MEMBER_ID_VERSION_FIRST or request.member_epoch != JOINING_EPOCH:
        _require(bool(request.member_id.strip()), "MemberId can't be empty.")
    _require(bool(request.group_id.strip()), "GroupId can't be empty.")
    _require(request.instance_id is None or bool(request.instance_id.strip()), "InstanceId can't be empty.")
    _require(request.rack_id is None or bool(request.rack_id.strip()), "RackId can't be empty.")
    if request.member_epoch == JOINING_EPOCH:
        _require(request.rebalance_timeout_ms != NOT_GIVEN, "RebalanceTimeoutMs must be provided in first request.")
        _require(request.topic_partitions == [], "TopicPartitions must be empty when (re-)joining.")
        _require(
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    elif request.member_epoch == STATIC_LEAVING_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    _require(request.member_epoch >= STATIC_LEAVING_EPOCH, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ApiError(ErrorCode.INVALID_REQUEST, message)


def heartbeat(group: ConsumerGroup, event: Heartbeat, surroundings: Surroundings) -> HeartbeatDecision:
    """A member joins (epoch 0), or tells that it is there; `group` may be new and have no records yet."""
    request, rules = event.request, surroundings.rules
    decision = HeartbeatDecision()
    check_size(group, event.member_id, rules)
    former = _dynamic_member(group, event) if request.instance_id is None else _static_member(group, event, decision)
    change = MemberChange(group, former, _told(former, event), surroundings, decision)
    rises = change.update_subscription()
    rises = change.update_patterns() or rises
    change.update_group_epoch(rises=rises)
    target = change.update_target()
    member = change.reconcile_member(target, event.owned)
    decision.effects.append(SetTimer(timer_name(SESSION, member.member_id), rules.session_timeout_ms))
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=rules.heartbeat_interval_ms,
    )
    if event.is_full or member.assigned != former.assigned:
        response.assignment = AssignmentResponse(
            topic_partitions=[
                TopicPartitionsResponse(topic_id=topic_id, partitions=sorted(member.assigned[topic_id]))
                for topic_id in sorted(member.assigned)
            ]
        )
    decision.response = response
    return decision


def check_size(group: ConsumerGroup, member_id: str, rules: ConsumerRules) -> None:
    """Keep a new member out of a group that is full."""
    if member_id not in group.members and len(group.members) >= rules.size_max:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {rules.size_max} members.",
        )


def _told(former: ConsumerMember, event: Heartbeat) -> ConsumerMember:
    """Give the member with what the request says of it; what it leaves out stays as it was."""
    request = event.request
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        former,
        instance_id=former.instance_id if request.instance_id is None else request.instance_id,
        rack_id=former.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=former.rebalance_timeout_ms if timeout_ms == NOT_GIVEN else timeout_ms,
        server_assignor=former.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topic_names=former.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=former.subscribed_topic_regex if regex is None else regex,
        client_id=event.client_id,
        client_host=event.client_host,
        classic=None,
    )


# Who it is


def _dynamic_member(group: ConsumerGroup, event: Heartbeat) -> ConsumerMember:
    member = group.members.get(event.member_id)
    if member is None:
        if event.request.member_epoch != JOINING_EPOCH:
            raise unknown_member(group, event.member_id)
        return ConsumerMember(member_id=event.member_id)
    check_member_epoch(member, event.request.member_epoch, event.owned)
    return member


def _static_member(group: ConsumerGroup, event: Heartbeat, decision: HeartbeatDecision) -> ConsumerMember:
    """Find a static member, or let a new incarnation take the place of one that is away."""
    instance_id = event.request.instance_id or ""
    present = group.static_member(instance_id)
    if event.request.member_epoch != JOINING_EPOCH:
        member = known_static_member(group, event.member_id, instance_id)
        check_member_epoch(member, event.request.member_epoch, event.owned)
        return member
    if present is None:
        return group.members.get(event.member_id) or ConsumerMember(member_id=event.member_id)
    if not present.is_away and not present.uses_classic_protocol:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {event.member_id} with instance id {instance_id} cannot join the group because the "
            f"instance id is owned by {present.member_id} member.",
        )
    member = replace(present, member_id=event.member_id, member_epoch=0, previous_member_epoch=0)
    replace_member(group, present, member, decision)
    return member


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Find the member of an instance id; UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID where it is not this one."""
    member = group.static_member(instance_id)
    if member is None:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def unknown_member(group: ConsumerGroup, member_id: str) -> ApiError:
    """Make the error for somebody who is not in the group."""
    return ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def check_member_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """Fence a member that is not where we believe it is.

    Its previous epoch is accepted where it owns nothing but what it was assigned: the answer with the new epoch may
    have been lost on its way.
    """
    known = member.member_epoch
    if epoch == known:
        return
    if epoch < known and epoch == member.previous_member_epoch and _is_subset(owned, member.assigned):
        return
    relation = "greater" if epoch > known else "smaller"
    raise ApiError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def _is_subset(owned: Assignment | None, assigned: Assignment) -> bool:
    if owned is None:
        return False
    return all(partitions <= assigned.get(topic_id, NO_PARTITIONS) for topic_id, partitions in owned.items())


def owned_partitions(listed: Iterable[TopicPartitionsRequest]) -> Assignment:
    """Read what a member says it owns."""
    owned: dict[bytes, frozenset[int]] = {}
    for topic in listed:
        owned[topic.topic_id] = owned.get(topic.topic_id, NO_PARTITIONS) | frozenset(topic.partitions)
    return owned


# Leaving


def leave(group: ConsumerGroup, event: Heartbeat, surroundings: Surroundings) -> HeartbeatDecision:
    """A member leaves: for good (epoch -1), or to come back as the same static member (-2)."""
    request = event.request
    if request.instance_id is None:
        member = group.members.get(event.member_id)
        if member is None:
            raise unknown_member(group, event.member_id)
    else:
        member = known_static_member(group, event.member_id, request.instance_id)
    decision = HeartbeatDecision()
    if request.instance_id is not None and request.member_epoch == STATIC_LEAVING_EPOCH:
        away = replace(member, member_epoch=STATIC_LEAVING_EPOCH, pending_revocation={})
        decision.records.append(current_record(group.group_id, away))
        decision.response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=STATIC_LEAVING_EPOCH
        )
        return decision
    remove_members(group, [member], surroundings, decision)
    decision.response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
    return decision


# Timers


def timer_expired(group: ConsumerGroup, name: str, surroundings: Surroundings) -> Decision[None]:
    """A member was silent for too long, or took too long to give partitions up: it is out."""
    kind, _, member_id = name.partition(":")
    decision = Decision[None]()
    member = group.members.get(member_id)
    if member is None:
        return decision
    if kind == REBALANCE and (member.state is not MemberState.UNREVOKED_PARTITIONS or member.is_away):
        return decision
    remove_members(group, [member], surroundings, decision)
    return decision
