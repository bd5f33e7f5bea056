"""A group of the classic protocol: its state, its members, and how it rebalances.

    Empty ──join──► PreparingRebalance ──all joined, or time is up──► CompletingRebalance ──leader synced──► Stable
      ▲                   ▲                                                  │                                │
      └── nobody left ────┴──────────── a member joins, leaves or expires ───┴────────────────────────────────┘

This module holds the state and the transitions; `classic_requests` decides what each request means. Both are pure:
they return effects (`effects`) and touch nothing else. The rules are Kafka 4.1's, with static members (KIP-345), known
member ids (KIP-394) and skipped assignments (KIP-814).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tailrace.broker.groups.classic_member import ClassicMember
from tailrace.broker.groups.effects import Answer, CancelTimer, Effect, Persist, SetTimer
from tailrace.broker.java_hash import place_in_small_map
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from tailrace.protocol.messages.sync_group import SyncGroupResponse

NO_GENERATION = -1
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""How long a member may wait in its first rebalance: it cannot send heartbeats meanwhile."""
JOIN_TIMER = "join"
SYNC_TIMER = "sync"


class ClassicState(StrEnum):
    """The states, named as DescribeGroups and ListGroups name them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


def session_timer(member_id: str) -> str:
    """Name the timer that ends a member's session."""
    return f"session:{member_id}"


def pending_timer(member_id: str) -> str:
    """Name the timer that forgets a member id that was given out and not used."""
    return f"pending:{member_id}"


@dataclass(slots=True)
class ClassicGroup:
    """See the module's docstring. Timer and timeout values are milliseconds.

    `state_since_ms` is when the state last changed, by the wall clock; whoever has a clock keeps it, and it is written
    down with the group, because offsets expire by it.
    """

    group_id: str
    initial_rebalance_delay_ms: int
    size_max: int
    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    state_since_ms: int = -1
    members: dict[str, ClassicMember] = field(default_factory=dict[str, ClassicMember])
    static_members: dict[str, str] = field(default_factory=dict[str, str])
    pending_members: set[str] = field(default_factory=set[str])
    pending_syncs: set[str] = field(default_factory=set[str])
    _is_first_rebalance: bool = False
    _has_newcomers: bool = False
    _initial_remaining_ms: int = 0

    def is_in(self, *states: ClassicState) -> bool:
        """Whether the group is in one of the states."""
        return self.state in states

    def rebalance_timeout_ms(self) -> int:
        """Give the time that the slowest member asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Protocols

    def candidate_protocols(self) -> frozenset[str]:
        """Give the protocols that every member supports."""
        members = iter(self.members.values())
        candidates = next(members).supported
        for member in members:
            if member.supported != candidates:  # nearly always they are the same, and comparing makes no set
                candidates &= member.supported
        return candidates

    def supports(self, protocol_type: str, protocols: list[JoinGroupRequestProtocol]) -> bool:
        """Whether somebody with these protocols can be in the group.

        An empty group takes what comes; while others are on their way out or in, its protocol type is decided.
        """
        names = {protocol.name for protocol in protocols}
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type) and bool(names)
        if protocol_type != self.protocol_type:
            return False
        return bool(names & self.candidate_protocols()) if self.members else bool(names)

    def select_protocol(self) -> str:
        """Count the members' votes; of equals the one wins that comes first in Kafka's table of votes."""
        candidates = self.candidate_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return min(votes, key=lambda name: (-votes[name], place_in_small_map(name)))

    # Members

    def accepts(self, member_id: str) -> bool:
        """Whether there is room for the member, or it is in already (group.max.size, KIP-389)."""
        if len(self.members) < self.size_max:
            return True
        member = self.members.get(member_id)
        if self.state is ClassicState.PREPARING_REBALANCE:
            is_joining = member is not None and member.joining is not None
            return is_joining or sum(m.joining is not None for m in self.members.values()) < self.size_max
        if self.is_in(ClassicState.EMPTY, ClassicState.DEAD):
            return True
        return member is not None

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Put a member in; the first one leads."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.pending_members.discard(member.member_id)

    def remove(self, member_id: str) -> list[Effect]:
        """Take a member out; whoever waits in its name learns that it is unknown."""
        member = self.members.pop(member_id)
        effects: list[Effect] = [CancelTimer(session_timer(member_id))]
        effects += self.answer_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID)
        if member.group_instance_id is not None and self.static_members.get(member.group_instance_id) == member_id:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(self.successors(), None)
        self.pending_members.discard(member_id)
        self.pending_syncs.discard(member_id)
        return effects

    def successors(self) -> Iterator[str]:
        """Give the members in the order in which they may come to lead; Kafka goes by a hash table, and by chance."""
        return iter(self.members)

    def replace_static(self, instance_id: str, new_id: str) -> list[Effect]:
        """Give a static member's place to a new member id; whoever waits under the old one is fenced.

        If its assignment was still awaited, the old id stays among `pending_syncs`, as in Kafka: the group rebalances
        when the time for that is up.
        """
        old_id = self.static_members[instance_id]
        member = self.members[old_id]
        effects: list[Effect] = [CancelTimer(session_timer(old_id))]
        effects += self.answer_waiting(member, ErrorCode.FENCED_INSTANCE_ID)
        member.member_id = new_id
        member.is_new = False
        self.members[new_id] = self.members.pop(old_id)
        self.static_members[instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return effects

    @staticmethod
    def answer_waiting(member: ClassicMember, code: ErrorCode) -> list[Effect]:
        """End the member's parked requests with an error."""
        effects: list[Effect] = []
        if member.joining is not None:
            member_id = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
            response = JoinGroupResponse(member_id=member_id, error_code=code)
            effects.append(Answer(member.joining, response))
            member.joining = None
        if member.syncing is not None:
            effects.append(Answer(member.syncing, SyncGroupResponse(error_code=code)))
            member.syncing = None
        return effects

    def start_session(self, member: ClassicMember) -> Effect:
        """Let the member's session begin anew."""
        timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        return SetTimer(session_timer(member.member_id), timeout_ms)

    # Rebalancing

    def rebalance(self) -> list[Effect]:
        """Begin a rebalance, or end the one that is on where everybody has joined."""
        if self.is_in(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY):
            return self._prepare_rebalance()
        return self.maybe_complete_join()

    def _prepare_rebalance(self) -> list[Effect]:
        effects: list[Effect] = []
        if self.state is ClassicState.COMPLETING_REBALANCE:
            effects += self.reset_assignment(ErrorCode.REBALANCE_IN_PROGRESS)
        effects.append(CancelTimer(SYNC_TIMER))
        self.pending_syncs.clear()
        self._is_first_rebalance = self.state is ClassicState.EMPTY
        self.state = ClassicState.PREPARING_REBALANCE
        if not self._is_first_rebalance:
            return effects + (self.maybe_complete_join() or [SetTimer(JOIN_TIMER, self.rebalance_timeout_ms())])
        delay_ms = self.initial_rebalance_delay_ms
        self._initial_remaining_ms = max(self.rebalance_timeout_ms() - delay_ms, 0)
        # Newcomers of a first rebalance that ended early are still counted, as in Kafka: it waits a little longer then.
        return [*effects, SetTimer(JOIN_TIMER, delay_ms)]

    def note_newcomer(self) -> None:
        """Let the first rebalance wait a little longer: where one member comes, more may follow."""
        if self.state is ClassicState.PREPARING_REBALANCE and self._is_first_rebalance:
            self._has_newcomers = True

    def maybe_complete_join(self) -> list[Effect]:
        """End the joining phase where everybody is there; the first rebalance always waits its delay."""
        return [] if self._is_first_rebalance else self.complete_join_of_all()

    def complete_join_of_all(self) -> list[Effect]:
        """End the joining phase where everybody is there, also in a first rebalance."""
        if self.state is not ClassicState.PREPARING_REBALANCE or self.pending_members:
            return []
        return self._complete_join() if all(m.joining is not None for m in self.members.values()) else []

    def join_timer_expired(self) -> list[Effect]:
        """The time for joining is up."""
        if self.state is not ClassicState.PREPARING_REBALANCE:
            return []
        if self._is_first_rebalance and self._has_newcomers and self._initial_remaining_ms > 0:
            self._has_newcomers = False
            delay_ms = min(self.initial_rebalance_delay_ms, self._initial_remaining_ms)
            self._initial_remaining_ms -= delay_ms
            return [SetTimer(JOIN_TIMER, delay_ms)]
        return self._complete_join()

    def _complete_join(self) -> list[Effect]:
        effects: list[Effect] = [CancelTimer(JOIN_TIMER)]
        absent = [m.member_id for m in self.members.values() if m.joining is None and not m.is_static]
        for member_id in absent:
            effects += self.remove(member_id)
        if self.members and not self._elect_leader_who_joined():
            return [*effects, SetTimer(JOIN_TIMER, self.rebalance_timeout_ms())]
        self._is_first_rebalance = False
        self.generation += 1
        self.pending_syncs.clear()
        if not self.members:
            self.protocol_name = None
            self.state = ClassicState.EMPTY
            return [*effects, Persist()]
        self.protocol_name = self.select_protocol()
        self.state = ClassicState.COMPLETING_REBALANCE
        for member in self.members.values():
            effects += self._answer_joined(member)
        return [*effects, SetTimer(SYNC_TIMER, self.rebalance_timeout_ms())]

    def _answer_joined(self, member: ClassicMember) -> list[Effect]:
        effects: list[Effect] = []
        if member.joining is not None:
            effects.append(Answer(member.joining, self.joined_response(member)))
            member.joining = None
        member.is_new = False
        self.pending_syncs.add(member.member_id)
        return [*effects, self.start_session(member)]

    def _elect_leader_who_joined(self) -> bool:
        """Keep the leader where it has joined, else take the first who has; False where nobody has."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.joining is not None:
            return True
        for member_id in self.successors():
            if self.members[member_id].joining is not None:
                self.leader = member_id
                return True
        return False

    def joined_response(self, member: ClassicMember, *, skip_assignment: bool = False) -> JoinGroupResponse:
        """Tell a member of the generation it is in; the leader is told of everybody."""
        is_leader = member.member_id == self.leader
        everybody = [m.as_joined(self.protocol_name) for m in self.members.values()] if is_leader else []
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader or "",
            skip_assignment=skip_assignment,
            member_id=member.member_id,
            members=everybody,
        )

    # Assignments

    def sync_timer_expired(self) -> list[Effect]:
        """Those who joined and never asked for their assignment are out."""
        if not self.is_in(ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE) or not self.pending_syncs:
            return []
        effects: list[Effect] = []
        for member_id in sorted(self.pending_syncs & set(self.members)):
            effects += self.remove(member_id)
        return effects + self.rebalance()

    def reset_assignment(self, code: ErrorCode) -> list[Effect]:
        """Forget all assignments and answer all who wait for theirs with an error."""
        for member in self.members.values():
            member.assignment = b""
        return self._answer_syncing(code)

    def propagate_assignment(self) -> list[Effect]:
        """Hand all who wait their assignments: the group is stable."""
        self.state = ClassicState.STABLE
        return self._answer_syncing(ErrorCode.NONE)

    def _answer_syncing(self, code: ErrorCode) -> list[Effect]:
        effects: list[Effect] = []
        for member in self.members.values():
            if member.syncing is not None:
                effects.append(Answer(member.syncing, self.synced_response(member, code)))
                member.syncing = None
                effects.append(self.start_session(member))
        return effects

    def synced_response(self, member: ClassicMember, code: ErrorCode = ErrorCode.NONE) -> SyncGroupResponse:
        """Tell a member its assignment, or why it has none."""
        if code is not ErrorCode.NONE:
            return SyncGroupResponse(error_code=code)
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=member.assignment
        )

    def waiting(self) -> list[Any]:
        """Give the replies of all parked requests, for a coordinator that loses the group."""
        return [r for m in self.members.values() for r in (m.joining, m.syncing) if r is not None]
