"""What the cluster has decided about one partition: who leads it, who replicates it, in which epochs.

The metadata store writes these values and the replica manager obeys them; nobody changes one after it was made. Names
are Kafka's: the leader epoch counts leaders, the partition epoch counts changes of any kind (KIP-497), and the in-sync
replicas (ISR) are those whose logs hold everything that was acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """One partition's leadership, as the metadata store keeps it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0

    @classmethod
    def of_single_broker(cls, node_id: int) -> PartitionRegistration:
        """Give the registration of a new partition whose only replica is on `node_id`."""
        return cls(replicas=(node_id,), isr=(node_id,), leader=node_id)
