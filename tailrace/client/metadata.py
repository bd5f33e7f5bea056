"""A cluster's metadata as values: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.client.settings import Address
from tailrace.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from tailrace.protocol.uuid import ZERO_UUID


@dataclass(frozen=True, slots=True)
class Node:
    """A broker, as it advertises itself."""

    node_id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Who has a partition; `leader_id` is -1 where nobody leads it."""

    partition: int
    error_code: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic with its partitions by number; `topic_id` is zero where the broker gives none."""

    name: str
    topic_id: bytes
    is_internal: bool
    error_code: int
    partitions: dict[int, PartitionMetadata]


class Leader(NamedTuple):
    """Where requests for a partition go, and what they carry."""

    node_id: int
    leader_epoch: int
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """Brokers by id and topics by name."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: dict[int, Node] = field(default_factory=dict[int, Node])
    topics: dict[str, TopicMetadata] = field(default_factory=dict[str, TopicMetadata])

    def updated(self, fresh: ClusterMetadata, *, asked: Iterable[str] | None) -> ClusterMetadata:
        """Give this metadata with what was answered for the topics that were `asked` for, None for all."""
        topics = {} if asked is None else {name: t for name, t in self.topics.items() if name not in set(asked)}
        return ClusterMetadata(fresh.cluster_id, fresh.controller_id, fresh.nodes, {**topics, **fresh.topics})


def read_metadata(response: MetadataResponse) -> ClusterMetadata:
    """Make values of a broker's answer."""
    nodes = {
        broker.node_id: Node(broker.node_id, Address(broker.host, broker.port), broker.rack)
        for broker in response.brokers
    }
    topics = {topic.name: _read_topic(topic, topic.name) for topic in response.topics if topic.name is not None}
    return ClusterMetadata(response.cluster_id, response.controller_id, nodes, topics)


def _read_topic(topic: MetadataResponseTopic, name: str) -> TopicMetadata:
    partitions = {
        partition.partition_index: PartitionMetadata(
            partition.partition_index,
            partition.error_code,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    }
    return TopicMetadata(name, topic.topic_id or ZERO_UUID, topic.is_internal, topic.error_code, partitions)
