"""Which replicas a partition shall have from now on, when an administrator wishes so (KIP-455).

Pure: the registration and the wish in, its successor out, None where it is so already, or an `ApiError` with
the reason. A new order of the same replicas is done at once, as in Kafka. Replicas do not move to other brokers yet: a
cluster of one broker has no other, so there every wish that can be granted is what is already so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError


def reassign(
    partition: PartitionRegistration,
    replicas: Sequence[int] | None,
    *,
    brokers: Collection[int],
    may_change_factor: bool = True,
) -> PartitionRegistration | None:
    """Give the partition with these replicas; a wish of None cancels a move, and none is ever under way."""
    if replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    problem: str | None = None
    if not replicas:
        problem = "is empty"
    elif len(set(replicas)) != len(replicas):
        problem = f"names a broker more than once: {list(replicas)}"
    elif missing := [node for node in replicas if node not in brokers]:
        problem = f"names broker {missing[0]}, which is not registered"
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The replica assignment {problem}.")
    wished = tuple(replicas)
    if wished == partition.replicas:
        return None
    if len(wished) != len(partition.replicas) and not may_change_factor:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {len(partition.replicas)} replica(s), and {len(wished)} would change that.",
        )
    if set(wished) != set(partition.replicas):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Replicas can't be moved from {list(partition.replicas)} to {list(wished)}: only their order can change.",
        )
    return replace(partition, replicas=wished, partition_epoch=partition.partition_epoch + 1)
