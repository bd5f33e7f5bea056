"""What classic consumers tell each other through the broker, where the broker has to understand it (KIP-848).

    subscription   version i16 | topics, owned partitions, ...      as JoinGroup carries it
    assignment     version i16 | topics with their partitions, ...  as SyncGroup carries it

A group that changes its protocol, or has members of both, is assigned by the broker, which then reads what members
subscribe to and own, and writes what they are assigned. Versions that came after ours are read as our last one: the
format only ever grew at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TypeVar

from tailrace.broker.groups.assignors.group_spec import NO_PARTITIONS, Assignment
from tailrace.broker.groups.metadata_hash import ClusterTopics
from tailrace.protocol.codec import decode_prefix, encode_message
from tailrace.protocol.coordinator.consumer_protocol import (
    AssignedTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopicPartition,
)
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.schema import Message

M = TypeVar("M", bound=Message)

_int16 = Struct(">h")


def read_version(data: bytes) -> int:
    """Read the version in front."""
    if len(data) < _int16.size:
        raise MalformedFrame(f"the embedded consumer protocol has no version: {data!r}")
    version: int = _int16.unpack_from(data)[0]
    if version < 0:
        raise MalformedFrame(f"the embedded consumer protocol has version {version}")
    return version


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Read what a member subscribes to."""
    return _read(ConsumerProtocolSubscription, metadata)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Read what a leader assigned to a member."""
    return _read(ConsumerProtocolAssignment, data)


def _read(cls: type[M], data: bytes) -> M:
    version = min(read_version(data), cls.versions.last)
    message, _ = decode_prefix(cls, version, data, _int16.size)
    return message


def write_assignment(assignment: Assignment, version: int, cluster: ClusterTopics) -> bytes:
    """Write what a member is assigned, without topics that are no more."""
    topics = [
        AssignedTopicPartition(topic=topic.name, partitions=sorted(assignment[topic_id]))
        for topic_id in sorted(assignment)
        if (topic := cluster.topic_by_id(topic_id)) is not None
    ]
    version = min(version, ConsumerProtocolAssignment.versions.last)
    message = ConsumerProtocolAssignment(assigned_partitions=topics)
    return _int16.pack(version) + bytes(encode_message(message, version))


def with_topic_ids(
    listed: Iterable[OwnedTopicPartition] | Iterable[AssignedTopicPartition], cluster: ClusterTopics
) -> Assignment:
    """Give partitions by topic ids, without topics that are no more."""
    assignment: dict[bytes, frozenset[int]] = {}
    for entry in listed:
        topic = cluster.topic(entry.topic)
        if topic is not None and entry.partitions:
            known = assignment.get(topic.topic_id, NO_PARTITIONS)
            assignment[topic.topic_id] = known | frozenset(entry.partitions)
    return assignment
