"""A member of a group of the consumer protocol: heartbeats bring the assignment that the coordinator made (KIP-848).

What answers mean is `server_membership`'s. Partitions are given up and taken inside of the consumer's poll; a task
sends the heartbeats. Where the consumer does not poll for max.poll.interval.ms, the member leaves, and joins again
when it polls.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from typing import Final

from tailrace.client.cluster import Cluster
from tailrace.client.consumer_group_member import PartitionOwner
from tailrace.client.errors import ClientError, FatalError, UnsupportedVersion, broker_error
from tailrace.client.group_coordinator import GroupCoordinator
from tailrace.client.group_metadata import ConsumerGroupMetadata
from tailrace.client.heartbeats import Heartbeats
from tailrace.client.server_membership import IdPartition, ServerMembership, ServerMemberState, Wishes
from tailrace.client.subscribed_topics import SubscribedTopics
from tailrace.client.subscription_state import SubscriptionKind
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import random_uuid
from tailrace.settings.client_config import ConsumerConfig

_log = logging.getLogger("tailrace.client")

_INTERVAL_MS_DEFAULT: Final = 3_000
"""Until the coordinator has said how often it wants to hear from its members."""
_LEAVE_TIMEOUT_MS: Final = 5_000
_FATAL: Final = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID})


class ServerGroup:
    """One consumer's membership; implements GroupMember."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        coordinator: GroupCoordinator,
        topics: SubscribedTopics,
        owner: PartitionOwner,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._coordinator = coordinator
        self._topics = topics
        self._owner = owner
        self._changed = changed
        member_id = base64.urlsafe_b64encode(random_uuid()).rstrip(b"=").decode()
        self._membership = ServerMembership(coordinator.group_id, member_id, config.group_instance_id)
        self._heartbeats = Heartbeats(cluster.clock, self._beat)
        self._polled_at = cluster.clock.monotonic()
        self._failure: Exception | None = None
        self._ids: dict[TopicPartition, IdPartition] = {}
        self._looked_at = float("-inf")

    def metadata(self) -> ConsumerGroupMetadata:
        """Say who this is to the coordinator."""
        member = self._membership
        if not member.is_member:
            return ConsumerGroupMetadata(member.group_id)
        return ConsumerGroupMetadata(member.group_id, member.epoch, member.member_id, member.instance_id)

    async def poll(self) -> None:
        """Do what is due; raise what went wrong."""
        self._polled_at = self._cluster.clock.monotonic()
        member = self._membership
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if member.failure is not None:
            raise self._fatal(member.failure)
        if self._heartbeats.failure is not None:
            raise self._heartbeats.failure
        if member.is_lost:
            member.is_lost = False
            await self._owner.lose(self._owner.owned)
        await self._topics.refresh()
        if member.state is ServerMemberState.UNJOINED and self._topics.are_known:
            member.begin()
            self._heartbeats.start()
            self._heartbeats.hurry()
        elif member.state is ServerMemberState.RECONCILING:
            await self._reconcile()
        if member.has_news(self._wishes()) and member.state is not ServerMemberState.JOINING:
            self._heartbeats.hurry()

    def subscription_changed(self) -> None:
        """Take notice that other topics are wanted: the next heartbeat tells, and is sent at once."""
        self._heartbeats.hurry()

    def commit_refused(self, code: int) -> None:
        """Take notice that the coordinator does not know this member any more."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID and self._membership.is_member:
            self._membership.lose()
            self._changed()

    async def leave(self, reason: str) -> None:
        """Give up all partitions, and leave the group; a static member says that it comes back."""
        await self._heartbeats.stop()
        if self._membership.is_lost:
            self._membership.is_lost = False
            await self._owner.lose(self._owner.owned)
        else:
            await self._owner.revoke(self._owner.owned)
        await self._send_leave(reason)
        self._membership.left()

    async def close(self) -> None:
        """End what runs in the background."""
        await self._heartbeats.stop()

    async def _reconcile(self) -> None:
        """Give up what others shall have, then take what is there, and have the coordinator told."""
        member = self._membership
        target = member.target or frozenset()
        named = self._named(target)
        owned = self._owner.owned
        wanted = set(named.values())
        await self._owner.revoke([key for key in owned if key not in wanted])
        if member.is_lost:
            return
        self._ids = {key: entry for entry, key in named.items()}
        added = sorted(wanted - set(owned))
        if added:
            await self._owner.add(added)
        if len(named) == len(target) or added or len(self._owner.owned) != len(member.owned):
            member.reconciled(self._ids[key] for key in self._owner.owned if key in self._ids)
        if len(named) < len(target) and member.state is not ServerMemberState.FAILED:
            # Topics that are not known yet: what is known is read meanwhile.
            member.target, member.state = target, ServerMemberState.RECONCILING
            self._look_for_topics()

    def _named(self, partitions: frozenset[IdPartition]) -> dict[IdPartition, TopicPartition]:
        """Give those partitions whose topics are known, by name."""
        names = {topic.topic_id: name for name, topic in self._cluster.known.topics.items()}
        names |= {entry[0]: key.topic for key, entry in self._ids.items()}
        return {entry: TopicPartition(names[entry[0]], entry[1]) for entry in partitions if entry[0] in names}

    def _look_for_topics(self) -> None:
        """Have the metadata asked for of what the coordinator assigned: all topics, where a pattern is its business."""
        now = self._cluster.clock.monotonic()
        if now < self._looked_at + self._config.retry_backoff_ms / 1000:
            return
        self._looked_at = now
        self._topics.look_for(everything=self._owner.subscription.kind is SubscriptionKind.SERVER_PATTERN)

    def _wishes(self) -> Wishes:
        subscription = self._owner.subscription
        pattern = subscription.server_pattern
        return Wishes(
            topics=tuple(sorted(subscription.topics)) if pattern is None else None,
            pattern=pattern,
            assignor=self._config.group_remote_assignor,
            rack_id=self._config.client_rack or None,
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
        )

    async def _beat(self) -> float:
        """Send a heartbeat where the member is one, or wants to be; give the time until the next."""
        config, member = self._config, self._membership
        interval_ms = member.heartbeat_interval_ms or _INTERVAL_MS_DEFAULT
        if not member.is_member:
            return interval_ms
        if (self._cluster.clock.monotonic() - self._polled_at) * 1000 >= config.max_poll_interval_ms:
            interval = f"max.poll.interval.ms={config.max_poll_interval_ms}"
            _log.warning("%s: no poll for %s: leaving the group", self._cluster.client_id, interval)
            await self._send_leave(f"no poll for {interval}")
            member.lose()
            return interval_ms
        epoch = member.epoch
        try:
            connection = await self._coordinator.connection()
            request = member.request(self._wishes())
            if request.subscribed_topic_regex and connection.version_for(type(request)) < 1:
                raise UnsupportedVersion(f"{connection.address} does not evaluate patterns")
            response = await self._coordinator.request(request, ConsumerGroupHeartbeatResponse)
        except UnsupportedVersion as error:
            self._failure = error
            member.left()
            self._changed()
            return interval_ms
        except (ApiError, ClientError) as error:
            _log.info("%s: a heartbeat failed: %s", self._cluster.client_id, error)
            member.unanswered()
            return config.retry_backoff_ms
        self._coordinator.heed(response.error_code)
        member.answered(response, epoch=epoch)
        if response.error_code or member.state is ServerMemberState.RECONCILING:
            self._changed()
        return config.retry_backoff_ms if response.error_code else member.heartbeat_interval_ms

    async def _send_leave(self, reason: str) -> None:
        member = self._membership
        if not member.is_member or member.epoch == 0 or not self._coordinator.is_known:
            return
        _log.debug("%s: leaving group %s: %s", self._cluster.client_id, member.group_id, reason)
        try:
            request = member.leave_request()
            await self._coordinator.request(request, ConsumerGroupHeartbeatResponse, timeout_ms=_LEAVE_TIMEOUT_MS)
        except (ApiError, ClientError) as error:
            _log.info("%s: could not leave the group: %s", self._cluster.client_id, error)

    def _fatal(self, code: ErrorCode) -> ClientError:
        member = self._membership
        error = broker_error(code, f"group {member.group_id}: {member.failure_message}")
        if code not in _FATAL:
            # The user may mend it: a right may be granted, a member may go. The next poll tries again.
            member.failure = None
            member.lose()
            return error
        fatal = FatalError(str(error))
        fatal.__cause__ = error
        return fatal
