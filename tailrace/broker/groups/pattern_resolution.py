"""The topics that members' patterns match came to be known: write them down, and let the group follow."""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.broker.groups.consumer_decision import Decision, Surroundings
from tailrace.broker.groups.consumer_group import ConsumerGroup, ResolvedRegex
from tailrace.broker.groups.consumer_records import group_epoch_record, regex_record


def resolved(
    group: ConsumerGroup, matched: Mapping[str, frozenset[str]], *, version: int, surroundings: Surroundings
) -> Decision[None]:
    """Patterns were matched with the topics of `version`; those that nobody wants any more are passed over."""
    decision = Decision[None]()
    wanted = {member.subscribed_topic_regex for member in group.members.values()}
    after = dict(group.resolved_regexes)
    epoch_rises = False
    for regex, topics in sorted(matched.items()):
        if regex not in wanted:
            continue
        known = group.resolved_regexes.get(regex)
        epoch_rises = epoch_rises or topics != (frozenset() if known is None else known.topics)
        after[regex] = ResolvedRegex(topics, version, surroundings.now_ms)
        decision.records.append(regex_record(group.group_id, regex, after[regex]))
    named = (member.subscribed_topic_names for member in group.members.values())
    topics = frozenset[str]().union(*named, *(regex.topics for regex in after.values()))
    metadata_hash = surroundings.hashes.of_group(topics)
    if epoch_rises or metadata_hash != group.metadata_hash:
        decision.seen_epoch = group.group_epoch + 1
        decision.records.append(group_epoch_record(group.group_id, decision.seen_epoch, metadata_hash))
    return decision
