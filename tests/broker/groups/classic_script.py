"""Events for a classic group in words, and what it does in words.

A line is a verb and `key=value` pairs: `join reply=r1 member= protocols=range,sticky`. Replies are names; member ids
that the group gives out are named by the event. The answer of each line is its effects, and then the group's state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tailrace.broker.groups import classic_requests
from tailrace.broker.groups.classic_group import ClassicGroup
from tailrace.broker.groups.classic_requests import AssignmentStored, Joining, StaticReplacement
from tailrace.broker.groups.effects import Answer, CancelTimer, Effect, Persist, SetTimer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tailrace.protocol.messages.leave_group import MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

Fields = dict[str, str]


def perform(events: list[str]) -> Iterator[list[str]]:
    """Run the events on a new group and give the answer of each."""
    script = _Script()
    for event in events:
        verb, *pairs = event.split()
        yield script.run(verb, dict(pair.split("=", 1) for pair in pairs))


class _Script:
    def __init__(self) -> None:
        self.group = ClassicGroup("g", initial_rebalance_delay_ms=3000, size_max=2**31 - 1)
        self.tickets: list[AssignmentStored | StaticReplacement | None] = []

    def run(self, verb: str, fields: Fields) -> list[str]:
        verbs: dict[str, Callable[[Fields], list[str]]] = {
            "size": self.size,
            "join": self.join,
            "sync": self.sync,
            "heartbeat": self.heartbeat,
            "leave": self.leave,
            "timer": lambda f: self.told(classic_requests.timer_expired(self.group, f["name"])),
            "stored": self.stored,
        }
        return [*verbs[verb](fields), f"  {self.state()}"]

    def size(self, fields: Fields) -> list[str]:
        self.group.size_max = int(fields["max"])
        return []

    def join(self, fields: Fields) -> list[str]:
        names = [name for name in fields.get("protocols", "range").split(",") if name]
        metadata = fields.get("metadata", "m").encode()
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=int(fields.get("session", "10000")),
            rebalance_timeout_ms=int(fields.get("rebalance", "60000")),
            member_id=fields.get("member", ""),
            group_instance_id=fields.get("instance"),
            protocol_type=fields.get("type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
        )
        version = int(fields.get("version", "9"))
        event = Joining(
            reply=fields["reply"],
            request=request,
            client_id="client",
            client_host="/127.0.0.1",
            new_member_id=fields.get("new", ""),
            needs_known_id=version >= 4,
            can_skip_assignment=version >= 9,
        )
        return self.told(classic_requests.join(self.group, event))

    def sync(self, fields: Fields) -> list[str]:
        pairs = [pair.split(":") for pair in fields.get("assign", "").split(",") if pair]
        request = SyncGroupRequest(
            group_id="g",
            generation_id=int(fields["generation"]),
            member_id=fields["member"],
            group_instance_id=fields.get("instance"),
            protocol_type=fields.get("type"),
            protocol_name=fields.get("protocol"),
            assignments=[SyncGroupRequestAssignment(member_id=m, assignment=a.encode()) for m, a in pairs],
        )
        return self.told(classic_requests.sync(self.group, fields["reply"], request))

    def heartbeat(self, fields: Fields) -> list[str]:
        member, instance, generation = fields["member"], fields.get("instance"), int(fields["generation"])
        code, effects = classic_requests.heartbeat(self.group, member, instance, generation)
        return [code.name, *self.told(effects)]

    def leave(self, fields: Fields) -> list[str]:
        members = fields.get("member", "").split(",")
        identities = [MemberIdentity(member_id=member, group_instance_id=fields.get("instance")) for member in members]
        codes, effects = classic_requests.leave(self.group, identities)
        return [" ".join(code.name for code in codes), *self.told(effects)]

    def stored(self, fields: Fields) -> list[str]:
        error = ErrorCode[fields.get("error", "NONE")]
        return self.told(classic_requests.stored(self.group, self.tickets.pop(0), error))

    def told(self, effects: list[Effect]) -> list[str]:
        return [self.effect(effect) for effect in effects]

    def effect(self, effect: Effect) -> str:
        match effect:
            case SetTimer():
                return f"timer {effect.name} in {effect.delay_ms}"
            case CancelTimer():
                return f"no timer {effect.name}"
            case Persist():
                self.tickets.append(effect.ticket)
                return f"write the group, generation {self.group.generation}"
            case Answer(reply, JoinGroupResponse() as joined):
                return f"answer {reply}: {_joined(joined)}"
            case Answer(reply, SyncGroupResponse() as synced):
                code = ErrorCode(synced.error_code)
                return f"answer {reply}: {code.name if code else 'assigned ' + synced.assignment.decode()}"
            case _:
                raise AssertionError(effect)

    def state(self) -> str:
        group = self.group
        members = " ".join(
            f"{m.member_id}{'@' + m.group_instance_id if m.group_instance_id else ''}"
            f"{' joining' if m.joining else ''}{' syncing' if m.syncing else ''}"
            for m in group.members.values()
        )
        pending = f" pending {','.join(sorted(group.pending_members))}" if group.pending_members else ""
        return f"{group.state} {group.generation} {group.protocol_name} leader {group.leader} [{members}]{pending}"


def _joined(response: JoinGroupResponse) -> str:
    if response.error_code:
        return f"{ErrorCode(response.error_code).name} member {response.member_id}"
    members = ",".join(member.member_id for member in response.members)
    skip = " skip assignment" if response.skip_assignment else ""
    generation = f"generation {response.generation_id} {response.protocol_name}"
    return f"member {response.member_id} {generation} leader {response.leader} of [{members}]{skip}"
