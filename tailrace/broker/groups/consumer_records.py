"""The records in which a consumer group (KIP-848) is written down.

Which ones a decision writes, and in which order, is Kafka's: a log that was cut off after any of them still loads.
Sets are written in order, so that the same state has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tailrace.broker.groups.assignors.group_spec import Assignment
from tailrace.broker.groups.consumer_group import ConsumerGroup, ResolvedRegex
from tailrace.broker.groups.consumer_member import ConsumerMember
from tailrace.protocol.coordinator import consumer_group as records
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Write what a member told of itself."""
    return CoordinatorRecord(
        records.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        records.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Forget a member."""
    return CoordinatorRecord(records.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Write the group's epoch, and the hash of the topics that it goes by."""
    return CoordinatorRecord(
        records.ConsumerGroupMetadataKey(group_id=group_id),
        records.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def group_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """Forget the group."""
    return CoordinatorRecord(records.ConsumerGroupMetadataKey(group_id=group_id), None)


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Forget the list of topics that Kafka 3.7 to 4.0 kept where there is a hash now."""
    return CoordinatorRecord(records.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def target_record(group_id: str, member_id: str, target: Assignment) -> CoordinatorRecord:
    """Write a member's target."""
    return CoordinatorRecord(
        records.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        records.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                records.TopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id]))
                for topic_id in sorted(target)
            ]
        ),
    )


def target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Forget a member's target."""
    return CoordinatorRecord(
        records.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
    )


def assignment_epoch_record(group_id: str, epoch: int) -> CoordinatorRecord:
    """Write the epoch that the targets belong to."""
    return CoordinatorRecord(
        records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )


def assignment_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """Forget the epoch of the targets."""
    return CoordinatorRecord(records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Write a member's epochs, its state and its partitions."""
    return CoordinatorRecord(
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned_partitions=_topic_partitions(member.assigned),
            partitions_pending_revocation=_topic_partitions(member.pending_revocation),
        ),
    )


def current_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Forget a member's epochs and partitions."""
    return CoordinatorRecord(
        records.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
    )


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Write which topics a pattern matched."""
    return CoordinatorRecord(
        records.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        records.ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        ),
    )


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Forget a pattern."""
    return CoordinatorRecord(
        records.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None
    )


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Forget all of a member, in the order that leaves no half of it behind."""
    return [
        current_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]


def group_tombstones(group: ConsumerGroup, *, renamed: Mapping[str, str] | None = None) -> Iterator[CoordinatorRecord]:
    """Forget a whole group; `renamed` are members whose records bear another id by now."""
    group_id = group.group_id
    member_ids = [(renamed or {}).get(member_id, member_id) for member_id in group.members]
    yield from (current_tombstone(group_id, member_id) for member_id in member_ids)
    yield from (target_tombstone(group_id, member_id) for member_id in member_ids)
    yield assignment_epoch_tombstone(group_id)
    yield from (member_tombstone(group_id, member_id) for member_id in member_ids)
    yield partition_metadata_tombstone(group_id)
    yield from (regex_tombstone(group_id, regex) for regex in group.resolved_regexes)
    yield group_epoch_tombstone(group_id)


def _topic_partitions(assignment: Assignment) -> list[records.TopicPartitions]:
    return [
        records.TopicPartitions(topic_id=topic_id, partitions=sorted(assignment[topic_id]))
        for topic_id in sorted(assignment)
    ]
