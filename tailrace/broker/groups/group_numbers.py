"""What a scrape sees of groups: plain numbers of one moment, taken on the event loop.

A group's lag is told by the broker itself: it knows the committed offset and, where it leads the partition, how far
consumers could have read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tailrace.broker.replica_manager import ReplicaManager

if TYPE_CHECKING:  # a snapshot's type is needed at the start, the coordinator only later
    from tailrace.broker.groups.group_coordinator import GroupCoordinator


class OffsetNumbers(NamedTuple):
    """One committed offset; the lag is None where the partition is not led from here."""

    group: str
    topic: str
    partition: int
    offset: int
    lag: int | None


@dataclass(slots=True)
class GroupNumbers:
    """Everything that is told of groups."""

    states: Counter[tuple[str, str]]
    """How many groups there are by type and state."""
    members: dict[str, int]
    offsets: list[OffsetNumbers] = field(default_factory=list[OffsetNumbers])
    started_rebalances: int = 0
    completed_rebalances: int = 0
    expired_members: int = 0
    committed_offsets: int = 0
    expired_offsets: int = 0


def take_group_numbers(coordinator: GroupCoordinator, replicas: ReplicaManager) -> GroupNumbers:
    """Copy the numbers of the groups that are coordinated here."""
    numbers = GroupNumbers(
        states=Counter(),
        members={},
        started_rebalances=coordinator.counts.started,
        completed_rebalances=coordinator.counts.completed,
        expired_members=coordinator.counts.expired_members,
        committed_offsets=coordinator.committed_offsets,
        expired_offsets=coordinator.expired_offsets,
    )
    for shard in coordinator.topic.shards():
        for group in shard.groups.values():
            numbers.states[group.group_type, group.state_name] += 1
            numbers.members[group.group_id] = group.member_count
        for group_id, topics in shard.offsets.groups.items():
            for topic, partitions in topics.items():
                for number, committed in partitions.items():
                    lag = _lag(replicas, topic, number, committed.offset)
                    numbers.offsets.append(OffsetNumbers(group_id, topic, number, committed.offset, lag))
    return numbers


def _lag(replicas: ReplicaManager, topic: str, number: int, offset: int) -> int | None:
    partition = replicas.partitions.get((topic, number))
    if partition is None or not partition.is_leader:
        return None
    return max(0, partition.log.high_watermark - offset)
