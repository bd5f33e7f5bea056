"""Who leads a partition now, and where: what Produce and Fetch tell a client that came to the wrong broker (KIP-951).

A client that is told goes to the leader at once, instead of asking for metadata first.
"""

from __future__ import annotations

from typing import NamedTuple

from tailrace.broker.broker import Broker, Endpoint

UNKNOWN_LEADER = -1


class CurrentLeader(NamedTuple):
    """A leader as far as it is known: -1 and None where nothing is."""

    leader_id: int
    leader_epoch: int
    endpoint: Endpoint | None
    rack: str | None


def current_leader(broker: Broker, topic: str, number: int, listener_name: str) -> CurrentLeader:
    """Find the leader of a partition, and its address for clients of a listener."""
    partition = broker.replica_manager.partitions.get((topic, number))
    registration = broker.metadata.partition(topic, number)
    if partition is not None:
        leader, epoch = partition.leader, partition.leader_epoch
    elif registration is not None:
        leader, epoch = registration.leader, registration.leader_epoch
    else:
        leader, epoch = UNKNOWN_LEADER, UNKNOWN_LEADER
    node = broker.metadata.brokers.get(leader)
    if node is None:
        return CurrentLeader(leader, epoch, None, None)
    return CurrentLeader(leader, epoch, node.endpoint_for(listener_name), node.rack)
