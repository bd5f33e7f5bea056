"""Members go: they left, were silent, or a static member's new incarnation took their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tailrace.broker.groups.consumer_decision import JOIN, REBALANCE, SESSION, SYNC, Decision, Surroundings, timer_name
from tailrace.broker.groups.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer_member import ConsumerMember
from tailrace.broker.groups.consumer_records import (
    current_record,
    group_epoch_record,
    member_record,
    member_tombstones,
    regex_tombstone,
    target_record,
)
from tailrace.broker.groups.effects import CancelTimer
from tailrace.broker.groups.group_conversion import downgrade, may_downgrade


def remove_members(
    group: ConsumerGroup, gone: Sequence[ConsumerMember], surroundings: Surroundings, decision: Decision[Any]
) -> None:
    """Take members out: their records, the patterns that nobody else wants, and a new group epoch for the others.

    Where only members of the classic protocol are left, the group becomes a classic one instead.
    """
    gone_ids = {member.member_id for member in gone}
    if may_downgrade(group, gone_ids, len(group.members) - len(gone_ids), surroundings):
        decision.downgrade, records = downgrade(group, gone_ids, surroundings)
        decision.records += records
        return
    for member in gone:
        decision.records += member_tombstones(group.group_id, member.member_id)
        cancel_timers(member.member_id, decision)
    rest = [member for member in group.members.values() if member.member_id not in gone_ids]
    wanted = {member.subscribed_topic_regex for member in rest}
    unwanted = [
        regex
        for regex in dict.fromkeys(member.subscribed_topic_regex for member in gone)
        if regex and regex not in wanted
    ]
    decision.records += [regex_tombstone(group.group_id, regex) for regex in unwanted]
    topics = group.subscriptions(rest, without=unwanted).topics
    metadata_hash = surroundings.hashes.of_group(topics)
    decision.records.append(group_epoch_record(group.group_id, group.group_epoch + 1, metadata_hash))


def replace_member(
    group: ConsumerGroup, former: ConsumerMember, member: ConsumerMember, decision: Decision[Any]
) -> None:
    """Let a static member's new incarnation take over all that the former one had."""
    group_id = group.group_id
    cancel_timers(former.member_id, decision)
    decision.records += member_tombstones(group_id, former.member_id)
    decision.records += [
        member_record(group_id, member),
        target_record(group_id, member.member_id, group.targets.get(former.member_id, {})),
        current_record(group_id, member),
    ]


def cancel_timers(member_id: str, decision: Decision[Any]) -> None:
    """Forget all timers of a member."""
    decision.effects += [CancelTimer(timer_name(kind, member_id)) for kind in (SESSION, REBALANCE, JOIN, SYNC)]
