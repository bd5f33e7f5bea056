"""A cluster's metadata as values: brokers, topics, partitions and their leaders.

Pure. An answer that is older than what is known does not undo it: a leader of an earlier epoch is not taken, unless the
topic was deleted and created anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tailrace.client.address import Address
from tailrace.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID


@dataclass(frozen=True, slots=True)
class Node:
    """A broker, as it advertises itself."""

    node_id: int
    address: Address
    rack: str | None = None


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

    def leader_of(self, topic_partition: TopicPartition) -> Leader | None:
        """Say who leads a partition; None where nobody is known to."""
        topic = self.topics.get(topic_partition[0])
        partition = None if topic is None else topic.partitions.get(topic_partition[1])
        if topic is None or partition is None or partition.leader_id not in self.nodes:
            return None
        return Leader(partition.leader_id, partition.leader_epoch, topic.topic_id)

    def updated(self, fresh: ClusterMetadata, *, asked: Iterable[str] | None) -> ClusterMetadata:
        """Give this metadata with what was answered for the topics that were `asked` for, None for all."""
        gone = self.topics.keys() if asked is None else set(asked)
        topics = {name: topic for name, topic in self.topics.items() if name not in gone}
        for name, topic in fresh.topics.items():
            topics[name] = _newest(self.topics.get(name), topic)
        return ClusterMetadata(fresh.cluster_id, fresh.controller_id, fresh.nodes, topics)

    def with_leader(
        self, topic_partition: TopicPartition, leader_id: int, leader_epoch: int, nodes: Iterable[Node]
    ) -> ClusterMetadata | None:
        """Give this metadata with a partition's new leader, or None where that is no news."""
        topic = self.topics.get(topic_partition.topic)
        partition = None if topic is None else topic.partitions.get(topic_partition.partition)
        if topic is None or partition is None or leader_epoch <= partition.leader_epoch:
            return None
        all_nodes = {**self.nodes, **{node.node_id: node for node in nodes}}
        if leader_id not in all_nodes:
            return None
        changed = replace(partition, leader_id=leader_id, leader_epoch=leader_epoch, error_code=0)
        partitions = {**topic.partitions, partition.partition: changed}
        topics = {**self.topics, topic.name: replace(topic, partitions=partitions)}
        return replace(self, nodes=all_nodes, topics=topics)

    def with_node(self, node: Node) -> ClusterMetadata:
        """Give this metadata with one more broker, or a broker's new address."""
        return replace(self, nodes={**self.nodes, node.node_id: node})


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


def _newest(known: TopicMetadata | None, fresh: TopicMetadata) -> TopicMetadata:
    """Keep the leaders that are known to be later than those of the answer."""
    if known is None or fresh.error_code or known.topic_id != fresh.topic_id:
        return fresh
    partitions = {
        number: later
        if (later := known.partitions.get(number)) is not None and later.leader_epoch > partition.leader_epoch
        else partition
        for number, partition in fresh.partitions.items()
    }
    return replace(fresh, partitions=partitions)
