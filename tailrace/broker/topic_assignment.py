"""Which brokers replicate which partitions of a new topic, or of one that grows.

Pure: brokers in, one tuple of node ids for each partition out; the first of them is the preferred leader. Without a
wish of the client's, replicas go round the brokers from a place that the caller picks, so that many small topics
do not all begin on the same broker; the second replica's distance grows with each round, so that the partitions of a
broker that fails spread over all the others. An assignment that the client gives is checked and taken as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError


def assign_replicas(
    brokers: Sequence[int], *, partitions: int, replication_factor: int, start: int, partitions_before: int = 0
) -> list[tuple[int, ...]]:
    """Spread `partitions` partitions over `brokers`; INVALID_REPLICATION_FACTOR where there are too few of them.

    `start` may be any number; `partitions_before` is how many the topic has, so that growth goes on where it stopped.
    """
    if replication_factor > len(brokers):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{replication_factor} replica(s) can't be placed: only {len(brokers)} broker(s) are registered.",
        )
    count = len(brokers)
    assignments: list[tuple[int, ...]] = []
    for number in range(partitions_before, partitions_before + partitions):
        first = (start + number) % count
        shift = number // count
        others = (brokers[(first + 1 + (shift + step) % (count - 1)) % count] for step in range(replication_factor - 1))
        assignments.append((brokers[first], *others))
    return assignments


def check_assignment(replicas: Sequence[int], *, brokers: Collection[int], replication_factor: int | None) -> None:
    """Check one partition's replicas as a client gave them; INVALID_REPLICA_ASSIGNMENT says what is wrong.

    `replication_factor` is what the other partitions have, None for the first.
    """
    problem: str | None = None
    if not replicas:
        problem = "includes an empty list of replicas"
    elif missing := [node for node in sorted(set(replicas)) if node not in brokers]:
        problem = f"includes broker {missing[0]}, which is not registered"
    elif len(set(replicas)) != len(replicas):
        twice = next(node for node in replicas if replicas.count(node) > 1)
        problem = f"includes broker {twice} more than once"
    elif replication_factor is not None and len(replicas) != replication_factor:
        problem = f"has a partition with {len(replicas)} replica(s), while the others have {replication_factor}"
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {problem}.")


def new_partition(replicas: Sequence[int]) -> PartitionRegistration:
    """Register a new partition: all replicas are in sync, because all are empty, and the first leads."""
    return PartitionRegistration(replicas=tuple(replicas), isr=tuple(replicas), leader=replicas[0])
