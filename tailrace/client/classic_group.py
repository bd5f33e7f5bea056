"""A member of a classic group: joins, syncs, assigns where it leads, and says that it lives.

What answers mean is `classic_membership`'s. Partitions are given up and taken inside of the consumer's poll; between
that a task joins and another one sends heartbeats, so a poll that has no time left loses nothing. Where the consumer
does not poll for max.poll.interval.ms, the member leaves the group, and joins again when it polls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from tailrace.client.assignors import AssignmentInput, Assignor
from tailrace.client.classic_membership import ClassicMembership, MemberState, NextStep
from tailrace.client.cluster import Cluster
from tailrace.client.consumer_group_member import PartitionOwner
from tailrace.client.consumer_protocol import (
    PROTOCOL_TYPE,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from tailrace.client.deadline import JITTER
from tailrace.client.errors import ClientError, FatalError, InvalidState, broker_error, is_retriable
from tailrace.client.group_coordinator import GroupCoordinator
from tailrace.client.group_metadata import ConsumerGroupMetadata
from tailrace.client.heartbeats import Heartbeats
from tailrace.client.subscribed_topics import SubscribedTopics
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ConsumerConfig

_log = logging.getLogger("tailrace.client")

_JOIN_MARGIN_MS: Final = 5_000
"""A coordinator answers JoinGroup after the rebalance timeout at the latest; so much longer is waited."""
_LEAVE_TIMEOUT_MS: Final = 5_000
_MEMBERS_VERSION_FIRST: Final = 3
"""From here on one LeaveGroup is for several members, with their reasons."""


class ClassicGroup:
    """One consumer's membership; implements GroupMember."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        coordinator: GroupCoordinator,
        assignors: Sequence[Assignor],
        topics: SubscribedTopics,
        owner: PartitionOwner,
        changed: Callable[[], None],
    ) -> None:
        cooperative = {assignor.is_cooperative for assignor in assignors}
        self._cluster = cluster
        self._config = config
        self._coordinator = coordinator
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._is_cooperative = cooperative == {True}
        """Members keep what they read only where all their assignors can deal with that."""
        self._topics = topics
        self._owner = owner
        self._changed = changed
        self._membership = ClassicMembership()
        self._join: asyncio.Task[None] | None = None
        self._assigned: list[TopicPartition] | None = None
        self._failure: Exception | None = None
        self._heartbeats = Heartbeats(cluster.clock, self._beat)
        self._polled_at = cluster.clock.monotonic()

    def metadata(self) -> ConsumerGroupMetadata:
        """Say who this is to the coordinator."""
        member = self._membership
        return ConsumerGroupMetadata(
            self._coordinator.group_id, member.generation_id, member.member_id, self._config.group_instance_id
        )

    async def poll(self) -> None:
        """Do what is due; raise what went wrong."""
        self._polled_at = self._cluster.clock.monotonic()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._membership.failure is not None:
            raise FatalError(f"group {self._coordinator.group_id}: {self._membership.failure.name}")
        if self._membership.is_lost:
            self._membership.is_lost = False
            await self._owner.lose(self._owner.owned)
        if self._join is not None:
            if not self._join.done():
                return
            join, self._join = self._join, None
            if (unexpected := join.exception()) is not None:
                self._membership.request_rejoin("the last attempt failed")
                raise unexpected
        if self._heartbeats.failure is not None:
            raise self._heartbeats.failure
        if self._assigned is not None:
            await self._take_assigned(self._assigned)
        if await self._topics.refresh():
            self._membership.request_rejoin("the topics or their partitions have changed")
        if self._membership.is_rejoin_due and self._topics.are_known:
            await self._give_up()
            self._membership.begin()
            self._join = asyncio.create_task(self._join_group())
            self._join.add_done_callback(lambda _: self._changed())
            self._heartbeats.start()

    def subscription_changed(self) -> None:
        """Take notice that other topics are wanted."""
        self._membership.request_rejoin("the subscription has changed")

    def commit_refused(self, code: int) -> None:
        """Take notice that the coordinator does not know this member any more."""
        self._membership.commit_refused(code, generation_id=self._membership.generation_id)
        self._changed()

    async def leave(self, reason: str) -> None:
        """Give up all partitions, and leave the group unless the member is static."""
        await self.close()
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
        if self._join is not None:
            self._join.cancel()
            await asyncio.gather(self._join, return_exceptions=True)
            self._join = None

    async def _give_up(self) -> None:
        """Give up what has to be given up before a join: everything, or what is wanted no more."""
        if not self._is_cooperative:
            await self._owner.revoke(self._owner.owned)
        else:
            wanted = self._owner.subscription.topics
            await self._owner.revoke([key for key in self._owner.owned if key.topic not in wanted])

    async def _take_assigned(self, assigned: list[TopicPartition]) -> None:
        """Take an assignment once, whatever a listener raises; a poll that is cancelled meanwhile takes it again."""
        try:
            await self._take(assigned)
        except Exception:
            self._assigned = None
            raise
        self._assigned = None

    async def _take(self, assigned: list[TopicPartition]) -> None:
        """Read what was assigned, give up what was not, and join again where something was given up."""
        wanted, owned = set(assigned), set(self._owner.owned)
        revoked = [key for key in self._owner.owned if key not in wanted]
        if revoked:
            await self._owner.revoke(revoked)
            if self._is_cooperative:
                self._membership.request_rejoin("the member has given up partitions for others")
        await self._owner.add([key for key in assigned if key not in owned])
        if self._membership.state is MemberState.STABLE:
            self._assignor().on_assignment(assigned, self._membership.generation_id)

    async def _join_group(self) -> None:
        """Join until there is an assignment or an error that stays; the consumer's next poll sees it."""
        step, pause_ms = NextStep.JOIN, float(self._config.retry_backoff_ms)
        try:
            while step in (NextStep.JOIN, NextStep.JOIN_LATER):
                if step is NextStep.JOIN_LATER:
                    await self._cluster.clock.sleep(pause_ms * self._cluster.random.uniform(1 - JITTER, 1 + JITTER))
                    pause_ms = min(pause_ms * 2, float(self._config.retry_backoff_max_ms))
                step = await self._attempt()
        except (ApiError, ClientError) as error:
            self._failure = error
            self._membership.request_rejoin(f"the last attempt failed: {error}")

    async def _attempt(self) -> NextStep:
        """Join and sync once."""
        try:
            response = await self._send_join()
            code = response.error_code
            self._coordinator.heed(code)
            step = self._membership.joined(
                code,
                member_id=response.member_id,
                generation_id=response.generation_id,
                protocol_name=response.protocol_name or "",
            )
            if step is NextStep.SYNC:
                step = await self._sync(response)
            elif step is NextStep.FAIL:
                raise self._fatal(code)
        except (ApiError, ClientError) as error:
            if not is_retriable(error) or self._membership.state is MemberState.FAILED:
                raise
            _log.info("%s: joining group %s: %s", self._cluster.client_id, self._coordinator.group_id, error)
            self._membership.begin()
            return NextStep.JOIN_LATER
        return step

    async def _send_join(self) -> JoinGroupResponse:
        config, member = self._config, self._membership
        topics = self._owner.subscription.topics
        protocols = [
            JoinGroupRequestProtocol(
                name=assignor.name,
                metadata=write_subscription(
                    topics,
                    owned=self._owner.owned if self._is_cooperative else (),
                    generation_id=member.generation_id,
                    user_data=assignor.user_data(self._owner.owned),
                    rack_id=config.client_rack or None,
                ),
            )
            for assignor in self._assignors.values()
        ]
        request = JoinGroupRequest(
            group_id=self._coordinator.group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=member.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=member.reason[:255],
        )
        timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + _JOIN_MARGIN_MS)
        return await self._coordinator.request(request, JoinGroupResponse, timeout_ms=timeout_ms)

    async def _sync(self, joined: JoinGroupResponse) -> NextStep:
        """Get the assignment, having made it where this member leads."""
        member = self._membership
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(joined)
        request = SyncGroupRequest(
            group_id=self._coordinator.group_id,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=member.protocol_name,
            assignments=assignments,
        )
        timeout_ms = max(self._config.request_timeout_ms, self._config.max_poll_interval_ms + _JOIN_MARGIN_MS)
        response = await self._coordinator.request(request, SyncGroupResponse, timeout_ms=timeout_ms)
        self._coordinator.heed(response.error_code)
        step = member.synced(response.error_code)
        if step is NextStep.FAIL:
            raise self._fatal(response.error_code)
        if not response.error_code:
            self._assigned = read_assignment(bytes(response.assignment))
        return step

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Decide who reads what."""
        members = {
            entry.member_id: read_subscription(bytes(entry.metadata), entry.group_instance_id)
            for entry in joined.members
        }
        wanted = {topic for subscription in members.values() for topic in subscription.topics}
        counts = await self._topics.partition_counts(wanted)
        assignment = self._assignor().assign(AssignmentInput(counts, members))
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=write_assignment(assignment.get(member_id, ())))
            for member_id in members
        ]

    def _assignor(self) -> Assignor:
        assignor = self._assignors.get(self._membership.protocol_name)
        if assignor is None:
            raise InvalidState(f"the group chose {self._membership.protocol_name!r}, which this member does not have")
        return assignor

    async def _beat(self) -> float:
        """Send a heartbeat where the member is one; give the time until the next."""
        config, member = self._config, self._membership
        idle_ms = (self._cluster.clock.monotonic() - self._polled_at) * 1000
        if idle_ms >= config.max_poll_interval_ms and self._join is None:
            await self._leave_for_idleness()
            return config.heartbeat_interval_ms
        if not member.is_member or member.state is MemberState.JOINING:
            return config.heartbeat_interval_ms
        generation_id = member.generation_id
        request = HeartbeatRequest(
            group_id=self._coordinator.group_id,
            generation_id=generation_id,
            member_id=member.member_id,
            group_instance_id=config.group_instance_id,
        )
        try:
            response = await self._coordinator.request(request, HeartbeatResponse, timeout_ms=config.session_timeout_ms)
        except (ApiError, ClientError) as error:
            _log.info("%s: a heartbeat failed: %s", self._cluster.client_id, error)
            return min(config.retry_backoff_ms, config.heartbeat_interval_ms)
        code = response.error_code
        self._coordinator.heed(code)
        if code:
            if member.heartbeat(code, generation_id=generation_id) is NextStep.FAIL:
                _log.error("%s: a heartbeat was answered %s", self._cluster.client_id, ErrorCode(code).name)
            self._changed()
        moved = code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return config.retry_backoff_ms if moved else config.heartbeat_interval_ms

    async def _leave_for_idleness(self) -> None:
        """Let others have the partitions, for the consumer does not poll."""
        if self._membership.state is not MemberState.STABLE:
            return
        interval = f"max.poll.interval.ms={self._config.max_poll_interval_ms}"
        _log.warning("%s: no poll for %s: leaving the group", self._cluster.client_id, interval)
        await self._send_leave(f"no poll for {interval}")
        self._membership.lose("the consumer polls again", forget_id=self._config.group_instance_id is None)

    async def _send_leave(self, reason: str) -> None:
        """Tell the coordinator; a static member only stops, so that it can come back."""
        member = self._membership
        if not member.member_id or self._config.group_instance_id is not None or not self._coordinator.is_known:
            return
        request = LeaveGroupRequest(group_id=self._coordinator.group_id)
        try:
            connection = await self._coordinator.connection()
            if connection.version_for(LeaveGroupRequest) >= _MEMBERS_VERSION_FIRST:
                request.members = [MemberIdentity(member_id=member.member_id, reason=reason[:255])]
            else:
                request.member_id = member.member_id
            await self._coordinator.request(request, LeaveGroupResponse, timeout_ms=_LEAVE_TIMEOUT_MS)
        except (ApiError, ClientError) as error:
            _log.info("%s: could not leave the group: %s", self._cluster.client_id, error)

    def _fatal(self, code: int) -> ClientError:
        error = broker_error(ErrorCode(code), f"joining group {self._coordinator.group_id}")
        if code != ErrorCode.FENCED_INSTANCE_ID:
            # The user may mend it: a right may be granted, a member may go. The next poll tries again.
            self._membership.left()
            self._membership.failure = None
            return error
        fatal = FatalError(f"{error}: another member has group.instance.id {self._config.group_instance_id}")
        fatal.__cause__ = error
        return fatal
