"""A member joins or changes: the group's epoch, its targets, and the member's own next step follow from it.

`MemberChange` takes these steps one after the other and gathers the records. It is the same for members of both
protocols; `consumer_requests` and `mixed_requests` put their questions before and their answers behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from tailrace.broker.groups.assignors.group_spec import Assignment, GroupSpec, MemberSpec
from tailrace.broker.groups.consumer_decision import REBALANCE, Decision, Surroundings, timer_name
from tailrace.broker.groups.consumer_group import ConsumerGroup, Subscriptions, preferred_assignor
from tailrace.broker.groups.consumer_member import ConsumerMember, MemberState
from tailrace.broker.groups.consumer_reconciliation import reconcile
from tailrace.broker.groups.consumer_records import (
    assignment_epoch_record,
    current_record,
    group_epoch_record,
    member_record,
    partition_metadata_tombstone,
    regex_tombstone,
    target_record,
)
from tailrace.broker.groups.effects import CancelTimer, SetTimer
from tailrace.broker.groups.topic_regex import compile_pattern

R = TypeVar("R")

REGEX_REFRESH_INTERVAL_MIN_MS = 10_000
"""Patterns of one group are not matched with the topics more often than this."""


class MemberChange(Generic[R]):
    """`former` is the member as it was (a new one: without subscription), `member` as it is by the request."""

    def __init__(
        self,
        group: ConsumerGroup,
        former: ConsumerMember,
        member: ConsumerMember,
        surroundings: Surroundings,
        decision: Decision[R],
    ) -> None:
        self.group = group
        self.former = former
        self.member = member
        self.group_epoch = group.group_epoch
        self.target_epoch = group.assignment_epoch
        self._around = surroundings
        self._decision = decision
        self._members: dict[str, ConsumerMember] | None = None
        self._subscriptions: Subscriptions | None = None
        self._unwanted: list[str] = []

    # Subscriptions

    def update_subscription(self) -> bool:
        """Write the member where it changed; True where its subscription did, so that the epoch has to rise."""
        if self.member == self.former:
            return False
        self._decision.records.append(member_record(self.group.group_id, self.member))
        return self.member.subscribed_topic_names != self.former.subscribed_topic_names

    def update_patterns(self) -> bool:
        """Let a new pattern be matched, and a forgotten one go; True where the group's epoch has to rise."""
        group, former, new = self.group, self.former.subscribed_topic_regex, self.member.subscribed_topic_regex
        must_resolve = False
        epoch_rises = False
        if former != new:
            if former and group.regex_subscribers(former) == 1:
                self._unwanted.append(former)
                self._decision.records.append(regex_tombstone(group.group_id, former))
            if new and group.regex_subscribers(new) == 0:
                compile_pattern(new)
                must_resolve = True
            elif new:
                epoch_rises = new in group.resolved_regexes
        if must_resolve or any(member.subscribed_topic_regex for member in group.members.values()):
            self._refresh_patterns(must_resolve=must_resolve)
        return epoch_rises

    def _refresh_patterns(self, *, must_resolve: bool) -> None:
        group, around = self.group, self._around
        resolved = group.resolved_regexes.values()
        refreshed_at_ms = max((regex.timestamp_ms for regex in resolved), default=-(2**63))
        if around.is_resolving or around.now_ms <= refreshed_at_ms + REGEX_REFRESH_INTERVAL_MIN_MS:
            return
        patterns = frozenset(self._subscribed().regex_counts)
        version = max((regex.version for regex in resolved), default=0)
        is_due = around.now_ms > refreshed_at_ms + around.rules.regex_refresh_interval_ms
        is_behind = len(patterns) != len(group.resolved_regexes) or version < around.new_topics_version
        if patterns and (must_resolve or is_behind or is_due):
            self._decision.patterns = patterns

    # Group epoch

    def update_group_epoch(self, *, rises: bool) -> None:
        """Look at the topics that the group wants, and let its epoch rise where they or its members changed."""
        group = self.group
        rises = rises or group.group_epoch == 0
        if not rises and not group.has_stale_metadata(self._around.now_ms):
            return
        metadata_hash = self._around.hashes.of_group(self._subscribed().topics)
        if rises or metadata_hash != group.metadata_hash:
            self.group_epoch += 1
            self._decision.records.append(group_epoch_record(group.group_id, self.group_epoch, metadata_hash))
        if group.has_partition_metadata_record:
            self._decision.records.append(partition_metadata_tombstone(group.group_id))
        self._decision.seen_epoch = self.group_epoch

    # Target

    def update_target(self) -> Assignment:
        """Assign anew where the group's epoch is ahead of its targets; give the member's target."""
        group = self.group
        if self.group_epoch <= group.assignment_epoch:
            return group.target_of(self.member)
        members = self._members_after()
        name = preferred_assignor(members.values()) or self._around.rules.default_assignor
        assignor = (
            self._around.rules.assignors.get(name) or self._around.rules.assignors[self._around.rules.default_assignor]
        )
        assigned = assignor(self._spec(members))
        for member_id in members:
            target = assigned.get(member_id, {})
            if group.targets.get(member_id) != target:
                self._decision.records.append(target_record(group.group_id, member_id, target))
        self._decision.records.append(assignment_epoch_record(group.group_id, self.group_epoch))
        self.target_epoch = self.group_epoch
        return assigned.get(self.member.member_id, {})

    def _spec(self, members: Mapping[str, ConsumerMember]) -> GroupSpec:
        group, cluster = self.group, self._around.cluster
        specs: dict[str, MemberSpec] = {}
        counts: dict[bytes, int] = {}
        for member_id, member in members.items():
            topics = [topic for name in group.topics_of(member) if (topic := cluster.topic(name)) is not None]
            counts.update((topic.topic_id, len(topic.partitions)) for topic in topics)
            target = group.target_of(member) if member is self.member else group.targets.get(member_id, {})
            specs[member_id] = MemberSpec(frozenset(topic.topic_id for topic in topics), target, member.instance_id)
        return GroupSpec(specs, counts, self._subscribed().is_homogeneous)

    # The member's own step

    def reconcile_member(self, target: Assignment, owned: Assignment | None) -> ConsumerMember:
        """Let the member take its next step; give it as it is then."""
        before = self.member
        if before.is_reconciled_to(self.target_epoch):
            return before
        after = reconcile(
            before,
            target=target,
            target_epoch=self.target_epoch,
            partition_epoch=self.group.partition_epoch,
            owned=owned,
        )
        if after != before:
            self._decision.records.append(current_record(self.group.group_id, after))
            if not after.uses_classic_protocol:
                name = timer_name(REBALANCE, after.member_id)
                is_revoking = after.state is MemberState.UNREVOKED_PARTITIONS
                timer = SetTimer(name, after.rebalance_timeout_ms) if is_revoking else CancelTimer(name)
                self._decision.effects.append(timer)
        return after

    def _members_after(self) -> dict[str, ConsumerMember]:
        if self._members is None:
            self._members = self.group.members_with(self.member)
        return self._members

    def _subscribed(self) -> Subscriptions:
        if self._subscriptions is None:
            self._subscriptions = self.group.subscriptions(self._members_after().values(), without=self._unwanted)
        return self._subscriptions
