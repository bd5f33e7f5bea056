"""A consumer group in its coordinator: decisions are written, then taken in, then answered.

A decision's records go to the log first. If they are in it they are replayed on the group, which is the only way it
changes, and timers are set; the answer leaves when they are committed. If they are not, nothing happened, and the
member is told why. As a `Group` it answers what offsets and deletion have to respect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from tailrace.broker.coordinator_log import CoordinatorLog
from tailrace.broker.groups import consumer_requests, mixed_requests, pattern_resolution
from tailrace.broker.groups.classic_requests import Joining
from tailrace.broker.groups.consumer_decision import REBALANCE, SESSION, Decision, Surroundings, timer_name
from tailrace.broker.groups.consumer_description import describe
from tailrace.broker.groups.consumer_group import ConsumerGroup, ConsumerGroupState
from tailrace.broker.groups.consumer_member import ConsumerMember, MemberState
from tailrace.broker.groups.consumer_records import group_tombstones
from tailrace.broker.groups.consumer_replay import replay_all
from tailrace.broker.groups.consumer_requests import Heartbeat
from tailrace.broker.groups.consumer_services import ConsumerServices
from tailrace.broker.groups.effects import CancelTimer, SetTimer
from tailrace.broker.groups.group import GroupType
from tailrace.broker.groups.offset_store import CommittedOffset
from tailrace.broker.groups.timers import Timers
from tailrace.broker.groups.topic_regex import resolve
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupResponse
from tailrace.protocol.messages.leave_group import MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

LOGGER = logging.getLogger(__name__)

CONSUMER_PROTOCOL_TYPE = "consumer"
REFRESH_INTERVAL_MS = 2**31 - 1
"""How long a look at the topics holds if nothing is heard of them: for good, because every change is heard of."""
OFFSET_COMMIT_VERSION_FIRST = 9
"""Below it OffsetCommit cannot tell a member that its epoch is stale."""

HeartbeatReply: TypeAlias = Callable[[ConsumerGroupHeartbeatResponse], object]
SyncReply: TypeAlias = Callable[[SyncGroupResponse], object]
TopicFilter: TypeAlias = Callable[[Iterable[str]], list[str]]


class Holder(Protocol):
    """Whoever holds the groups of a partition."""

    def replay_written(self, group: HostedConsumerGroup, decision: Decision[Any]) -> None:
        """Take in what a group has just written."""
        ...


class HostedConsumerGroup:
    """See the module's docstring."""

    def __init__(
        self, group: ConsumerGroup, *, log: CoordinatorLog, services: ConsumerServices, holder: Holder
    ) -> None:
        self.group = group
        self._log = log
        self._services = services
        self._holder = holder
        self._timers = Timers(services.clock, self._timer_expired)
        self._is_resolving = False
        self._is_gone = False

    # Requests

    def heartbeat(
        self,
        event: Heartbeat,
        *,
        visible: TopicFilter,
        reply: HeartbeatReply,
        records_before: Sequence[CoordinatorRecord] = (),
    ) -> None:
        """ConsumerGroupHeartbeat, whichever it means.

        `visible` leaves the topics that the member may know of. `records_before` end what bore the group's name, or
        convert it: they are written together with the heartbeat's own.
        """
        is_leaving = event.request.member_epoch < 0
        decide = consumer_requests.leave if is_leaving else consumer_requests.heartbeat
        decision = decide(self.group, event, self._surroundings())
        decision.records[:0] = records_before

        def on_done(code: ErrorCode) -> None:
            if code:
                reply(ConsumerGroupHeartbeatResponse(error_code=code))
            else:
                assert decision.response is not None
                reply(decision.response)

        if self._perform(decision, on_done) and decision.patterns is not None:
            self._resolve(decision.patterns, visible)

    def join(self, event: Joining) -> None:
        """JoinGroup of a member of the classic protocol."""
        decision = mixed_requests.join(self.group, event, self._surroundings())

        def on_done(code: ErrorCode) -> None:
            response = JoinGroupResponse(member_id=event.request.member_id, error_code=code)
            event.reply(response if code else decision.response)

        self._perform(decision, on_done)

    def sync(self, reply: SyncReply, request: SyncGroupRequest) -> None:
        """SyncGroup of a member of the classic protocol."""
        decision = mixed_requests.sync(self.group, request, self._surroundings())

        def on_done(code: ErrorCode) -> None:
            assert decision.response is not None
            reply(SyncGroupResponse(error_code=code) if code else decision.response)

        self._perform(decision, on_done)

    def classic_heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat of a member of the classic protocol."""
        decision, code = mixed_requests.heartbeat(self.group, request)
        self._do(decision)
        return code

    def leave(self, identities: Sequence[MemberIdentity]) -> list[ErrorCode]:
        """LeaveGroup: give each member's code."""
        decision, codes = mixed_requests.leave(self.group, identities, self._surroundings())
        refusals: list[ErrorCode] = []
        if self._perform(decision, refusals.append) or not refusals:
            return codes
        return [refusals[0]] * len(codes)

    def end(self) -> bool:
        """End a group that has no members; False where that could not be written."""
        records = self.tombstones()
        return self._perform(Decision[None](records=records), lambda code: None)

    def _surroundings(self) -> Surroundings:
        return self._services.surroundings(self.group.group_id, is_resolving=self._is_resolving)

    def _perform(self, decision: Decision[Any], on_done: Callable[[ErrorCode], object]) -> bool:
        """Write a decision, take it in, do the rest; False where it could not be written."""
        if decision.records:
            log = self._log.partition.log
            end_offset = log.log_end_offset
            done: list[ErrorCode] = []

            def hold(code: ErrorCode) -> None:
                # A member is not answered before the group is what the answer says, so an answer within `append` waits.
                if is_writing:
                    done.append(code)
                else:
                    on_done(code)

            is_writing = True
            self._log.append(decision.records, on_done=hold)
            is_writing = False
            if log.log_end_offset == end_offset:
                on_done(done[0] if done else ErrorCode.UNKNOWN_SERVER_ERROR)
                return False
            self._holder.replay_written(self, decision)
            self._do(decision)
            for code in done:
                on_done(code)
            return True
        self._do(decision)
        self._log.after_commits(on_done)
        return True

    def _do(self, decision: Decision[Any]) -> None:
        if self._is_gone:
            return
        if decision.seen_epoch is not None:
            self.group.refresh_at_ms = self._services.clock.time_ms() + REFRESH_INTERVAL_MS
            self.group.refresh_epoch = decision.seen_epoch
        for effect in decision.effects:
            match effect:
                case SetTimer():
                    self._timers.set(effect.name, effect.delay_ms)
                case CancelTimer():
                    self._timers.cancel(effect.name)
        for timer in decision.timers_if_absent:
            self._timers.set_if_absent(timer.name, timer.delay_ms)

    def _timer_expired(self, name: str) -> None:
        LOGGER.info("group %s: the time of %s is over", self.group.group_id, name)
        decision = consumer_requests.timer_expired(self.group, name, self._services.surroundings(self.group.group_id))

        def on_done(code: ErrorCode) -> None:
            if code:
                LOGGER.warning("group %s: what followed from %s was not written: %s", self.group_id, name, code.name)

        if not self._perform(decision, on_done):
            self._timers.set(name, RETRY_MS)

    # Patterns

    def _resolve(self, patterns: frozenset[str], visible: TopicFilter) -> None:
        """Match patterns with all topics in a later turn of the event loop: there may be many of both."""
        self._is_resolving = True
        services = self._services

        def match() -> None:
            self._is_resolving = False
            if self._is_gone:
                return
            resolved = resolve(patterns, visible(services.topic_names()))
            around = services.surroundings(self.group.group_id)
            version = services.topics_version
            decision = pattern_resolution.resolved(self.group, resolved, version=version, surroundings=around)
            self._perform(decision, lambda code: None)

        services.clock.call_later(0, match)

    def topics_changed(self, names: Iterable[str]) -> None:
        """Look at the topics again with the next heartbeat, if one of these is the group's."""
        if any(self.group.is_subscribed_to(name) for name in names):
            self.group.request_refresh()

    # Life

    def activate(self) -> None:
        """Begin the sessions of members that were loaded."""
        for member in self.group.members.values():
            self._begin_session(member)

    def _begin_session(self, member: ConsumerMember) -> None:
        timeout_ms = self._services.rules(self.group_id).session_timeout_ms
        if member.classic is not None:
            timeout_ms = member.classic.session_timeout_ms
        self._timers.set(timer_name(SESSION, member.member_id), timeout_ms)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._timers.set(timer_name(REBALANCE, member.member_id), member.rebalance_timeout_ms)

    def resign(self) -> None:
        """Do nothing more; whoever waits is answered by the log."""
        self.discard()

    def discard(self) -> None:
        """Forget all timers: the group is no more."""
        self._is_gone = True
        self._timers.cancel_all()
        self._services.forget_rules(self.group.group_id)

    def replay(self, records: Iterable[CoordinatorRecord]) -> None:
        """Take records in."""
        replay_all(self.group, records)

    # As a Group

    @property
    def group_id(self) -> str:
        """Its name."""
        return self.group.group_id

    @property
    def group_type(self) -> GroupType:
        """It speaks the consumer protocol."""
        return GroupType.CONSUMER

    @property
    def state_name(self) -> str:
        """Its state."""
        return self.group.state

    @property
    def protocol_type(self) -> str:
        """What its members are."""
        return CONSUMER_PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.group.members

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.group.members)

    @property
    def assignor_name(self) -> str:
        """The assignor that it uses."""
        return self.group.assignor_name or self._services.rules(self.group_id).default_assignor

    def describe(self) -> DescribedGroup:
        """Describe it for ConsumerGroupDescribe."""
        return describe(self.group, assignor_name=self.assignor_name, cluster=self._services.cluster)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return self.group.is_subscribed_to(topic)

    def check_offset_commit(
        self, *, member_id: str, instance_id: str | None, generation: int, is_transactional: bool, version: int
    ) -> None:
        """A member commits in its epoch; others only where there are no members, or in a transaction."""
        if generation < 0 and not self.group.members:
            return
        if is_transactional and generation < 0 and not member_id and instance_id is None:
            return
        member = self._member(member_id)
        if not is_transactional and not member.uses_classic_protocol and version < OFFSET_COMMIT_VERSION_FIRST:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"OffsetCommit version {version} is not supported for groups using the consumer group protocol. "
                f"Please use version {OFFSET_COMMIT_VERSION_FIRST} or newer.",
            )
        _check_epoch(member, generation)

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """A member asks in its epoch; who is no member asks without one."""
        if member_id is None and member_epoch < 0:
            return
        _check_epoch(self._member(member_id or ""), member_epoch)

    def _member(self, member_id: str) -> ConsumerMember:
        member = self.group.members.get(member_id)
        if member is None:
            raise consumer_requests.unknown_member(self.group, member_id)
        return member

    def check_offset_delete(self) -> None:
        """Offsets of topics that nobody reads may go at any time."""

    def check_delete(self) -> None:
        """It may go where there are no members."""
        if self.group.state is not ConsumerGroupState.EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def committed(self, member_id: str) -> None:
        """A commit is no sign of life here: members have heartbeats for that."""

    def expires_since(self, offset: CommittedOffset) -> int | None:
        """Offsets of topics that nobody reads expire by the time of their commit."""
        return offset.commit_timestamp

    def tombstones(self) -> list[CoordinatorRecord]:
        """Give the records that end it."""
        return list(group_tombstones(self.group))


RETRY_MS = 500
"""After how long something that follows from a timer is tried again where it could not be written."""


def _check_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch == member.member_epoch:
        return
    if member.uses_classic_protocol:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The received generation id {epoch} does not match the expected member epoch {member.member_epoch}.",
        )
    raise ApiError(
        ErrorCode.STALE_MEMBER_EPOCH,
        f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}.",
    )
