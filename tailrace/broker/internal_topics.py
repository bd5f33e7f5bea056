"""The shape of the topics in which coordinators keep their state: how many partitions, how replicated, which overrides.

The numbers come from the settings that Kafka has for each of them (`offsets.topic.*`, `transaction.state.log.*`,
`share.coordinator.state.topic.*`). Kafka's default of three replicas leaves a cluster of one broker without
coordinators until somebody changes it; a broker that starts without any setting has to serve groups, so here there are
as many replicas as there can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tailrace.broker.topic_names import GROUP_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from tailrace.settings.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicShape:
    """What an internal topic is made with."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def internal_topic_shape(config: BrokerConfig, name: str, *, brokers: int) -> InternalTopicShape | None:
    """Give the shape of an internal topic in a cluster of so many brokers, or None where `name` is not internal."""
    if name == GROUP_OFFSETS_TOPIC:
        return InternalTopicShape(
            partitions=config.offsets_topic_num_partitions,
            replication_factor=_replicas(config.offsets_topic_replication_factor, brokers),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        replicas = _replicas(config.transaction_state_log_replication_factor, brokers)
        return InternalTopicShape(
            partitions=config.transaction_state_log_num_partitions,
            replication_factor=replicas,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "min.insync.replicas": str(min(config.transaction_state_log_min_isr, replicas)),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_GROUP_STATE_TOPIC:
        replicas = _replicas(config.share_coordinator_state_topic_replication_factor, brokers)
        return InternalTopicShape(
            partitions=config.share_coordinator_state_topic_num_partitions,
            replication_factor=replicas,
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
                "min.insync.replicas": str(min(config.share_coordinator_state_topic_min_isr, replicas)),
                "retention.ms": "-1",
            },
        )
    return None


def _replicas(wished: int, brokers: int) -> int:
    return min(wished, max(brokers, 1))
