"""A classic group in its coordinator: the state machine, and the hands that do what it decides.

Each event goes to the machine (`classic_requests`), whose effects are performed in their order: answers leave, timers
are set, the group is written to the log, and what becomes of that is the next event. It also answers, as a `Group`,
what offsets and deletion have to respect.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass

from tailrace.broker.coordinator_log import CoordinatorLog
from tailrace.broker.groups import classic_requests
from tailrace.broker.groups.classic_group import ClassicGroup, ClassicState
from tailrace.broker.groups.classic_records import (
    CONSUMER_PROTOCOL_TYPE,
    group_record,
    group_tombstone,
    new_group_record,
    subscribed_topics,
)
from tailrace.broker.groups.classic_requests import Joining
from tailrace.broker.groups.effects import Answer, CancelTimer, Effect, Persist, SetTimer
from tailrace.broker.groups.group import GroupType
from tailrace.broker.groups.offset_store import NO_TIMESTAMP, CommittedOffset
from tailrace.broker.groups.timers import Timers
from tailrace.clock import Clock
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupResponse
from tailrace.protocol.messages.leave_group import MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

LOGGER = logging.getLogger(__name__)


@dataclass(slots=True)
class RebalanceCounts:
    """How often groups rebalanced since the start, and how often members fell silent."""

    started: int = 0
    completed: int = 0
    expired_members: int = 0


class HostedClassicGroup:
    """See the module's docstring."""

    def __init__(self, group: ClassicGroup, *, log: CoordinatorLog, clock: Clock, counts: RebalanceCounts) -> None:
        self.group = group
        self._log = log
        self._clock = clock
        self._counts = counts
        self._timers = Timers(clock, self._timer_expired)
        self._effects: deque[Effect] = deque()
        self._is_performing = False
        self._topics: tuple[object, frozenset[str] | None] | None = None
        self.writes = 0
        """How often it was written down, or was about to be."""

    # Requests

    def join(self, event: Joining) -> None:
        """JoinGroup; the answer goes to the event's reply."""
        before = self._state()
        self._perform(classic_requests.join(self.group, event), before)

    def sync(self, reply: object, request: SyncGroupRequest) -> None:
        """SyncGroup."""
        before = self._state()
        self._perform(classic_requests.sync(self.group, reply, request), before)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat."""
        before = self._state()
        code, effects = classic_requests.heartbeat(
            self.group, request.member_id, request.group_instance_id, request.generation_id
        )
        self._perform(effects, before)
        return code

    def leave(self, identities: list[MemberIdentity]) -> list[ErrorCode]:
        """LeaveGroup: give each member's code."""
        before = self._state()
        codes, effects = classic_requests.leave(self.group, identities)
        self._perform(effects, before)
        return codes

    def describe(self) -> DescribedGroup:
        """Describe it as DescribeGroups does: what members said of themselves shows while it is stable."""
        group = self.group
        is_stable = group.state is ClassicState.STABLE
        return DescribedGroup(
            group_id=group.group_id,
            group_state=group.state,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if is_stable else "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    # What the machine asks for

    def _state(self) -> tuple[ClassicState, int]:
        return self.group.state, self.group.generation

    def _perform(self, effects: list[Effect], before: tuple[ClassicState, int]) -> None:
        """Note a change of state, and do what is asked; effects of effects come behind those that wait already."""
        group = self.group
        if (group.state, group.generation) != before:
            group.state_since_ms = self._clock.time_ms()
            is_rebalancing = group.is_in(ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE)
            if is_rebalancing and before[0] is not ClassicState.PREPARING_REBALANCE:
                self._counts.started += 1
            elif group.state is ClassicState.STABLE:
                self._counts.completed += 1
            LOGGER.debug("group %s: %s, generation %d", group.group_id, group.state, group.generation)
        self._effects += effects
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while self._effects:
                self._do(self._effects.popleft())
        finally:
            self._is_performing = False

    def _do(self, effect: Effect) -> None:
        match effect:
            case Answer():
                effect.reply(effect.response)
            case SetTimer():
                self._timers.set(effect.name, effect.delay_ms)
            case CancelTimer():
                self._timers.cancel(effect.name)
            case Persist():
                self._write(group_record(self.group), effect.ticket)

    def _write(self, record: CoordinatorRecord, ticket: object) -> None:
        def on_done(code: ErrorCode) -> None:
            if code:
                LOGGER.warning("group %s could not be written down: %s", self.group.group_id, code.name)
            before = self._state()
            self._perform(classic_requests.stored(self.group, ticket, code), before)

        self.writes += 1
        self._log.append([record], on_done=on_done)

    def _timer_expired(self, name: str) -> None:
        before = self._state()
        member_count = len(self.group.members)
        effects = classic_requests.timer_expired(self.group, name)
        self._counts.expired_members += max(0, member_count - len(self.group.members))
        self._perform(effects, before)

    # Life

    def write_new(self) -> None:
        """Write down that the group exists, where nothing else was written of it."""
        self._write(new_group_record(self.group), None)

    def activate(self) -> None:
        """Begin the members' sessions; a group that is larger than it may be now has to rebalance."""
        before = self._state()
        self._perform(classic_requests.loaded(self.group), before)

    def resign(self) -> None:
        """Tell all who wait to look for the coordinator elsewhere."""
        self._end(ErrorCode.NOT_COORDINATOR)

    def supersede(self) -> None:
        """Tell all who wait to join again: a group of the consumer protocol has taken this one's place."""
        self._end(ErrorCode.REBALANCE_IN_PROGRESS)

    def rebalance(self) -> None:
        """Let the members join again: the group was one of the consumer protocol until now."""
        before = self._state()
        self._perform(self.group.rebalance(), before)

    def _end(self, code: ErrorCode) -> None:
        group = self.group
        group.state = ClassicState.DEAD
        self.discard()
        for member in group.members.values():
            if member.joining is not None:
                member.joining(JoinGroupResponse(member_id=member.member_id, error_code=code))
            if member.syncing is not None:
                member.syncing(SyncGroupResponse(error_code=code))
            member.joining = member.syncing = None

    def discard(self) -> None:
        """Forget all timers."""
        self._timers.cancel_all()
        self._effects.clear()

    # As a Group

    @property
    def group_id(self) -> str:
        """Its name."""
        return self.group.group_id

    @property
    def group_type(self) -> GroupType:
        """It speaks the classic protocol."""
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        """Its state."""
        return self.group.state

    @property
    def protocol_type(self) -> str:
        """What its members are."""
        return self.group.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.group.state is ClassicState.EMPTY

    @property
    def member_count(self) -> int:
        """How many members it has."""
        return len(self.group.members)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic; consumers whose subscriptions can't be read might read any."""
        topics = self._subscribed_topics()
        return self._is_of_consumers if topics is None else topic in topics

    def check_offset_commit(
        self, *, member_id: str, instance_id: str | None, generation: int, is_transactional: bool, version: int
    ) -> None:
        """A member commits in its generation; others only where there are no members, or in a transaction."""
        del version  # the classic protocol's answers are the same in all of them
        group = self.group
        if group.state is ClassicState.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and group.state is ClassicState.EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            code = classic_requests.generation_error(group, member_id, instance_id, generation)
            if code:
                raise ApiError(code)
        elif not is_transactional:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and group.state is ClassicState.COMPLETING_REBALANCE:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """Anybody may ask."""

    def check_offset_delete(self) -> None:
        """Offsets may go one by one where there are no members, or where it is known what they read."""
        if not self.is_empty and not self._is_of_consumers:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """It may go where there are no members."""
        if not self.is_empty:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def committed(self, member_id: str) -> None:
        """Begin the member's session anew."""
        group = self.group
        member = group.members.get(member_id)
        if member is not None and group.is_in(ClassicState.STABLE, ClassicState.PREPARING_REBALANCE):
            self._perform([group.start_session(member)], self._state())

    def expires_since(self, offset: CommittedOffset) -> int | None:
        """Give the time from which an offset's retention counts.

        Without members that is when the last one left; of a stable group of consumers, and of what never had members,
        when the offset was committed. Of a group that rebalances, and of members of another kind, nothing expires.
        """
        group = self.group
        if group.protocol_type is None:
            return offset.commit_timestamp
        if group.state is ClassicState.EMPTY:
            return offset.commit_timestamp if group.state_since_ms == NO_TIMESTAMP else group.state_since_ms
        if group.state is ClassicState.STABLE and self._subscribed_topics() is not None:
            return offset.commit_timestamp
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        """Give the record that ends it."""
        return [group_tombstone(self.group.group_id)]

    @property
    def _is_of_consumers(self) -> bool:
        return self.group.protocol_type == CONSUMER_PROTOCOL_TYPE

    def _subscribed_topics(self) -> frozenset[str] | None:
        """Read the members' subscriptions, once in a generation."""
        group = self.group
        key = (group.generation, group.protocol_name, tuple(group.members))
        if self._topics is None or self._topics[0] != key:
            self._topics = (key, subscribed_topics(group))
        return self._topics[1]
