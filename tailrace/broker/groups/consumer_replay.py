"""What each record does to a consumer group: the only way in which one changes.

Records come in the order of the log, and a log may have been cut off or compacted, so a member's assignment may come
before the member, and a tombstone for what is not there. A member exists from the first record that names it until the
tombstone of its metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tailrace.broker.groups.assignors.group_spec import Assignment
from tailrace.broker.groups.consumer_group import ConsumerGroup, ResolvedRegex
from tailrace.broker.groups.consumer_member import LEAVING_EPOCH, ConsumerMember, MemberState
from tailrace.protocol.coordinator import consumer_group as records
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord

CONSUMER_RECORD_TYPES = frozenset((3, 4, 5, 6, 7, 8, 16))


def group_of(record: CoordinatorRecord) -> str:
    """Give the group that one of these records belongs to."""
    key: Any = record.key
    group_id: str = key.group_id
    return group_id


def replay(group: ConsumerGroup, record: CoordinatorRecord) -> None:
    """Take up one record. The tombstone of the group itself is for whoever holds the group: it ends here."""
    key: Any = record.key
    _REPLAY[record.key.record_type](group, key, record.value)


def replay_all(group: ConsumerGroup, batch: Iterable[CoordinatorRecord]) -> None:
    """Take up several."""
    for record in batch:
        replay(group, record)


def ends_group(record: CoordinatorRecord) -> bool:
    """Whether the record says that the group is no more."""
    return record.value is None and isinstance(record.key, records.ConsumerGroupMetadataKey)


def _replay_group(group: ConsumerGroup, key: Any, value: records.ConsumerGroupMetadataValue | None) -> None:
    if value is not None:
        group.group_epoch = value.epoch
        group.metadata_hash = value.metadata_hash


def _replay_partition_metadata(group: ConsumerGroup, key: Any, value: Any) -> None:
    group.has_partition_metadata_record = value is not None


def _replay_member(
    group: ConsumerGroup,
    key: records.ConsumerGroupMemberMetadataKey,
    value: records.ConsumerGroupMemberMetadataValue | None,
) -> None:
    former = group.members.get(key.member_id)
    if value is None:
        if former is not None:
            _forget_instance(group, former)
            _release(group, former)
            del group.members[key.member_id]
        return
    member = replace(
        former or ConsumerMember(member_id=key.member_id),
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=frozenset(value.subscribed_topic_names),
        subscribed_topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )
    if former is not None:
        _forget_instance(group, former)
    if member.instance_id is not None:
        group.static_members[member.instance_id] = member.member_id
    group.members[member.member_id] = member


def _replay_current(
    group: ConsumerGroup,
    key: records.ConsumerGroupCurrentMemberAssignmentKey,
    value: records.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    former = group.members.get(key.member_id)
    if value is None:
        if former is None:
            return
        member = replace(
            former,
            member_epoch=LEAVING_EPOCH,
            previous_member_epoch=LEAVING_EPOCH,
            state=MemberState.STABLE,
            assigned={},
            pending_revocation={},
        )
    else:
        member = replace(
            former or ConsumerMember(member_id=key.member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState.from_record(value.state),
            assigned=assignment_from(value.assigned_partitions),
            pending_revocation=assignment_from(value.partitions_pending_revocation),
        )
    if former is not None:
        _release(group, former)
    group.members[member.member_id] = member
    _hold(group, member)


def _replay_target(
    group: ConsumerGroup,
    key: records.ConsumerGroupTargetAssignmentMemberKey,
    value: records.ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = assignment_from(value.topic_partitions)


def _replay_assignment_epoch(
    group: ConsumerGroup, key: Any, value: records.ConsumerGroupTargetAssignmentMetadataValue | None
) -> None:
    group.assignment_epoch = LEAVING_EPOCH if value is None else value.assignment_epoch


def _replay_regex(
    group: ConsumerGroup,
    key: records.ConsumerGroupRegularExpressionKey,
    value: records.ConsumerGroupRegularExpressionValue | None,
) -> None:
    if value is None:
        group.resolved_regexes.pop(key.regular_expression, None)
    else:
        group.resolved_regexes[key.regular_expression] = ResolvedRegex(
            frozenset(value.topics), value.version, value.timestamp
        )


def assignment_from(
    listed: Iterable[records.TopicPartition] | Iterable[records.TopicPartitions],
) -> Assignment:
    """Read an assignment as records have it."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in listed if topic.partitions}


def _hold(group: ConsumerGroup, member: ConsumerMember) -> None:
    for held in (member.assigned, member.pending_revocation):
        for topic_id, partitions in held.items():
            for partition in partitions:
                group.partition_epochs[topic_id, partition] = member.member_epoch


def _release(group: ConsumerGroup, member: ConsumerMember) -> None:
    """Let a member's partitions go, but for those that another one holds since: a compacted log may have it so."""
    for held in (member.assigned, member.pending_revocation):
        for topic_id, partitions in held.items():
            for partition in partitions:
                if group.partition_epochs.get((topic_id, partition)) == member.member_epoch:
                    del group.partition_epochs[topic_id, partition]


def _forget_instance(group: ConsumerGroup, member: ConsumerMember) -> None:
    if member.instance_id is not None and group.static_members.get(member.instance_id) == member.member_id:
        del group.static_members[member.instance_id]


_REPLAY: dict[int, Callable[[ConsumerGroup, Any, Any], None]] = {
    3: _replay_group,
    4: _replay_partition_metadata,
    5: _replay_member,
    6: _replay_assignment_epoch,
    7: _replay_target,
    8: _replay_current,
    16: _replay_regex,
}
