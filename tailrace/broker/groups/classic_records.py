"""A classic group as a record of `__consumer_offsets`, and back.

The record holds what a group needs to go on after its coordinator moved or restarted: generation, protocol, leader and
members with what they subscribed to and were assigned. A group that is rebalancing is not written: after a restart it
is again what it was in its last generation, and its members rebalance once more.
"""

from __future__ import annotations

from tailrace.broker.groups.classic_group import ClassicGroup, ClassicState
from tailrace.broker.groups.classic_member import ClassicMember
from tailrace.protocol.codec import decode_prefix
from tailrace.protocol.coordinator.consumer_protocol import ConsumerProtocolSubscription
from tailrace.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.messages.join_group import JoinGroupRequestProtocol

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_SIZE = 2


def group_record(group: ClassicGroup) -> CoordinatorRecord:
    """Write a group down as it is now."""
    return CoordinatorRecord(
        GroupMetadataKey(group=group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation,
            protocol=group.protocol_name,
            leader=group.leader,
            current_state_timestamp=group.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(group.protocol_name),
                    assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        ),
    )


def new_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """Write down that a group exists, of which nothing else is decided yet."""
    value = GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=group.state_since_ms)
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Write down that a group is gone."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def restore_group(group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Make a new group what its record says."""
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader = value.leader
    group.state_since_ms = value.current_state_timestamp
    for stored in value.members:
        has_rebalance_timeout = stored.rebalance_timeout >= 0
        protocol = JoinGroupRequestProtocol(name=value.protocol or "", metadata=stored.subscription)
        member = ClassicMember(
            member_id=stored.member_id,
            group_instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout if has_rebalance_timeout else stored.session_timeout,
            session_timeout_ms=stored.session_timeout,
            protocols=[protocol],
            assignment=stored.assignment,
        )
        group.members[member.member_id] = member
        if member.group_instance_id is not None:
            group.static_members[member.group_instance_id] = member.member_id
    group.state = ClassicState.STABLE if group.members else ClassicState.EMPTY


def subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """Give the topics that a group of consumers reads; None where that can't be known.

    The beginning of a subscription is the same in all its versions, and only that is read.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if not group.members:
        return frozenset()
    if group.protocol_name is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            metadata = member.metadata(group.protocol_name)
            subscription, _ = decode_prefix(ConsumerProtocolSubscription, 0, metadata, _VERSION_SIZE)
        except MalformedFrame:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
