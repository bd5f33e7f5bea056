"""One classic group at random: members come, rebalance, commit, fall silent and go, some of them out of turn.

`RandomClassic` makes events from what the ones before came to. It is given `perform`, which asks a coordinator and
gives its outcome; member ids in events are those of that coordinator.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

from tailrace.protocol.codec import encode_message
from tailrace.protocol.coordinator.consumer_protocol import ConsumerProtocolSubscription
from tailrace.protocol.error_codes import ErrorCode

Event = dict[str, Any]
Outcome = Mapping[str, Any]
Perform = Callable[[Event], Outcome]

GROUP = "g"
PROTOCOLS = (["range"], ["range", "sticky"], ["sticky", "range"], ["roundrobin", "sticky"], ["sticky"])
JOIN_VERSIONS = (3, 4, 8, 9)
GONE = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED}


@dataclass
class Member:
    """A member as it sees itself; `waits_for` is the reply it has been promised."""

    number: int
    instance: str | None
    protocols: list[str]
    version: int
    member_id: str = ""
    generation: int = -1
    waits_for: str = ""
    must_sync: bool = False
    others: tuple[str, ...] = ()


class RandomClassic:
    """See the module's docstring."""

    def __init__(self, random: Random, perform: Perform) -> None:
        self.random = random
        self._perform = perform
        self._replies = count()
        self.members: list[Member] = []
        self._joined = 0

    def play(self, steps: int) -> None:
        """Make events until there were so many."""
        chance = self.random
        size_max = chance.choice([3, 5, 1000])
        self._do({"op": "reset", "config": {"group.max.size": size_max}})
        self._do(
            {"op": "topics", "brokers": {"0": None}, "topics": {"t": {"id": "AAAAAAAAAAAAAAAAAAAAAg", "partitions": 2}}}
        )
        actions = [
            (self._new_member, 5),
            (self._rejoin, 6),
            (self._sync, 14),
            (self._heartbeat, 6),
            (self._leave, 2),
            (self._advance, 8),
            (self._describe, 2),
            (self._commit, 4),
            (self._fetch, 1),
            (self._delete, 1),
        ]
        for _ in range(steps):
            (action,) = chance.choices([a for a, _ in actions], [weight for _, weight in actions])
            action()

    def _do(self, event: Event) -> Outcome:
        outcome = self._perform(event)
        for answer in outcome["answers"]:
            self._answered(answer["reply"], answer["response"])
        return outcome

    def _answered(self, reply: str, response: Mapping[str, Any]) -> None:
        for member in [member for member in self.members if member.waits_for == reply]:
            member.waits_for = ""
            code = ErrorCode(response["errorCode"])
            if code in GONE:
                self.members.remove(member)
            elif "generationId" in response and code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                member.member_id = response["memberId"]
                member.generation = response["generationId"]
                member.must_sync = not code
                member.others = tuple(other["memberId"] for other in response["members"])
            elif code:
                member.must_sync = False

    # Events

    def _new_member(self) -> None:
        chance = self.random
        if len(self.members) >= 6:
            return
        instance = chance.choice([None, None, None, "ix", "iy"])
        version = 9 if instance and chance.random() < 0.6 else chance.choice(JOIN_VERSIONS)
        version = max(version, 5) if instance else version
        self._joined += 1
        member = Member(self._joined, instance, chance.choice(PROTOCOLS), version)
        self.members.append(member)
        self._join(member)

    def _join(self, member: Member) -> None:
        chance = self.random
        kind = "consumer" if chance.random() < 0.97 else "connect"
        request = {
            "groupId": GROUP,
            # No two sessions end at the same moment: which one Kafka would end first is left to a hash table.
            "sessionTimeoutMs": chance.choice([6000, 10000, 10000]) + 7 * member.number,
            "rebalanceTimeoutMs": chance.choice([8000, 20000]),
            "memberId": member.member_id,
            "protocolType": kind,
            "protocols": [{"name": name, "metadata": _subscription(name)} for name in member.protocols],
        }
        if member.version >= 5:
            request["groupInstanceId"] = member.instance
        if member.version >= 8:
            request["reason"] = None
        member.waits_for = f"r{next(self._replies)}"
        member.must_sync = False
        self._do({"op": "join", "version": member.version, "request": request, "reply": member.waits_for})
        if member.waits_for and not request["memberId"]:
            self._describe()  # it is not told its id yet, and who compares two coordinators has to know it

    def _rejoin(self) -> None:
        member = self._idle()
        if member is None:
            return
        if self.random.random() < 0.2:
            member.protocols = self.random.choice(PROTOCOLS)
        if member.instance and self.random.random() < 0.3:
            member.member_id = ""  # it was restarted
        self._join(member)

    def _sync(self) -> None:
        waiting = [m for m in self.members if m.must_sync and not m.waits_for]
        if not waiting:
            return
        member = self.random.choice(waiting)
        wrong = self.random.random() < 0.05
        request: Event = {
            "groupId": GROUP,
            "generationId": member.generation - wrong,
            "memberId": member.member_id,
            "groupInstanceId": member.instance,
            "protocolType": "consumer",
            "protocolName": None,
            "assignments": [
                {"memberId": other, "assignment": base64.b64encode(f"{number}".encode()).decode()}
                for number, other in enumerate(member.others)
                if self.random.random() < 0.9
            ],
        }
        member.waits_for = f"r{next(self._replies)}"
        self._do({"op": "sync", "version": 5, "request": request, "reply": member.waits_for})

    def _heartbeat(self) -> None:
        member = self._idle(with_id=True)
        if member is None:
            return
        generation = member.generation + self.random.choice([0, 0, 0, 0, 0, -1, 1])
        request = {
            "groupId": GROUP,
            "generationId": generation,
            "memberId": member.member_id,
            "groupInstanceId": member.instance if self.random.random() < 0.95 else "iz",
        }
        outcome = self._do({"op": "classic-heartbeat", "version": 4, "request": request})
        code = outcome.get("error") or ErrorCode(outcome["response"]["errorCode"]).name
        if code in ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID") and request["groupInstanceId"] == member.instance:
            self.members.remove(member)

    def _leave(self) -> None:
        chance = self.random
        leaving = chance.sample(self.members, min(len(self.members), chance.choice([1, 1, 2])))
        leaving = [member for member in leaving if member.member_id and not member.waits_for]
        if not leaving:
            return
        identities = [
            {
                "memberId": "" if member.instance and chance.random() < 0.5 else member.member_id,
                "groupInstanceId": member.instance,
                "reason": None,
            }
            for member in leaving
        ]
        self._do({"op": "leave", "version": 5, "request": {"groupId": GROUP, "members": identities}})
        self.members = [member for member in self.members if member not in leaving]

    def _advance(self) -> None:
        self._do({"op": "advance", "ms": self.random.choice([10, 500, 3000, 3000, 3000, 5001, 9001, 20001])})

    def _describe(self) -> None:
        self._do({"op": "describe-classic", "version": self.random.choice([5, 6]), "groups": [GROUP, "none"]})
        self._do({"op": "list", "states": [], "types": []})

    def _commit(self) -> None:
        chance = self.random
        member = self._idle(with_id=True) if chance.random() < 0.8 else None
        version = chance.choice([7, 8, 9])
        request = {
            "groupId": GROUP,
            "generationIdOrMemberEpoch": -1 if member is None else member.generation - chance.choice([0, 0, 0, 1]),
            "memberId": "" if member is None else member.member_id,
            "groupInstanceId": None if member is None else member.instance,
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {
                            "partitionIndex": number,
                            "committedOffset": chance.randrange(100),
                            "committedLeaderEpoch": chance.choice([-1, 3]),
                            "committedMetadata": chance.choice(["", None, "m", "x" * 5000 if number else "n"]),
                        }
                        for number in range(2)
                    ],
                }
            ],
        }
        self._do({"op": "commit", "version": version, "request": request})

    def _fetch(self) -> None:
        asked = self.random.choice([None, [{"name": "t", "partitionIndexes": [0, 1, 7]}]])
        group = {"groupId": GROUP, "topics": asked, "memberId": None, "memberEpoch": -1}
        self._do({"op": "fetch", "version": 9, "request": {"groups": [group], "requireStable": False}})

    def _delete(self) -> None:
        self._do({"op": "delete", "groups": [GROUP, "none"]})

    def _idle(self, *, with_id: bool = False) -> Member | None:
        """Pick a member that waits for no answer."""
        idle = [m for m in self.members if not m.waits_for and (m.member_id or not with_id)]
        return self.random.choice(idle) if idle else None


def _subscription(name: str) -> str:
    body = encode_message(ConsumerProtocolSubscription(topics=["t", name]), 1)
    return base64.b64encode(b"\x00\x01" + body).decode()
