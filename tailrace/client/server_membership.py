"""A member of a group of the consumer protocol as a state machine (KIP-848).

Pure: `server_group` sends what `request` gives, and tells what came back.

    state          leaves it by
    UNJOINED       begin() -> JOINING
    JOINING        an answer with an epoch -> STABLE, or RECONCILING where it brings an assignment
    STABLE         an answer that brings an assignment -> RECONCILING
    RECONCILING    reconciled() -> ACKNOWLEDGING, and a heartbeat that says what is owned now
    ACKNOWLEDGING  the heartbeat was sent -> STABLE
    any            FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, too long between polls -> UNJOINED, all partitions lost;
                   an error that no retry mends -> FAILED

Every heartbeat tells what changed since the last one that was answered; the first one, and the first one after an
error, tells everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitionsRequest,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2

IdPartition = tuple[bytes, int]
"""A partition by its topic's id."""


class ServerMemberState(Enum):
    """Where a member is between two assignments."""

    UNJOINED = auto()
    JOINING = auto()
    STABLE = auto()
    RECONCILING = auto()
    ACKNOWLEDGING = auto()
    FAILED = auto()


_LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a member tells of itself."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1


@dataclass(slots=True)
class ServerMembership:
    """One member: its id and epoch, and what it owns and is to own."""

    group_id: str
    member_id: str
    instance_id: str | None = None
    state: ServerMemberState = ServerMemberState.UNJOINED
    epoch: int = JOIN_EPOCH
    owned: frozenset[IdPartition] = frozenset()
    target: frozenset[IdPartition] | None = None
    """What the coordinator wants the member to own, until that is so."""
    heartbeat_interval_ms: int = 0
    is_lost: bool = False
    """Whether the partitions may be others' already, which the consumer has not been told yet."""
    failure: ErrorCode | None = None
    failure_message: str = ""
    _told: Wishes | None = None
    _told_owned: frozenset[IdPartition] | None = None
    _telling: tuple[Wishes, frozenset[IdPartition]] | None = field(default=None, repr=False)

    @property
    def is_member(self) -> bool:
        """Whether heartbeats are to be sent."""
        return self.state not in (ServerMemberState.UNJOINED, ServerMemberState.FAILED)

    def begin(self) -> None:
        """Join, as a new member."""
        self.state, self.epoch, self.owned, self.target = ServerMemberState.JOINING, JOIN_EPOCH, frozenset(), None
        self._forget_told()

    def has_news(self, wishes: Wishes) -> bool:
        """Whether the coordinator should hear something before the next heartbeat is due."""
        if self.state in (ServerMemberState.JOINING, ServerMemberState.ACKNOWLEDGING):
            return True
        return self.is_member and self._told is not None and self._told != wishes

    def request(self, wishes: Wishes) -> ConsumerGroupHeartbeatRequest:
        """Make the next heartbeat."""
        told = self._told
        is_full = told is None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if told is None:
            request.rack_id = wishes.rack_id
            request.rebalance_timeout_ms = wishes.rebalance_timeout_ms
            request.server_assignor = wishes.assignor
        if told is None or told.topics != wishes.topics:
            request.subscribed_topic_names = None if wishes.topics is None else list(wishes.topics)
            if wishes.topics is None and not is_full:
                request.subscribed_topic_names = []
        if told is None or told.pattern != wishes.pattern:
            request.subscribed_topic_regex = wishes.pattern if is_full or wishes.pattern is not None else ""
        if is_full or self._told_owned != self.owned:
            request.topic_partitions = _by_topic(self.owned)
        self._telling = (wishes, self.owned)
        if self.state is ServerMemberState.ACKNOWLEDGING:
            self.state = ServerMemberState.STABLE
        return request

    def leave_request(self) -> ConsumerGroupHeartbeatRequest:
        """Make the last heartbeat; a static member's says that it comes back."""
        epoch = LEAVE_EPOCH if self.instance_id is None else STATIC_LEAVE_EPOCH
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )

    def answered(self, response: ConsumerGroupHeartbeatResponse, *, epoch: int) -> None:
        """Take the answer to a heartbeat that was sent with an epoch; an old one's says nothing any more."""
        if not self.is_member or epoch != self.epoch:
            return
        code = response.error_code
        if code:
            self._refused(code, response.error_message or "")
            return
        if self._telling is not None:
            self._told, self._told_owned = self._telling
            self._telling = None
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if self.state is ServerMemberState.JOINING:
            self.state = ServerMemberState.STABLE
        if response.assignment is not None:
            self.target = frozenset(
                (topic.topic_id, number)
                for topic in response.assignment.topic_partitions
                for number in topic.partitions
            )
            if self.target == self.owned and self._told_owned == self.owned and self.state is ServerMemberState.STABLE:
                self.target = None
            else:
                self.state = ServerMemberState.RECONCILING

    def unanswered(self) -> None:
        """Take notice that no answer came: everything is told again."""
        self._forget_told()

    def reconciled(self, owned: Iterable[IdPartition]) -> None:
        """Take notice of what the member owns now; the coordinator is told by the next heartbeat."""
        self.owned = frozenset(owned)
        if self.state is not ServerMemberState.RECONCILING:
            return
        if self.target == self.owned:
            self.target = None
        self.state = ServerMemberState.ACKNOWLEDGING
        self._told_owned = None

    def lose(self) -> None:
        """Be a member no more: what is owned may be others' already."""
        self.state, self.is_lost = ServerMemberState.UNJOINED, True
        self.epoch, self.owned, self.target = JOIN_EPOCH, frozenset(), None
        self._forget_told()

    def left(self) -> None:
        """Be a member no more, because that is wanted."""
        self.state = ServerMemberState.UNJOINED
        self.epoch, self.owned, self.target = JOIN_EPOCH, frozenset(), None
        self._forget_told()

    def _refused(self, code: int, message: str) -> None:
        if code in _FENCED:
            self.lose()
        elif code in _LATER:
            self._forget_told()
        else:
            self.state = ServerMemberState.FAILED
            self.failure, self.failure_message = ErrorCode(code), message

    def _forget_told(self) -> None:
        self._told = self._told_owned = self._telling = None


def _by_topic(partitions: Iterable[IdPartition]) -> list[TopicPartitionsRequest]:
    topics: dict[bytes, list[int]] = defaultdict(list)
    for topic_id, number in sorted(partitions):
        topics[topic_id].append(number)
    return [TopicPartitionsRequest(topic_id=topic_id, partitions=numbers) for topic_id, numbers in topics.items()]
