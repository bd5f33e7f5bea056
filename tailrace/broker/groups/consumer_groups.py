"""The consumer groups of one partition of `__consumer_offsets`: which group a heartbeat is for, and whose a record is.

A group comes into being with its first member, takes the place of a classic group that has none, and ends with its
tombstone. `GroupShard` holds the groups of both protocols by their ids; this is its part for KIP-848.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tailrace.broker.groups.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer_member import JOINING_EPOCH
from tailrace.broker.groups.consumer_replay import CONSUMER_RECORD_TYPES, ends_group, group_of
from tailrace.broker.groups.consumer_requests import Heartbeat
from tailrace.broker.groups.consumer_services import ConsumerServices
from tailrace.broker.groups.hosted_consumer import HeartbeatReply, HostedConsumerGroup, TopicFilter
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError

if TYPE_CHECKING:  # the shard has this as its part
    from tailrace.broker.groups.group_shard import GroupShard


class ConsumerGroups:
    """See the module's docstring."""

    def __init__(self, shard: GroupShard, services: ConsumerServices) -> None:
        self._shard = shard
        self._services = services

    def heartbeat(self, event: Heartbeat, *, visible: TopicFilter, reply: HeartbeatReply) -> None:
        """ConsumerGroupHeartbeat, for the group it names."""
        group = self._group_for(event)
        group.heartbeat(event, visible=visible, reply=reply)

    def _group_for(self, event: Heartbeat) -> HostedConsumerGroup:
        group_id = event.request.group_id
        found = self._shard.groups.get(group_id)
        if isinstance(found, HostedConsumerGroup):
            return found
        if event.request.member_epoch != JOINING_EPOCH:
            what = f"Group {group_id} is not a consumer group." if found else f"Consumer group {group_id} not found."
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, what)
        return self._new(group_id)

    def group(self, group_id: str) -> HostedConsumerGroup:
        """Find a group of this protocol; GROUP_ID_NOT_FOUND where there is none."""
        found = self._shard.groups.get(group_id)
        if isinstance(found, HostedConsumerGroup):
            return found
        what = f"Group {group_id} not found." if found is None else f"Group {group_id} is not a consumer group."
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, what)

    def _new(self, group_id: str) -> HostedConsumerGroup:
        return HostedConsumerGroup(ConsumerGroup(group_id), log=self._shard.log, services=self._services, holder=self)

    def topics_changed(self, names: Collection[str]) -> None:
        """Let the groups that are subscribed to one of these look at their topics again."""
        for group in self._shard.groups.values():
            if isinstance(group, HostedConsumerGroup):
                group.topics_changed(names)

    # Records

    def replay(self, record: CoordinatorRecord) -> None:
        """Take in a record of the log."""
        group_id = group_of(record)
        found = self._shard.groups.get(group_id)
        if ends_group(record):
            if isinstance(found, HostedConsumerGroup):
                self._shard.remove_group(group_id)
            return
        if not isinstance(found, HostedConsumerGroup):
            if record.value is None:
                return
            found = self._new(group_id)
            self._shard.replace_group(found)
        found.replay((record,))

    def replay_written(self, group: HostedConsumerGroup, records: Sequence[CoordinatorRecord]) -> None:
        """Take in what a group has just written: from now on it is the one of its name."""
        if records and records[-1].key.record_type in CONSUMER_RECORD_TYPES:
            self._shard.replace_group(group)
        for record in records:
            self._shard.replay(record, offset=-1, producer_id=-1)
