"""What classic consumers say to each other through their coordinator: subscriptions and assignments as bytes.

Both begin with their version. A later version only adds fields at the end, so what is later than ours is read as ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from tailrace.client.assignors import MemberSubscription
from tailrace.protocol.codec import decode_prefix, encode_message
from tailrace.protocol.coordinator.consumer_protocol import (
    AssignedTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopicPartition,
)
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.topic_partition import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
VERSION: Final = 3
_version = Struct(">h")


def write_subscription(
    topics: Iterable[str],
    *,
    owned: Sequence[TopicPartition] = (),
    generation_id: int = -1,
    user_data: bytes | None = None,
    rack_id: str | None = None,
) -> bytes:
    """Write what a member reads and has read."""
    subscription = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=[
            OwnedTopicPartition(topic=topic, partitions=numbers) for topic, numbers in _by_topic(owned).items()
        ],
        generation_id=generation_id,
        rack_id=rack_id,
    )
    return _version.pack(VERSION) + encode_message(subscription, VERSION)


def read_subscription(data: bytes, group_instance_id: str | None = None) -> MemberSubscription:
    """Read what a member reads; MalformedFrame where it is none."""
    version, body = _split(data)
    said = decode_prefix(ConsumerProtocolSubscription, version, body)[0]
    return MemberSubscription(
        topics=tuple(said.topics),
        owned=tuple(TopicPartition(entry.topic, n) for entry in said.owned_partitions for n in entry.partitions),
        generation_id=said.generation_id,
        user_data=None if said.user_data is None else bytes(said.user_data),
        group_instance_id=group_instance_id,
        rack_id=said.rack_id,
    )


def write_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    """Write what a member is to read."""
    topics = [
        AssignedTopicPartition(topic=topic, partitions=numbers) for topic, numbers in _by_topic(partitions).items()
    ]
    assignment = ConsumerProtocolAssignment(assigned_partitions=topics, user_data=user_data)
    return _version.pack(0) + encode_message(assignment, 0)


def read_assignment(data: bytes) -> list[TopicPartition]:
    """Read what a member is to read; nothing is nothing, and MalformedFrame what is no assignment."""
    if not data:
        return []
    version, body = _split(data)
    said = decode_prefix(ConsumerProtocolAssignment, version, body)[0]
    return [TopicPartition(entry.topic, number) for entry in said.assigned_partitions for number in entry.partitions]


def _split(data: bytes) -> tuple[int, bytes]:
    if len(data) < _version.size:
        raise MalformedFrame(f"{len(data)} bytes are too few for a version")
    version: int = _version.unpack_from(data)[0]
    if version < 0:
        raise MalformedFrame(f"version {version} of the consumer protocol")
    return min(version, VERSION), bytes(data[_version.size :])


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    return topics
