"""Who reads what in a classic group: the group's leader decides by an assignor that all members have.

    range                topic by topic, neighbouring partitions to the same member
    roundrobin           all partitions in turn over all members
    sticky               balanced, and as much as can be stays where it is; everything is given up first
    cooperative-sticky   the same, and what stays goes on being read meanwhile (KIP-429)

Pure, and equal to what Kafka's Java client and librdkafka give the first two, so that members of all three can share a
group whoever leads it. An assignor of one's own derives from `Assignor`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tailrace.protocol.topic_partition import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""What each member reads, by member id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """What a member told the group."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    """Of which generation what it owns is."""
    user_data: bytes | None = None
    group_instance_id: str | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class AssignmentInput:
    """What an assignor decides by: the partition counts of topics that exist, and the members by their ids."""

    partition_counts: Mapping[str, int]
    members: Mapping[str, MemberSubscription] = field(default_factory=dict[str, MemberSubscription])

    def members_of(self, topic: str) -> list[str]:
        """Give the members that subscribe to a topic, static ones by their names first."""
        return sorted(
            (member_id for member_id, member in self.members.items() if topic in member.topics), key=self.order
        )

    def order(self, member_id: str) -> tuple[bool, str]:
        """Say where a member stands among the others."""
        instance_id = self.members[member_id].group_instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    def topics(self) -> list[str]:
        """Give the topics that somebody subscribes to and that exist."""
        wanted = {topic for member in self.members.values() for topic in member.topics}
        return sorted(topic for topic in wanted if self.partition_counts.get(topic, 0) > 0)


class Assignor:
    """An assignor under its name; members of a group agree on one by name."""

    name: str = ""
    is_cooperative: bool = False
    """Whether members go on reading what stays theirs while the group rebalances."""

    def assign(self, given: AssignmentInput) -> Assignment:
        """Give every member its partitions; the leader calls this."""
        raise TypeError(f"{type(self).__name__} has no assign")

    def user_data(self, owned: Sequence[TopicPartition]) -> bytes | None:
        """Give what the member adds to its subscription for the leader's assignor."""
        return None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        """Take notice of what this member has to read."""


class RangeAssignor(Assignor):
    """Topic by topic: of n partitions and m members each gets n/m neighbouring ones, the first ones one more."""

    name = "range"

    def assign(self, given: AssignmentInput) -> Assignment:
        """Give every member its partitions."""
        assignment: Assignment = {member_id: [] for member_id in given.members}
        for topic in given.topics():
            members = given.members_of(topic)
            each, more = divmod(given.partition_counts[topic], len(members))
            first = 0
            for index, member_id in enumerate(members):
                last = first + each + (index < more)
                assignment[member_id] += [TopicPartition(topic, number) for number in range(first, last)]
                first = last
        return assignment


class RoundRobinAssignor(Assignor):
    """All partitions of all topics, one to each member in turn, past those that do not subscribe to the topic."""

    name = "roundrobin"

    def assign(self, given: AssignmentInput) -> Assignment:
        """Give every member its partitions."""
        assignment: Assignment = {member_id: [] for member_id in given.members}
        members = sorted(given.members, key=given.order)
        turn = 0
        for topic in given.topics():
            for number in range(given.partition_counts[topic]):
                while topic not in given.members[members[turn % len(members)]].topics:
                    turn += 1
                assignment[members[turn % len(members)]].append(TopicPartition(topic, number))
                turn += 1
        return assignment


def owned_before(given: AssignmentInput) -> dict[TopicPartition, str]:
    """Say who reads what now: of several that claim a partition the one of the latest generation, or nobody."""
    claims: dict[TopicPartition, list[tuple[int, str]]] = defaultdict(list)
    for member_id, member in given.members.items():
        for key in member.owned:
            if key.topic in member.topics and key.partition < given.partition_counts.get(key.topic, 0):
                claims[key].append((member.generation_id, member_id))
    owners: dict[TopicPartition, str] = {}
    for key, claimants in claims.items():
        latest = max(generation for generation, _ in claimants)
        holders = [member_id for generation, member_id in claimants if generation == latest]
        if len(holders) == 1:
            owners[key] = holders[0]
    return owners
