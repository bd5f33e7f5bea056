"""A topic's partitions as clients are told of them: leaders they can reach, and replicas that do not answer.

Metadata and DescribeTopicPartitions tell the same in two messages; what is true is put together here. A leader that is
gone, or does not listen where the client asks, is left out with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tailrace.broker.broker import Broker
from tailrace.broker.metadata_store import BrokerRegistration, TopicRegistration
from tailrace.broker.partition_registration import NO_LEADER
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition


@dataclass(slots=True)
class PartitionState:
    """What a client is told of one partition."""

    number: int
    error: ErrorCode
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: list[int]


def partition_states(
    broker: Broker, topic: TopicRegistration, listener_name: str, *, first: int = 0, count: int | None = None
) -> Iterator[PartitionState]:
    """Give the states of a topic's partitions from number `first` on, at most `count` of them."""
    brokers = broker.metadata.brokers
    end = len(topic.partitions) if count is None else min(first + count, len(topic.partitions))
    for number in range(first, end):
        partition = topic.partitions[number]
        offline = [node for node in partition.replicas if not _is_alive(brokers, node)]
        if broker.node_id in partition.replicas and broker.node_id not in offline:
            log = broker.log_manager.get(TopicPartition(topic.name, number))
            if log is not None and log.is_offline:
                offline.append(broker.node_id)
        leader, error = partition.leader, ErrorCode.NONE
        if not _is_alive(brokers, leader):
            leader, error = NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
        elif brokers[leader].endpoint_for(listener_name) is None:
            leader, error = NO_LEADER, ErrorCode.LISTENER_NOT_FOUND
        yield PartitionState(
            number=number,
            error=error,
            leader=leader,
            leader_epoch=partition.leader_epoch,
            replicas=list(partition.replicas),
            isr=list(partition.isr),
            offline_replicas=offline,
        )


def _is_alive(brokers: Mapping[int, BrokerRegistration], node: int) -> bool:
    registration = brokers.get(node)
    return registration is not None and not registration.is_fenced
