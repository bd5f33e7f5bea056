"""A group of the consumer protocol (KIP-848): its epochs, its members, and the assignment that they move towards.

    Empty ──join──► Assigning ──target computed──► Reconciling ──everybody is there──► Stable
      ▲                 ▲                              │                                │
      └─ nobody left ───┴────── the group epoch rises: members, subscriptions or topics changed

A group is what its records say: only `consumer_replay` changes it, when it loads and after each decision alike. What
is not in the records (when its topics are looked at again) is in `refresh_at_ms` and `refresh_epoch`. Decisions are
made in `consumer_requests` and beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tailrace.broker.groups.assignors.group_spec import Assignment
from tailrace.broker.groups.consumer_member import ConsumerMember

NO_EPOCH = -1
"""The epoch of a partition that nobody holds."""


class ConsumerGroupState(StrEnum):
    """The states, named as ConsumerGroupDescribe and ListGroups name them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a pattern matched, the version of the topics it was matched against, and when."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """What the members of a group want, taken together.

    `regex_counts` has how many members want each pattern, `name_counts` how many name each topic, and `topics` all
    topics that are named or matched.
    """

    member_count: int
    regex_counts: Mapping[str, int]
    name_counts: Mapping[str, int]
    topics: frozenset[str]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members want the same: the same names, and the same one pattern or none."""
        counts = list(self.regex_counts.values())
        if len(counts) > 1 or any(count != self.member_count for count in counts):
            return False
        return all(count == self.member_count for count in self.name_counts.values())


@dataclass(slots=True)
class ConsumerGroup:
    """See the module's docstring."""

    group_id: str
    group_epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict[str, ConsumerMember])
    targets: dict[str, Assignment] = field(default_factory=dict[str, Assignment])
    resolved_regexes: dict[str, ResolvedRegex] = field(default_factory=dict[str, ResolvedRegex])
    static_members: dict[str, str] = field(default_factory=dict[str, str])
    partition_epochs: dict[tuple[bytes, int], int] = field(default_factory=dict[tuple[bytes, int], int])
    has_partition_metadata_record: bool = False
    refresh_at_ms: int = 0
    refresh_epoch: int = 0

    @property
    def state(self) -> ConsumerGroupState:
        """The state that members and epochs make up."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if any(not member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    @property
    def assignor_name(self) -> str | None:
        """The assignor that most members ask for; None where nobody asks."""
        return preferred_assignor(self.members.values())

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Find the member that has an instance id."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def target_of(self, member: ConsumerMember) -> Assignment:
        """Give a member's target; a static member that comes back finds that of its former id."""
        if member.instance_id is not None:
            return self.targets.get(self.static_members.get(member.instance_id, ""), {})
        return self.targets.get(member.member_id, {})

    def partition_epoch(self, topic_id: bytes, partition: int) -> int:
        """Give the epoch of the member that holds a partition, or NO_EPOCH."""
        return self.partition_epochs.get((topic_id, partition), NO_EPOCH)

    def has_stale_metadata(self, now_ms: int) -> bool:
        """Whether the topics have to be looked at again."""
        return now_ms >= self.refresh_at_ms or self.group_epoch < self.refresh_epoch

    def request_refresh(self) -> None:
        """Let the next heartbeat look at the topics."""
        self.refresh_at_ms = 0
        self.refresh_epoch = 0

    def regex_subscribers(self, regex: str) -> int:
        """Count the members that want a pattern."""
        return sum(member.subscribed_topic_regex == regex for member in self.members.values())

    def members_with(self, member: ConsumerMember) -> dict[str, ConsumerMember]:
        """Give the members as they are with this one in: it replaces who has its id, or its instance id."""
        others = self.members
        former_id = self.static_members.get(member.instance_id or "") if member.is_static else None
        if former_id is not None and former_id != member.member_id:
            others = {key: value for key, value in others.items() if key != former_id}
        return {**others, member.member_id: member}

    def subscriptions(self, members: Iterable[ConsumerMember], *, without: Iterable[str] = ()) -> Subscriptions:
        """Add up what members want; patterns in `without` count as not resolved."""
        regex_counts: dict[str, int] = {}
        name_counts: dict[str, int] = {}
        member_count = 0
        for member in members:
            member_count += 1
            for name in member.subscribed_topic_names:
                name_counts[name] = name_counts.get(name, 0) + 1
            if member.subscribed_topic_regex:
                regex = member.subscribed_topic_regex
                regex_counts[regex] = regex_counts.get(regex, 0) + 1
        excluded = set(without)
        matched = (resolved.topics for regex, resolved in self.resolved_regexes.items() if regex not in excluded)
        topics = frozenset(name_counts).union(*matched)
        return Subscriptions(member_count, regex_counts, name_counts, topics)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Give the topics that a member names, and those that its pattern matched."""
        resolved = self.resolved_regexes.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
        if resolved is None:
            return member.subscribed_topic_names
        return member.subscribed_topic_names | resolved.topics

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether somebody wants a topic."""
        return any(topic in member.subscribed_topic_names for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.resolved_regexes.values()
        )

    # The classic protocol's members (online upgrade and downgrade)

    def classic_members(self) -> Iterator[ConsumerMember]:
        """Give the members of the classic protocol."""
        return (member for member in self.members.values() if member.uses_classic_protocol)

    def supports_classic(self, protocol_type: str, protocols: frozenset[str]) -> bool:
        """Whether a classic member with these protocols may be in the group with the classic members that are."""
        if protocol_type != "consumer":
            return False
        if not self.members:
            return bool(protocols)
        supported = [member.classic_protocol_names for member in self.classic_members()]
        return bool(protocols.intersection(*supported)) if supported else bool(protocols)


def preferred_assignor(members: Iterable[ConsumerMember]) -> str | None:
    """Count the votes of members that name an assignor. Kafka leaves ties to chance; here the name decides."""
    votes: dict[str, int] = {}
    for member in members:
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return max(votes, key=lambda name: (votes[name], name)) if votes else None
