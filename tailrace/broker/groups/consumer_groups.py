"""The consumer groups of one partition of `__consumer_offsets`: which group a heartbeat is for, and whose a record is.

A group comes into being with its first member, takes the place of a classic group that has none, and ends with its
tombstone. `GroupShard` holds the groups of both protocols by their ids; this is its part for KIP-848.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from tailrace.broker.groups.consumer_decision import Decision
from tailrace.broker.groups.consumer_group import ConsumerGroup
from tailrace.broker.groups.consumer_member import JOINING_EPOCH
from tailrace.broker.groups.consumer_replay import ends_group, group_of
from tailrace.broker.groups.consumer_requests import Heartbeat
from tailrace.broker.groups.consumer_services import ConsumerServices
from tailrace.broker.groups.group_conversion import upgrade
from tailrace.broker.groups.hosted_classic import HostedClassicGroup
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
        group, records = self._group_for(event)
        group.heartbeat(event, visible=visible, reply=reply, records_before=records)

    def _group_for(self, event: Heartbeat) -> tuple[HostedConsumerGroup, list[CoordinatorRecord]]:
        """Find the group, or make one; the records are what has to be written first."""
        group_id = event.request.group_id
        found = self._shard.groups.get(group_id)
        if isinstance(found, HostedConsumerGroup):
            return found, []
        if event.request.member_epoch < JOINING_EPOCH:
            return self.group(group_id), []
        if event.request.member_epoch > JOINING_EPOCH:
            what = f"Consumer group {group_id} not found." if found is None else not_a_consumer_group(group_id)
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, what)
        if found is None:
            return self._host(ConsumerGroup(group_id)), []
        if found.is_empty or not isinstance(found, HostedClassicGroup):
            return self._host(ConsumerGroup(group_id)), found.tombstones()
        made = upgrade(found.group, self._services.surroundings(group_id))
        return self._host(made.group), made.records

    def group(self, group_id: str) -> HostedConsumerGroup:
        """Find a group of this protocol; GROUP_ID_NOT_FOUND where there is none."""
        found = self._shard.groups.get(group_id)
        if isinstance(found, HostedConsumerGroup):
            return found
        what = f"Group {group_id} not found." if found is None else not_a_consumer_group(group_id)
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, what)

    def _host(self, group: ConsumerGroup) -> HostedConsumerGroup:
        return HostedConsumerGroup(group, log=self._shard.log, services=self._services, holder=self)

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
            found = self._host(ConsumerGroup(group_id))
            self._shard.replace_group(found)
        found.replay((record,))

    def replay_written(self, group: HostedConsumerGroup, decision: Decision[Any]) -> None:
        """Take in what a group has just written: from now on it is the one of its name, or the one it became."""
        former = self._shard.groups.get(group.group_id)
        if isinstance(former, HostedClassicGroup):
            former.supersede()
        if decision.downgrade is not None:
            group.discard()
            classic = self._shard.host_classic(decision.downgrade.group)
            self._shard.replace_group(classic)
            classic.activate()
            if decision.downgrade.rebalances:
                classic.rebalance()
            return
        self._shard.replace_group(group)
        for record in decision.records:
            self._shard.replay(record, offset=-1, producer_id=-1)
        if isinstance(former, HostedClassicGroup):
            group.activate()


def not_a_consumer_group(group_id: str) -> str:
    """Say so, in Kafka's words."""
    return f"Group {group_id} is not a consumer group."
