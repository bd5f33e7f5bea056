"""A member of a classic group as a state machine: what an answer means, and what is to be done next.

Pure: `classic_group` sends what is asked for here, and tells what came back.

    state        leaves it by
    UNJOINED     begin() -> JOINING
    JOINING      joined ok -> SYNCING; MEMBER_ID_REQUIRED -> JOINING with the id; UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION
                 -> JOINING as a new member; coordinator gone or loading, REBALANCE_IN_PROGRESS -> JOINING after a pause
    SYNCING      synced ok -> STABLE; REBALANCE_IN_PROGRESS or coordinator gone -> JOINING; UNKNOWN_MEMBER_ID,
                 ILLEGAL_GENERATION -> JOINING as a new member
    STABLE       a heartbeat says REBALANCE_IN_PROGRESS, or the subscription changes -> a rejoin is due;
                 UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, too long between polls -> UNJOINED, all partitions lost
    FAILED       FENCED_INSTANCE_ID and whatever no retry mends, from any state

A dynamic member that rejoins keeps its id and generation until the coordinator says otherwise; a static one keeps its
instance id for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from tailrace.protocol.error_codes import ErrorCode

NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""


class MemberState(Enum):
    """Where a member is between two assignments."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()
    FAILED = auto()


class NextStep(Enum):
    """What is to be done after an answer."""

    NOTHING = auto()
    SYNC = auto()
    JOIN = auto()
    JOIN_LATER = auto()
    FAIL = auto()


_LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


@dataclass(slots=True)
class ClassicMembership:
    """One member: its id and generation, and whether it has to join again."""

    state: MemberState = MemberState.UNJOINED
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_name: str = ""
    is_rejoin_due: bool = True
    reason: str = "the consumer subscribes"
    """Why the member joins; brokers log it."""
    is_lost: bool = False
    """Whether the partitions may be others' already, which the consumer has not been told yet."""
    failure: ErrorCode | None = None

    @property
    def is_member(self) -> bool:
        """Whether the coordinator counts on heartbeats."""
        return self.state in (MemberState.SYNCING, MemberState.STABLE) or (
            self.state is MemberState.JOINING and self.generation_id != NO_GENERATION
        )

    def begin(self) -> None:
        """Join, from whatever state."""
        self.state = MemberState.JOINING
        self.is_rejoin_due = False

    def request_rejoin(self, reason: str) -> None:
        """Join again as soon as the consumer polls."""
        if self.state is not MemberState.FAILED:
            self.is_rejoin_due, self.reason = True, reason

    def joined(self, code: int, *, member_id: str = "", generation_id: int = -1, protocol_name: str = "") -> NextStep:
        """Take the answer to JoinGroup."""
        if self.state is not MemberState.JOINING:
            return NextStep.NOTHING
        if not code:
            self.member_id, self.generation_id, self.protocol_name = member_id, generation_id, protocol_name
            self.state = MemberState.SYNCING
            return NextStep.SYNC
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id, self.reason = member_id, "the member has its id"
            return NextStep.JOIN
        return self._failed_to_join(code)

    def synced(self, code: int) -> NextStep:
        """Take the answer to SyncGroup."""
        if self.state is not MemberState.SYNCING:
            return NextStep.NOTHING
        if not code:
            self.state = MemberState.STABLE
            return NextStep.NOTHING
        self.state = MemberState.JOINING
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.reason = "the group rebalances again"
            return NextStep.JOIN
        return self._failed_to_join(code)

    def heartbeat(self, code: int, *, generation_id: int) -> NextStep:
        """Take the answer to a heartbeat of a generation; an old one's says nothing about this one."""
        if not code or generation_id != self.generation_id:
            return NextStep.NOTHING
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self.request_rejoin("the group rebalances")
            return NextStep.NOTHING
        if code in _LATER:
            return NextStep.NOTHING
        if code in _FORGOTTEN:
            if self.state is not MemberState.JOINING:
                self.lose(f"a heartbeat was answered {ErrorCode(code).name}")
            return NextStep.NOTHING
        return self._fail(code)

    def commit_refused(self, code: int, *, generation_id: int) -> None:
        """Take notice that the coordinator refused a commit of this generation."""
        if self.state is not MemberState.STABLE or generation_id != self.generation_id:
            return
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin("a commit was answered REBALANCE_IN_PROGRESS")
        else:
            self.lose(f"a commit was answered {ErrorCode(code).name}")

    def lose(self, reason: str, *, forget_id: bool = True) -> None:
        """Be a member no more: what is owned may be others' already."""
        self.state = MemberState.UNJOINED
        self.generation_id = NO_GENERATION
        self.is_lost = True
        if forget_id:
            self.member_id = NO_MEMBER_ID
        self.request_rejoin(reason)

    def left(self) -> None:
        """Be a member no more, because that is wanted."""
        self.state, self.member_id, self.generation_id = MemberState.UNJOINED, NO_MEMBER_ID, NO_GENERATION
        self.is_rejoin_due, self.reason = True, "the consumer subscribes"

    def _failed_to_join(self, code: int) -> NextStep:
        if code in _FORGOTTEN:
            self.member_id, self.generation_id = NO_MEMBER_ID, NO_GENERATION
            self.is_lost = True
            self.reason = f"the coordinator answered {ErrorCode(code).name}"
            return NextStep.JOIN_LATER
        if code in _LATER:
            return NextStep.JOIN_LATER
        return self._fail(code)

    def _fail(self, code: int) -> NextStep:
        self.state = MemberState.FAILED
        self.is_rejoin_due = False
        self.failure = ErrorCode(code)
        return NextStep.FAIL
