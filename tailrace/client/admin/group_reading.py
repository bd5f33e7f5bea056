"""Brokers' descriptions of groups, of either protocol, turned into one kind of value."""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeVar

from tailrace.client.admin.group_values import GroupDescription, GroupMember, GroupState, GroupType
from tailrace.client.metadata import Node
from tailrace.protocol.codec import decode_prefix
from tailrace.protocol.coordinator.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.messages.consumer_group_describe import Assignment, Member
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
from tailrace.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tailrace.protocol.schema import Message
from tailrace.protocol.topic_partition import TopicPartition

M = TypeVar("M", bound=Message)

CONSUMER_PROTOCOL: Final = "consumer"
_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1

_int16 = Struct(">h")


def read_consumer(group: ConsumerGroup, coordinator: Node) -> GroupDescription:
    """Read a group of the consumer protocol."""
    return GroupDescription(
        group_id=group.group_id,
        group_type=GroupType.CONSUMER,
        state=GroupState.parse(group.group_state),
        protocol_type=CONSUMER_PROTOCOL,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(_consumer_member(member) for member in group.members),
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def read_classic(group: DescribedGroup, coordinator: Node) -> GroupDescription:
    """Read a group of the classic protocol."""
    is_consumer = group.protocol_type == CONSUMER_PROTOCOL
    return GroupDescription(
        group_id=group.group_id,
        group_type=GroupType.CLASSIC,
        state=GroupState.parse(group.group_state),
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_classic_member(member, is_consumer=is_consumer) for member in group.members),
    )


def _consumer_member(member: Member) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        rack=member.rack_id,
        subscribed_topics=tuple(sorted(member.subscribed_topic_names)),
        subscribed_pattern=member.subscribed_topic_regex or None,
        assignment=_partitions(member.assignment),
        target_assignment=_partitions(member.target_assignment),
        epoch=member.member_epoch,
        is_classic=member.member_type == _CLASSIC_MEMBER
        if member.member_type in (_CLASSIC_MEMBER, _CONSUMER_MEMBER)
        else None,
    )


def _classic_member(member: DescribedGroupMember, *, is_consumer: bool) -> GroupMember:
    assignment = _read(ConsumerProtocolAssignment, member.member_assignment) if is_consumer else None
    subscription = _read(ConsumerProtocolSubscription, member.member_metadata) if is_consumer else None
    partitions = (
        TopicPartition(topic.topic, partition)
        for topic in (assignment.assigned_partitions if assignment is not None else ())
        for partition in topic.partitions
    )
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        rack=subscription.rack_id if subscription is not None else None,
        subscribed_topics=tuple(sorted(subscription.topics)) if subscription is not None else (),
        subscribed_pattern=None,
        assignment=tuple(sorted(partitions)),
        is_classic=True,
        assignment_bytes=bytes(member.member_assignment),
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )


def _read(cls: type[M], data: bytes) -> M | None:
    """Read what a member wrote; None for nothing, or for what is not the consumers' language after all.

    Versions later than ours are read as our last one: the format only grows at its end.
    """
    if len(data) < _int16.size:
        return None
    version: int = _int16.unpack_from(data)[0]
    if version < 0:
        return None
    try:
        message, _ = decode_prefix(cls, min(version, cls.versions.last), data, _int16.size)
    except MalformedFrame:
        return None
    return message
