"""What a classic group does with each request, and with each timer that runs out.

Every function takes the group and an event and returns effects; the group is changed on the way. The coordinator has
checked what needs no group: the group id, the session timeout's range, that the group is loaded. Versions show in the
event's fields, so that nothing below asks for a version number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tailrace.broker.groups.classic_group import (
    SYNC_TIMER,
    ClassicGroup,
    ClassicState,
    pending_timer,
)
from tailrace.broker.groups.classic_member import ClassicMember
from tailrace.broker.groups.effects import Answer, CancelTimer, Effect, Persist, SetTimer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.protocol.messages.leave_group import MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@dataclass(frozen=True, slots=True)
class Joining:
    """A JoinGroup: the request, who sent it, and the member id to give out if it has none.

    `needs_known_id` holds from version 4 (KIP-394), `can_skip_assignment` from version 9 (KIP-814).
    """

    reply: Any
    request: JoinGroupRequest
    client_id: str
    client_host: str
    new_member_id: str
    needs_known_id: bool = True
    can_skip_assignment: bool = True

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time to rejoin in; version 0 had only the session timeout."""
        asked = self.request.rebalance_timeout_ms
        return asked if asked >= 0 else self.request.session_timeout_ms

    def as_member(self, member_id: str) -> ClassicMember:
        """Make the member that this request asks for."""
        return ClassicMember(
            member_id=member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=list(self.request.protocols),
            joining=self.reply,
            is_new=True,
        )

    def refuse(self, code: ErrorCode, member_id: str | None = None) -> list[Effect]:
        """Answer with an error."""
        named = self.request.member_id if member_id is None else member_id
        return [Answer(self.reply, JoinGroupResponse(member_id=named, error_code=code))]


@dataclass(frozen=True, slots=True)
class StaticReplacement:
    """The ticket of a static member that came back under a new id while the group was stable.

    `before` is the member as it was, which it is again if its new id could not be written down.
    """

    instance_id: str
    before: ClassicMember
    new_id: str
    reply: Any
    response: JoinGroupResponse


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    """The ticket of a leader's assignment: it holds for the generation it was made for."""

    generation: int


# Joining


def join(group: ClassicGroup, event: Joining) -> list[Effect]:
    """JoinGroup."""
    request = event.request
    if not group.accepts(request.member_id):
        return _turn_away(group, event)
    if group.state is ClassicState.DEAD:
        return event.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not group.supports(request.protocol_type, request.protocols):
        return event.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.member_id:
        return _join_known(group, event)
    if request.group_instance_id is not None:
        return _join_new_static(group, event, request.group_instance_id)
    if event.needs_known_id:
        group.pending_members.add(event.new_member_id)
        timer = SetTimer(pending_timer(event.new_member_id), request.session_timeout_ms)
        return [timer, *event.refuse(ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id)]
    return _add_and_rebalance(group, event, event.new_member_id)


def _turn_away(group: ClassicGroup, event: Joining) -> list[Effect]:
    """Refuse who finds no room; a member that came too late to its place in a smaller group has lost it.

    The others wait until their time for joining is up, as in Kafka, though nobody may be missing any more.
    """
    member_id = event.request.member_id
    effects = event.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if member_id in group.members:
        effects += group.remove(member_id)
    if member_id in group.pending_members:
        group.pending_members.discard(member_id)
        effects.append(CancelTimer(pending_timer(member_id)))
    return effects


def _join_known(group: ClassicGroup, event: Joining) -> list[Effect]:
    request = event.request
    member_id = request.member_id
    if member_id in group.pending_members:
        if request.group_instance_id is not None:
            return event.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        return [CancelTimer(pending_timer(member_id)), *_add_and_rebalance(group, event, member_id)]
    refusal = membership_error(group, member_id, request.group_instance_id)
    if refusal is not ErrorCode.NONE:
        return event.refuse(refusal)
    member = group.members[member_id]
    has_changed = member.protocols != list(request.protocols)
    if group.state is ClassicState.EMPTY:
        return event.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.state is ClassicState.COMPLETING_REBALANCE and not has_changed:
        return [Answer(event.reply, group.joined_response(member))]
    if group.state is ClassicState.STABLE and not has_changed and member_id != group.leader:
        return [Answer(event.reply, group.joined_response(member))]
    return _update(member, event) + group.rebalance()


def _join_new_static(group: ClassicGroup, event: Joining, instance_id: str) -> list[Effect]:
    old_id = group.static_members.get(instance_id)
    if old_id is None:
        return _add_and_rebalance(group, event, event.new_member_id)
    before = replace(group.members[old_id], joining=None, syncing=None)
    old_leader = group.leader
    effects = group.replace_static(instance_id, event.new_member_id)
    member = group.members[event.new_member_id]
    effects.append(group.start_session(member))  # with the timeout it had, as in Kafka
    effects += _update(member, event)
    if group.state is not ClassicState.STABLE or group.select_protocol() != group.protocol_name:
        return effects + group.rebalance()
    # The group goes on as it is: the member only learns its new id. A leader before version 9 must not believe that it
    # leads, or it would assign, so it is told the leader's id of before.
    member.joining = None
    response = group.joined_response(member, skip_assignment=member.member_id == group.leader)
    if not event.can_skip_assignment:
        response.skip_assignment = False
        response.leader = old_leader or ""
        response.members = []
    return [*effects, Persist(StaticReplacement(instance_id, before, member.member_id, event.reply, response))]


def _add_and_rebalance(group: ClassicGroup, event: Joining, member_id: str) -> list[Effect]:
    member = event.as_member(member_id)
    group.add(member, event.request.protocol_type)
    session = group.start_session(member)
    group.note_newcomer()
    return [session, *group.rebalance()]


def _update(member: ClassicMember, event: Joining) -> list[Effect]:
    """Take over what the request says.

    An earlier join of the same member that still waits is answered first: its client has given it up, or it would not
    have sent another one. Kafka forgets it, and can, because it reads nothing behind a request that waits.
    """
    effects: list[Effect] = []
    if member.joining is not None:
        stale = JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        effects.append(Answer(member.joining, stale))
    member.change_protocols(list(event.request.protocols))
    member.rebalance_timeout_ms = event.rebalance_timeout_ms
    member.session_timeout_ms = event.request.session_timeout_ms
    member.joining = event.reply
    return effects


def membership_error(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Say why somebody is not the member it says it is, or NONE."""
    if instance_id is not None:
        known_id = group.static_members.get(instance_id)
        if known_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if known_id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def generation_error(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
    """Say why somebody is not the member of this generation that it says it is, or NONE."""
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = membership_error(group, member_id, instance_id)
    if code is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return code


# Assignments


def sync(group: ClassicGroup, reply: Any, request: SyncGroupRequest) -> list[Effect]:
    """SyncGroup: the leader brings everybody's assignment, the others come for theirs."""
    code = generation_error(group, request.member_id, request.group_instance_id, request.generation_id)
    if code is ErrorCode.NONE:
        code = _sync_error(group, request)
    if code is not ErrorCode.NONE:
        return [Answer(reply, SyncGroupResponse(error_code=code))]
    member = group.members[request.member_id]
    group.pending_syncs.discard(request.member_id)
    effects: list[Effect] = [] if group.pending_syncs else [CancelTimer(SYNC_TIMER)]
    if group.state is ClassicState.STABLE:  # no sign of life, as Kafka has it: only heartbeats and commits are
        return [*effects, Answer(reply, group.synced_response(member))]
    if member.syncing is not None:
        stale = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        effects.append(Answer(member.syncing, stale))
    member.syncing = reply
    if request.member_id != group.leader:
        return effects
    assigned = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    for other in group.members.values():
        other.assignment = assigned.get(other.member_id, b"")
    return [*effects, Persist(AssignmentStored(group.generation))]


def _sync_error(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def stored(group: ClassicGroup, ticket: Any, error: ErrorCode) -> list[Effect]:
    """The group was written down, or could not be."""
    if isinstance(ticket, StaticReplacement):
        return _static_replacement_stored(group, ticket, error)
    if not isinstance(ticket, AssignmentStored) or group.state is not ClassicState.COMPLETING_REBALANCE:
        return []
    if ticket.generation != group.generation:
        return []
    if error is ErrorCode.NONE:
        return group.propagate_assignment()
    return group.reset_assignment(error) + group.rebalance()


def _static_replacement_stored(group: ClassicGroup, ticket: StaticReplacement, error: ErrorCode) -> list[Effect]:
    if error is ErrorCode.NONE:
        return [Answer(ticket.reply, ticket.response)]
    effects: list[Effect] = []
    before = ticket.before
    if group.static_members.get(ticket.instance_id) == ticket.new_id:
        effects += group.replace_static(ticket.instance_id, before.member_id)
        member = group.members[before.member_id]
        member.change_protocols(before.protocols)
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        member.session_timeout_ms = before.session_timeout_ms
        effects.append(group.start_session(member))
    told = ticket.response
    refusal = JoinGroupResponse(
        error_code=error,
        generation_id=told.generation_id,
        protocol_type=told.protocol_type,
        protocol_name=told.protocol_name,
        leader=told.leader,
    )
    return [*effects, Answer(ticket.reply, refusal)]


# Heartbeats and leaving


def heartbeat(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ErrorCode, list[Effect]]:
    """Heartbeat: give the answer's code, and the effects."""
    code = generation_error(group, member_id, instance_id, generation)
    if code is ErrorCode.NONE and group.state is ClassicState.EMPTY:
        code = ErrorCode.UNKNOWN_MEMBER_ID
    if code is not ErrorCode.NONE:
        return code, []
    session = group.start_session(group.members[member_id])
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS, [session]
    return ErrorCode.NONE, [session]


def leave(group: ClassicGroup, identities: Sequence[MemberIdentity]) -> tuple[list[ErrorCode], list[Effect]]:
    """LeaveGroup: give the answer's code for each member, and the effects.

    The members go together, and one rebalance follows. A static member may be named by its instance id alone: so an
    operator removes it (KIP-345).
    """
    if group.state is ClassicState.DEAD:
        return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(identities), []
    codes: list[ErrorCode] = []
    effects: list[Effect] = []
    for identity in identities:
        code, removal = _remove(group, identity.member_id, identity.group_instance_id)
        codes.append(code)
        effects += removal
    if ErrorCode.NONE in codes:
        effects += group.maybe_complete_join() if group.state is ClassicState.PREPARING_REBALANCE else _shrunk(group)
    return codes, effects


def _remove(group: ClassicGroup, member_id: str, instance_id: str | None) -> tuple[ErrorCode, list[Effect]]:
    if not member_id:
        known_id = group.static_members.get(instance_id or "")
        return (ErrorCode.UNKNOWN_MEMBER_ID, []) if known_id is None else (ErrorCode.NONE, group.remove(known_id))
    if member_id in group.pending_members:
        group.pending_members.discard(member_id)
        return ErrorCode.NONE, [CancelTimer(pending_timer(member_id))]
    code = membership_error(group, member_id, instance_id)
    return (code, []) if code is not ErrorCode.NONE else (code, group.remove(member_id))


def _shrunk(group: ClassicGroup) -> list[Effect]:
    return group.rebalance() if group.is_in(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE) else []


# Timers and loading


def loaded(group: ClassicGroup) -> list[Effect]:
    """The group was read from the log: its members' sessions begin, and too large a group rebalances."""
    effects = [group.start_session(member) for member in group.members.values()]
    return effects + group.rebalance() if len(group.members) > group.size_max else effects


def session_expired(group: ClassicGroup, member_id: str) -> list[Effect]:
    """A member was silent for its session timeout."""
    member = group.members.get(member_id)
    if group.state is ClassicState.DEAD or member is None or member.is_waiting:
        return []
    return group.remove(member_id) + group.rebalance()


def pending_expired(group: ClassicGroup, member_id: str) -> list[Effect]:
    """Somebody was given a member id and did not come back with it; in Kafka this may also end a first rebalance."""
    if member_id not in group.pending_members:
        return []
    group.pending_members.discard(member_id)
    return group.complete_join_of_all()


def timer_expired(group: ClassicGroup, name: str) -> list[Effect]:
    """Route a timer to what it stands for."""
    kind, _, member_id = name.partition(":")
    match kind:
        case "join":
            return group.join_timer_expired()
        case "sync":
            return group.sync_timer_expired()
        case "session":
            return session_expired(group, member_id)
        case _:
            return pending_expired(group, member_id)
