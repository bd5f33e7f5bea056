"""Events for a consumer group in words, and what it does in words.

A line is a verb and `key=value` pairs: `join member=a topics=t,u`, `beat member=a epoch=1 owned=t:0,1`. The answer of
each line is what the member is told, the records in short, and then the group's state. Topics are named; `t:0,1+u:2` is
an assignment. Members of the classic protocol `classic-join`, `classic-sync`, `classic-beat` and `classic-leave`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tailrace.broker.groups.consumer_member import ConsumerMember
from tailrace.broker.groups.embedded_protocol import read_assignment
from tailrace.broker.groups.hosted_consumer import HostedConsumerGroup
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.uuid import parse_uuid, uuid_text
from tests.broker.groups.group_events import GroupEvents
from tests.broker.groups.random_group import RandomGroup, subscription

Fields = dict[str, str]
GROUP = "g"
TOPIC_ID_FIRST = 16
CLASSIC_ID = "client-00000000-0000-0000-0000-00000000000"
"""The beginning of the ids that classic members get; they are `c1`, `c2`, ... in a script."""
STATES = {0: "stable", 1: "unrevoked", 2: "unreleased"}


def perform(events: list[str]) -> Iterator[list[str]]:
    """Run the events on a new coordinator and give the answer of each."""
    script = _Script()
    for event in events:
        verb, *pairs = event.split()
        fields = dict(pair.split("=", 1) for pair in pairs)
        if verb.startswith("classic") and fields.get("member", "").startswith("c"):
            fields["member"] = CLASSIC_ID + fields["member"][1:]
        yield [line.replace(CLASSIC_ID, "c") for line in script.run(verb, fields)]


class _Script:
    def __init__(self) -> None:
        self.groups = GroupEvents()
        self.names: list[str] = []
        self.replies = 0

    def run(self, verb: str, fields: Fields) -> list[str]:
        verbs: dict[str, Callable[[Fields], list[str]]] = {
            "topics": self.topics,
            "settings": self.settings,
            "join": self.join,
            "beat": self.beat,
            "leave": self.leave,
            "wait": lambda f: self.told({"op": "advance", "ms": int(f["ms"])}),
            "patterns": lambda _: self.told({"op": "tasks"}),
            "reload": self.reload,
            "classic-join": self.classic_join,
            "classic-sync": self.classic_sync,
            "classic-beat": self.classic_beat,
            "classic-leave": self.classic_leave,
        }
        return [*verbs[verb](fields), f"  {self.state()}"]

    # Events

    def settings(self, fields: Fields) -> list[str]:
        return self.told({"op": "reset", "config": fields, "topics": {}})

    def topics(self, fields: Fields) -> list[str]:
        self.names += [name for name in fields if name not in self.names]
        topics = {
            name: {"id": uuid_text((TOPIC_ID_FIRST + self.names.index(name)).to_bytes(16, "big")), "partitions": int(n)}
            for name, n in fields.items()
        }
        return self.told({"op": "topics", "topics": topics})

    def join(self, fields: Fields) -> list[str]:
        told: dict[str, Any] = {
            "rebalanceTimeoutMs": int(fields.get("rebalance", "60000")),
            "subscribedTopicNames": [name for name in fields.get("topics", "").split(",") if name],
            "topicPartitions": [],
            "instanceId": fields.get("instance"),
            "subscribedTopicRegex": fields.get("pattern"),
            "serverAssignor": fields.get("assignor"),
        }
        return self.told(RandomGroup._heartbeat(fields["member"], 0, **told))

    def beat(self, fields: Fields) -> list[str]:
        told: dict[str, Any] = {"instanceId": fields.get("instance"), "subscribedTopicRegex": fields.get("pattern")}
        if "topics" in fields:
            told["subscribedTopicNames"] = [name for name in fields["topics"].split(",") if name]
        if "owned" in fields:
            told["topicPartitions"] = self.owned(fields["owned"])
        return self.told(RandomGroup._heartbeat(fields["member"], int(fields["epoch"]), **told))

    def leave(self, fields: Fields) -> list[str]:
        epoch = -2 if fields.get("for") == "now" else -1
        return self.told(RandomGroup._heartbeat(fields["member"], epoch, instanceId=fields.get("instance")))

    def reload(self, _: Fields) -> list[str]:
        self.groups.load(self.groups.log.records)
        return []

    def classic_join(self, fields: Fields) -> list[str]:
        owned = [(name, numbers) for name, numbers in self.assignment(fields.get("owned", "")).items()]
        request = {
            "groupId": GROUP,
            "sessionTimeoutMs": 10000,
            "rebalanceTimeoutMs": 30000,
            "memberId": fields.get("member", ""),
            "groupInstanceId": fields.get("instance"),
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(fields["topics"].split(","), owned)}],
            "reason": None,
        }
        event = {"op": "join", "version": 9, "reply": self.reply(), "request": request}
        return self.told(event, new_ids=[CLASSIC_ID + fields.get("number", "1")])

    def classic_sync(self, fields: Fields) -> list[str]:
        request = {
            "groupId": GROUP,
            "generationId": int(fields["generation"]),
            "memberId": fields["member"],
            "groupInstanceId": fields.get("instance"),
            "protocolType": "consumer",
            "protocolName": "range",
            "assignments": [],
        }
        return self.told({"op": "sync", "version": 5, "reply": self.reply(), "request": request})

    def classic_beat(self, fields: Fields) -> list[str]:
        request = {
            "groupId": GROUP,
            "generationId": int(fields["generation"]),
            "memberId": fields["member"],
            "groupInstanceId": fields.get("instance"),
        }
        return self.told({"op": "classic-heartbeat", "version": 4, "request": request})

    def classic_leave(self, fields: Fields) -> list[str]:
        identity = {
            "memberId": fields.get("member", ""),
            "groupInstanceId": fields.get("instance"),
            "reason": None,
        }
        return self.told({"op": "leave", "version": 5, "request": {"groupId": GROUP, "members": [identity]}})

    def reply(self) -> str:
        self.replies += 1
        return f"r{self.replies}"

    # In words

    def told(self, event: Mapping[str, Any], new_ids: list[str] | None = None) -> list[str]:
        outcome = self.groups.perform(event, new_ids=new_ids or ())
        lines: list[str] = []
        if "error" in outcome:
            lines.append(outcome["error"])
        response = outcome.get("response")
        if event["op"] == "heartbeat" and response is not None:
            lines.append(self.heartbeat_answer(response))
        elif event["op"] == "classic-heartbeat" and response is not None:
            lines.append(ErrorCode(response["errorCode"]).name)
        elif event["op"] == "leave" and response is not None:
            lines += response
        lines += [self.classic_answer(answer) for answer in outcome["answers"]]
        return lines + [self.record(record) for record in outcome["records"]]

    def heartbeat_answer(self, response: Mapping[str, Any]) -> str:
        assigned = response["assignment"]
        has = "" if assigned is None else f" has {self.partitions(assigned['topicPartitions'])}"
        return f"answer: epoch {response['memberEpoch']}{has}"

    def classic_answer(self, answer: Mapping[str, Any]) -> str:
        response = answer["response"]
        if response["errorCode"]:
            named = f" member {response['memberId']}" if response.get("memberId") else ""
            return f"answer: {ErrorCode(response['errorCode']).name}{named}"
        if "assignment" in response:
            read = read_assignment(base64.b64decode(response["assignment"]))
            named = "+".join(f"{t.topic}:{','.join(map(str, t.partitions))}" for t in read.assigned_partitions)
            return f"answer: assigned {named or 'nothing'}"
        leads = f", leader {response['leader']}" if response["leader"] else ""
        return f"answer: member {response['memberId']} generation {response['generationId']}{leads}"

    def record(self, record: Mapping[str, Any]) -> str:
        key, value = record["key"], record["value"]
        member = key.get("memberId", "")
        match record["type"]:
            case 2:
                what = f"classic group{'' if value is None else ', generation ' + str(value['generation'])}"
            case 3:
                what = f"group{'' if value is None else ' epoch ' + str(value['epoch'])}"
            case 4:
                what = "partition metadata"
            case 5:
                what = f"member {member}{'' if value is None else self.subscribed(value)}"
            case 6:
                what = f"targets{'' if value is None else ' of epoch ' + str(value['assignmentEpoch'])}"
            case 7:
                what = f"target of {member}{'' if value is None else ': ' + self.partitions(value['topicPartitions'])}"
            case 8:
                what = f"current {member}{'' if value is None else self.current(value)}"
            case _:
                what = f"pattern {key['regularExpression']}{'' if value is None else ': ' + ','.join(value['topics'])}"
        return f"{'write' if value is not None else 'forget'} {what}"

    @staticmethod
    def subscribed(value: Mapping[str, Any]) -> str:
        topics = f" wants {','.join(value['subscribedTopicNames'])}" if value["subscribedTopicNames"] else ""
        pattern = f" wants {value['subscribedTopicRegex']}" if value["subscribedTopicRegex"] else ""
        return topics + pattern + (" (classic)" if value["classicMemberMetadata"] else "")

    def current(self, value: Mapping[str, Any]) -> str:
        revoked = value["partitionsPendingRevocation"]
        gives = f" gives up {self.partitions(revoked)}" if revoked else ""
        epochs = f" epoch {value['memberEpoch']} after {value['previousMemberEpoch']}"
        return f"{epochs} {STATES[value['state']]} has {self.partitions(value['assignedPartitions'])}{gives}"

    def state(self) -> str:
        hosted = self.groups.shard.groups.get(GROUP)
        if hosted is None:
            return "no group"
        if not isinstance(hosted, HostedConsumerGroup):
            return f"classic {hosted.state_name}, {hosted.member_count} members"
        group = hosted.group
        members = " ".join(self.member(member) for _, member in sorted(group.members.items()))
        return f"{group.state} epoch {group.group_epoch} targets {group.assignment_epoch} [{members}]"

    @staticmethod
    def member(member: ConsumerMember) -> str:
        instance = f"@{member.instance_id}" if member.instance_id else ""
        return f"{member.member_id}{instance}:{member.member_epoch}:{STATES[member.state]}"

    # Assignments

    def partitions(self, listed: list[dict[str, Any]]) -> str:
        named = sorted((self.names[parse_uuid(t["topicId"])[-1] - TOPIC_ID_FIRST], t["partitions"]) for t in listed)
        return "+".join(f"{name}:{','.join(map(str, sorted(numbers)))}" for name, numbers in named) or "nothing"

    @staticmethod
    def assignment(text: str) -> dict[str, list[int]]:
        parts = [part.split(":") for part in text.split("+") if part]
        return {name: [int(number) for number in numbers.split(",")] for name, numbers in parts}

    def owned(self, text: str) -> list[dict[str, Any]]:
        return [
            {
                "topicId": uuid_text((TOPIC_ID_FIRST + self.names.index(name)).to_bytes(16, "big")),
                "partitions": numbers,
            }
            for name, numbers in self.assignment(text).items()
        ]
