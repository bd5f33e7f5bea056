"""A consumer group as ConsumerGroupDescribe shows it."""

from __future__ import annotations

from tailrace.broker.groups.assignors.group_spec import Assignment
from tailrace.broker.groups.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer_member import ConsumerMember
from tailrace.broker.groups.metadata_hash import ClusterTopics
from tailrace.protocol.messages import consumer_group_describe as messages

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def describe(group: ConsumerGroup, *, assignor_name: str, cluster: ClusterTopics) -> messages.DescribedGroup:
    """Describe a group; topics that are no more are left out of assignments."""
    return messages.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor_name,
        members=[
            _describe_member(member, group.targets.get(member.member_id, {}), cluster)
            for member in group.members.values()
        ],
    )


def _describe_member(member: ConsumerMember, target: Assignment, cluster: ClusterTopics) -> messages.Member:
    return messages.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_describe_assignment(member.assigned, cluster),
        target_assignment=_describe_assignment(target, cluster),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _describe_assignment(assignment: Assignment, cluster: ClusterTopics) -> messages.Assignment:
    return messages.Assignment(
        topic_partitions=[
            messages.TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(assignment[topic_id]))
            for topic_id in sorted(assignment)
            if (topic := cluster.topic_by_id(topic_id)) is not None
        ]
    )
