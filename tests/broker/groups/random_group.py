"""One group at random: members of both protocols come, own, fall silent and go, and topics change under them.

`RandomGroup` makes events from what the ones before came to, so that most of them make sense and some do not. It is
given `perform`, which asks one coordinator or two. The names of members and the ids of topics are such that Java's hash
tables have them in order: where Kafka leaves it to them, we go by order.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from tailrace.broker.groups.embedded_protocol import read_assignment
from tailrace.protocol.codec import encode_message
from tailrace.protocol.coordinator.consumer_protocol import (
    AssignedTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopicPartition,
)
from tailrace.protocol.schema import Message
from tailrace.protocol.uuid import uuid_text

Event = dict[str, Any]
Outcome = Mapping[str, Any]
Perform = Callable[[Event], Outcome]

GROUP = "g"
NAMES = "abcdefgh"
INSTANCES = {"e": "ix", "f": "ix", "g": "iy", "h": "iy"}
TOPICS = ("t1", "t2", "t3", "u1", "u2")
PATTERNS = ("t.*", "u.*", ".*", "t1|u2", "", "(", "t\\d")
GONE = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "FENCED_INSTANCE_ID", "GROUP_ID_NOT_FOUND")
TOPIC_IDS = range(2, 16)
PROTOCOL_VERSION = 3


@dataclass
class Consumer:
    """A member of the consumer protocol, as it sees itself."""

    epoch: int
    owned: list[Any]
    instance: str | None


@dataclass
class Classic:
    """A member of the classic protocol, as it sees itself."""

    topics: list[str]
    instance: str | None = None
    generation: int = -1
    owned: list[tuple[str, list[int]]] = field(default_factory=list)
    must_sync: bool = False
    must_join: bool = False


class RandomGroup:
    """See the module's docstring. `protocol` and `due` tell how the group is, to choose fitting events."""

    def __init__(
        self,
        random: Random,
        perform: Perform,
        *,
        has_classic: bool,
        protocol: Callable[[], str],
        due: Callable[[], set[str]],
    ) -> None:
        self.random = random
        self._perform = perform
        self._has_classic = has_classic
        self._protocol = protocol
        self._due = due
        self._numbers = count()
        self._ids: dict[str, int] = {}
        self._assignor = "range" if has_classic else random.choice(["range", "uniform"])
        self._partitions = {name: random.randint(1, 6) for name in random.sample(TOPICS, random.randint(1, 5))}
        self._consumers: dict[str, Consumer] = {}
        self._classic: dict[str, Classic] = {}

    def play(self, steps: int) -> None:
        """Begin anew and go some steps."""
        config: dict[str, Any] = {"group.initial.rebalance.delay.ms": 1}
        if self._has_classic:
            config["group.consumer.assignors"] = "range"
            if self.random.random() < 0.2:
                config["group.consumer.migration.policy"] = self.random.choice(["upgrade", "downgrade", "disabled"])
        if self.random.random() < 0.2:
            config["group.consumer.max.size"] = 3
        self._perform({"op": "reset", "config": config, **self._cluster()})
        for _ in range(steps):
            if self._has_classic and self._protocol() != "consumer":
                if len(self._classic) > 1:
                    return  # several classic members are left: who of them leads is up to Kafka's hash tables
                self._classic_group_step()
            elif self._has_classic and self.random.random() < 0.5:
                self._rest(1)
                self._classic_step()
            else:
                self._step()

    # The cluster and time

    def _cluster(self) -> Event:
        for name in self._partitions:
            if name not in self._ids:
                self._ids[name] = next(number for number in TOPIC_IDS if number not in self._ids.values())
        topics = {
            name: {"id": uuid_text(self._ids[name].to_bytes(16, "big")), "partitions": partitions}
            for name, partitions in self._partitions.items()
        }
        return {"topics": topics}

    def _change_topics(self) -> None:
        name = self.random.choice(TOPICS)
        if name in self._partitions and self.random.random() < 0.3:
            del self._partitions[name]
            gone = self._ids.pop(name)
            self._perform({"op": "topics", **self._cluster()})
            self._ids.setdefault("the last id, not to be used again at once", gone)
        else:
            self._partitions[name] = self._partitions.get(name, 0) + self.random.randint(1, 3)
            self._perform({"op": "topics", **self._cluster()})

    def _rest(self, ms: int) -> None:
        self._perform({"op": "tasks"})
        self._perform({"op": "advance", "ms": ms})

    # The consumer protocol

    def _step(self) -> None:
        chance = self.random.random
        if chance() < 0.5:
            self._perform({"op": "tasks"})
        if "patterns" not in self._due():
            self._perform({"op": "advance", "ms": 1})
        choice = chance()
        if choice < 0.06:
            self._change_topics()
        elif choice < 0.12:
            self._perform({"op": "tasks"})
            if "timers at once" not in self._due():
                self._perform({"op": "advance", "ms": self.random.choice([100, 5000, 11000, 30000, 46000, 61000])})
        elif choice < 0.16:
            self._perform({"op": "describe", "groups": [GROUP, "nope"]})
            self._perform({"op": "list", "states": [], "types": []})
        else:
            self._consumer_step(self.random.choice(NAMES))

    def _consumer_step(self, name: str) -> None:
        known = self._consumers.get(name)
        if known is None or self.random.random() < 0.05:
            self._join_consumer(name)
        elif self.random.random() < 0.08:
            epoch = -2 if known.instance and self.random.random() < 0.6 else -1
            self._perform(self._heartbeat(name, epoch, instanceId=known.instance))
            del self._consumers[name]
        else:
            self._beat(name, known)

    def _join_consumer(self, name: str) -> None:
        random = self.random
        told: Event = {"instanceId": INSTANCES.get(name), "rebalanceTimeoutMs": 60000, "topicPartitions": []}
        if random.random() < 0.75:
            told["subscribedTopicNames"] = random.sample(TOPICS, random.randint(0, 3))
        if "subscribedTopicNames" not in told or random.random() < 0.25:
            told["subscribedTopicRegex"] = random.choice(PATTERNS)
        if random.random() < 0.2:
            told["serverAssignor"] = self._assignor
        if random.random() < 0.1:
            told["rackId"] = "r"
        if self._is_confusing(told):
            return
        outcome = self._perform(self._heartbeat(name, 0, **told))
        if "response" in outcome:
            response = outcome["response"]
            owned = response["assignment"]["topicPartitions"]
            self._consumers[name] = Consumer(response["memberEpoch"], owned, INSTANCES.get(name))

    def _is_confusing(self, told: Event) -> bool:
        """Whether Kafka 4.1 would assign by what the group was before this member came.

        Where the group's epoch is ahead of its target and does not rise again, it takes the kind of the subscriptions
        from before, and may give the new member partitions of topics that it never asked for. We do not.
        """
        is_late = bool(told.get("subscribedTopicRegex")) or not told.get("subscribedTopicNames")
        return is_late and "target" in self._due()

    def _beat(self, name: str, known: Consumer) -> None:
        random = self.random
        told: Event = {"instanceId": known.instance if random.random() < 0.9 else None}
        if random.random() < 0.5:
            told["topicPartitions"] = known.owned if random.random() < 0.9 else []
        if random.random() < 0.1:
            told["subscribedTopicNames"] = random.sample(TOPICS, random.randint(0, 3))
        if random.random() < 0.05:
            told["subscribedTopicRegex"] = random.choice(PATTERNS)
        if random.random() < 0.05:
            told["rebalanceTimeoutMs"] = random.choice([10000, 60000])
        if random.random() < 0.05:
            full = {"rebalanceTimeoutMs": 60000, "subscribedTopicNames": random.sample(TOPICS, 2)}
            told |= {**full, "topicPartitions": known.owned}
        epoch = known.epoch if random.random() < 0.95 else max(1, known.epoch + random.choice([-2, -1, 1]))
        if told.get("subscribedTopicRegex") and self._is_confusing(told):
            return
        outcome = self._perform(self._heartbeat(name, epoch, **told))
        if "response" in outcome:
            known.epoch = outcome["response"]["memberEpoch"]
            if outcome["response"]["assignment"]:
                known.owned = outcome["response"]["assignment"]["topicPartitions"]
        elif outcome["error"] in GONE and random.random() < 0.7:
            del self._consumers[name]

    @staticmethod
    def _heartbeat(name: str, epoch: int, **told: Any) -> Event:
        request = {
            "groupId": GROUP,
            "memberId": name,
            "memberEpoch": epoch,
            "instanceId": None,
            "rackId": None,
            "rebalanceTimeoutMs": -1,
            "subscribedTopicNames": None,
            "subscribedTopicRegex": None,
            "serverAssignor": None,
            "topicPartitions": None,
        }
        return {"op": "heartbeat", "version": 1, "request": {**request, **told}}

    # Classic members of a consumer group

    def _classic_step(self) -> None:
        random = self.random
        if not self._classic or (len(self._classic) < 3 and random.random() < 0.3):
            member = Classic(random.sample(TOPICS, random.randint(1, 3)), random.choice([None, None, "iz"]))
            self._join_classic("", member)
            return
        name = random.choice(list(self._classic))
        member = self._classic[name]
        choice = random.random()
        if member.must_sync and choice < 0.9:
            self._sync_classic(name, member)
        elif member.must_join and choice < 0.9:
            if random.random() < 0.1:
                member.topics = random.sample(TOPICS, random.randint(1, 3))
            self._join_classic(name, member)
        elif choice < 0.85:
            self._beat_classic(name, member)
        elif choice < 0.92:
            self._leave(name if random.random() < 0.8 else "", member.instance)
            del self._classic[name]
        else:
            self._leave("a", None)

    def _join_classic(self, name: str, member: Classic) -> Outcome:
        outcome = self._perform(self._join_event(name, member))
        for answer in outcome["answers"]:
            response = answer.get("response", {})
            if response.get("errorCode") in (0, 79):
                joined = self._classic.setdefault(response["memberId"], member)
                joined.must_join = False
                if response["errorCode"] == 0:
                    joined.generation = response["generationId"]
                    joined.must_sync = True
                else:
                    joined.must_join = True
        return outcome

    def _join_event(self, name: str, member: Classic) -> Event:
        return {
            "op": "join",
            "version": 9,
            "reply": f"j{next(self._numbers)}",
            "request": {
                "groupId": GROUP,
                "sessionTimeoutMs": 10000,
                "rebalanceTimeoutMs": 30000,
                "memberId": name,
                "groupInstanceId": member.instance,
                "protocolType": "consumer",
                "protocols": [{"name": "range", "metadata": subscription(member.topics, member.owned)}],
                "reason": None,
            },
        }

    def _sync_classic(self, name: str, member: Classic, assigned: Event | None = None) -> None:
        outcome = self._perform(
            {
                "op": "sync",
                "version": 5,
                "reply": f"s{next(self._numbers)}",
                "request": {
                    "groupId": GROUP,
                    "generationId": member.generation,
                    "memberId": name,
                    "groupInstanceId": member.instance,
                    "protocolType": "consumer",
                    "protocolName": "range",
                    "assignments": [{"memberId": name, "assignment": assigned}] if assigned else [],
                },
            }
        )
        for answer in outcome["answers"]:
            response = answer.get("response", {})
            member.must_sync = False
            if response.get("errorCode") == 0:
                read = read_assignment(base64.b64decode(response["assignment"]))
                member.owned = [(topic.topic, topic.partitions) for topic in read.assigned_partitions]
            else:
                member.must_join = True

    def _beat_classic(self, name: str, member: Classic) -> None:
        request = {
            "groupId": GROUP,
            "generationId": member.generation,
            "memberId": name,
            "groupInstanceId": member.instance,
        }
        outcome = self._perform({"op": "classic-heartbeat", "version": 4, "request": request})
        code = outcome.get("response", {}).get("errorCode")
        if code == 27:
            member.must_join = True
        elif code != 0 and self.random.random() < 0.5:
            del self._classic[name]

    def _leave(self, name: str, instance: str | None) -> None:
        identity = {"memberId": name, "groupInstanceId": instance, "reason": None}
        self._perform({"op": "leave", "version": 5, "request": {"groupId": GROUP, "members": [identity]}})

    # A classic group, on its way to become a consumer group

    def _classic_group_step(self) -> None:
        random = self.random
        protocol = self._protocol()
        if protocol == "none":
            self._classic.clear()
            self._consumers.clear()
            if random.random() < 0.3:
                self._step()
                return
            member = Classic(random.sample(TOPICS, random.randint(1, 3)))
            self._join_classic("", member)
            for name in self._classic:
                self._join_classic(name, member)
        elif protocol == "joining":
            for name, member in list(self._classic.items()):
                self._join_classic(name, member)
        self._rest(1)
        leader = next(iter(self._classic), None)
        if leader is not None and self._protocol() == "syncing" and random.random() < 0.85:
            self._assign_all_to(leader)
        name = random.choice(NAMES[:4])
        told = {"rebalanceTimeoutMs": 60000, "topicPartitions": [], "subscribedTopicNames": random.sample(TOPICS, 2)}
        outcome = self._perform(self._heartbeat(name, 0, **told))
        if "response" in outcome:
            response = outcome["response"]
            self._consumers[name] = Consumer(response["memberEpoch"], response["assignment"]["topicPartitions"], None)

    def _assign_all_to(self, leader: str) -> None:
        member = self._classic[leader]
        member.generation = max(member.generation, 1)
        owned = [(name, list(range(self._partitions[name]))) for name in member.topics if name in self._partitions]
        user_data = b"x" if self.random.random() < 0.05 else None
        self._sync_classic(leader, member, assignment(owned, user_data))


def subscription(topics: list[str], owned: list[tuple[str, list[int]]]) -> str:
    """Write what a classic consumer says in JoinGroup, as JSON has bytes."""
    listed = [OwnedTopicPartition(topic=topic, partitions=partitions) for topic, partitions in owned]
    return _embedded(ConsumerProtocolSubscription(topics=topics, owned_partitions=listed))


def assignment(owned: list[tuple[str, list[int]]], user_data: bytes | None = None) -> str:
    """Write what a leader says in SyncGroup."""
    listed = [AssignedTopicPartition(topic=topic, partitions=partitions) for topic, partitions in owned]
    return _embedded(ConsumerProtocolAssignment(assigned_partitions=listed, user_data=user_data))


def _embedded(message: Message) -> str:
    data = PROTOCOL_VERSION.to_bytes(2, "big") + bytes(encode_message(message, PROTOCOL_VERSION))
    return base64.b64encode(data).decode()
