"""Events for our group coordinator in the form that `oracle/group_oracle.py` gives to Kafka's, and what they did.

The coordinator is the real one on a log that is a list, with virtual time and a cluster that "topics" events describe.
One event goes in, its records and answers come out, so that the two can be held side by side; and the records of all
events can be loaded into another coordinator, which must then be in the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from tailrace.broker.coordinator_log import EncodedRecord
from tailrace.broker.groups import group_coordinator
from tailrace.broker.groups.classic_group import ClassicState
from tailrace.broker.groups.group_coordinator import GroupCoordinator
from tailrace.broker.groups.hosted_classic import HostedClassicGroup
from tailrace.broker.groups.hosted_consumer import HostedConsumerGroup
from tailrace.broker.metadata_store import (
    BrokerRegistration,
    ConfigResource,
    ConfigResourceType,
    MetadataDelta,
    TopicRegistration,
)
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.protocol.coordinator.record_codec import (
    GROUP_RECORDS,
    CoordinatorRecord,
    decode_record,
    encode_record,
    written_version,
)
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.json_form import message_from_json, message_to_json
from tailrace.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse, DescribedGroup
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.messages.join_group import JoinGroupRequest
from tailrace.protocol.messages.leave_group import LeaveGroupRequest
from tailrace.protocol.messages.sync_group import SyncGroupRequest
from tailrace.protocol.schema import Message
from tailrace.protocol.uuid import parse_uuid
from tailrace.settings.broker_config import BrokerConfig
from tailrace.testing.virtual_clock import VirtualClock

Event = Mapping[str, Any]
Outcome = dict[str, Any]

GROUP = "g"
JAVA_UUID_LENGTH = 36
UUID_LENGTH = 22


class ListedLog:
    """A coordinator's log that keeps what is appended, and fails when it is told to."""

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.failure = ErrorCode.NONE
        self.partition = SimpleNamespace(topic_partition="__consumer_offsets-0", log=self)

    @property
    def log_end_offset(self) -> int:
        return len(self.records)

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        on_done: Callable[[ErrorCode], object],
        on_commit: Callable[[], object] | None = None,
        **_: Any,
    ) -> None:
        if self.failure:
            on_done(self.failure)
            return
        self.records += records
        if on_commit is not None:
            on_commit()
        on_done(ErrorCode.NONE)

    def append_encoded(self, encoded: Sequence[EncodedRecord], **options: Any) -> None:
        records = [decode_record(GROUP_RECORDS, key, value) for key, value in encoded]
        self.append([record for record in records if isinstance(record, CoordinatorRecord)], **options)

    def after_commits(self, on_done: Callable[[ErrorCode], object]) -> None:
        on_done(ErrorCode.NONE)


@dataclass
class DescribedCluster:
    """The cluster that events describe."""

    topics: dict[str, TopicRegistration] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)

    def topic(self, name: str) -> TopicRegistration | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicRegistration | None:
        return next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def configs(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.group_configs.get(resource.name, {})

    def become(self, event: Event) -> MetadataDelta:
        """Take an event's topics and brokers, and say what is different."""
        former, former_brokers = self.topics, self.brokers
        if "brokers" in event:
            self.brokers = {int(n): BrokerRegistration(int(n), (), rack) for n, rack in event["brokers"].items()}
        self.topics = {
            name: self._registration(name, topic, former.get(name)) for name, topic in event.get("topics", {}).items()
        }
        there = {topic.topic_id: topic for topic in former.values()}
        now = {topic.topic_id: topic for topic in self.topics.values()}
        return MetadataDelta(
            created_topics=tuple(topic for topic_id, topic in now.items() if topic_id not in there),
            deleted_topics=tuple(topic for topic_id, topic in there.items() if topic_id not in now),
            changed_topics=tuple(t for topic_id, t in now.items() if topic_id in there and there[topic_id] is not t),
            brokers_changed=self.brokers != former_brokers,
        )

    @staticmethod
    def _registration(name: str, described: Event, former: TopicRegistration | None) -> TopicRegistration:
        replicas = described.get("replicas", [])
        registration = TopicRegistration(
            name,
            parse_uuid(described["id"]),
            tuple(
                PartitionRegistration(tuple(held), tuple(held), held[0])
                for held in (replicas[n] if n < len(replicas) else [0] for n in range(described["partitions"]))
            ),
        )
        return former if former == registration and former is not None else registration


class GroupEvents:
    """Our coordinator, behind events."""

    def __init__(self) -> None:
        self.reset({})

    def reset(self, event: Event) -> None:
        """Begin anew, with other settings."""
        self.clock = VirtualClock()
        self.cluster = DescribedCluster()
        config = {key: str(value) for key, value in event.get("config", {}).items()}
        self.config = BrokerConfig({"log.dirs": "/none", "node.id": "0", **config})
        self.cluster.become(event)
        self.log = ListedLog()
        self._start()

    def _start(self) -> None:
        manager: Any = SimpleNamespace(clock=self.clock, metadata=self.cluster, config=self.config)
        self.coordinator = GroupCoordinator(manager)
        self.shard = self.coordinator._make_shard(self.log)  # type: ignore[arg-type]
        self.coordinator.topic = SimpleNamespace(  # type: ignore[assignment]
            shard=lambda group_id: self.shard, shards=lambda: [self.shard], is_loading=False
        )

    def load(self, records: Iterable[CoordinatorRecord]) -> None:
        """Begin anew on what was written, as another broker or a restarted one does."""
        self.shard.resign()
        records = list(records)
        self.log = ListedLog()
        self._start()
        for offset, record in enumerate(records):
            self.shard.replay(record, offset=offset, producer_id=-1)
        self.log.records = records
        self.shard.activate()

    def perform(self, event: Event, *, new_ids: Sequence[str] = ()) -> Outcome:
        """Do what the event says and tell what came of it; members without an id get one of `new_ids`."""
        texts = [text[-JAVA_UUID_LENGTH:] for text in new_ids if len(text) > JAVA_UUID_LENGTH]
        uuids = [parse_uuid(text) for text in new_ids if len(text) == UUID_LENGTH]
        with (
            patch.object(group_coordinator, "random_uuid_text", lambda: texts[-1] if texts else "0" * JAVA_UUID_LENGTH),
            patch.object(group_coordinator, "random_uuid", lambda: uuids[-1] if uuids else bytes(15) + b"\xff"),
        ):
            return self._perform(event)

    def _perform(self, event: Event) -> Outcome:
        outcome: Outcome = {"answers": []}
        self._answers: list[dict[str, Any]] = outcome["answers"]
        written = len(self.log.records)
        try:
            response = self._run(event, outcome)
        except ApiError as error:
            outcome["error"], outcome["message"] = error.code.name, error.message
        else:
            if response is not None:
                outcome["response"] = response
        if event["op"] == "reset":
            written = 0
        outcome["records"] = [describe_record(record) for record in self.log.records[written:]]
        return outcome

    def _run(self, event: Event, outcome: Outcome) -> Any:
        verb = getattr(self, "_" + event["op"].replace("-", "_"))
        return verb(event, outcome)

    # The events

    def _reset(self, event: Event, outcome: Outcome) -> None:
        self.reset(event)

    def _topics(self, event: Event, outcome: Outcome) -> None:
        self.coordinator._on_metadata(self.cluster.become(event))

    def _advance(self, event: Event, outcome: Outcome) -> None:
        self.clock.advance(event["ms"])

    def _tasks(self, event: Event, outcome: Outcome) -> None:
        self.clock.advance(0)

    def _group_config(self, event: Event, outcome: Outcome) -> None:
        self.cluster.group_configs[event["group"]] = dict(event["config"])
        changed = (ConfigResource(ConfigResourceType.GROUP, event["group"]),)
        self.coordinator._on_metadata(MetadataDelta(changed_configs=changed))

    def _heartbeat(self, event: Event, outcome: Outcome) -> Any:
        version = event.get("version", 0)
        answers: list[Message] = []
        self.coordinator.consumer_heartbeat(
            message_from_json(ConsumerGroupHeartbeatRequest, version, event["request"]),
            version=version,
            client_id=event.get("client", "client"),
            client_host="/" + event.get("host", "127.0.0.1"),
            visible=list,
            reply=answers.append,
        )
        (answer,) = answers
        return message_to_json(answer, version)

    def _describe(self, event: Event, outcome: Outcome) -> Any:
        described: list[Any] = []
        for group_id in event["groups"]:
            try:
                group = self.coordinator.describe_consumer_group(group_id)
            except ApiError as error:
                group = DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
            described += message_to_json(ConsumerGroupDescribeResponse(groups=[group]), 1)["groups"]
        return described

    def _list(self, event: Event, outcome: Outcome) -> Any:
        return [
            {
                "groupId": group.group_id,
                "protocolType": group.protocol_type,
                "groupState": str(group.state_name),
                "groupType": str(group.group_type),
            }
            for group in self.coordinator.list()
        ]

    def _join(self, event: Event, outcome: Outcome) -> None:
        version = event["version"]
        self.coordinator.join(
            message_from_json(JoinGroupRequest, version, event["request"]),
            version=version,
            client_id=event.get("client", "client"),
            client_host="/" + event.get("host", "127.0.0.1"),
            reply=lambda response: self._answer(event, response),
        )

    def _sync(self, event: Event, outcome: Outcome) -> None:
        request = message_from_json(SyncGroupRequest, event["version"], event["request"])
        self.coordinator.sync(request, reply=lambda response: self._answer(event, response))

    def _answer(self, event: Event, response: Message) -> None:
        """Count an answer to the event that brought it, whichever asked for it."""
        self._answers.append({"reply": event.get("reply", ""), "response": message_to_json(response, event["version"])})

    def _classic_heartbeat(self, event: Event, outcome: Outcome) -> Any:
        request = message_from_json(HeartbeatRequest, event["version"], event["request"])
        code = self.coordinator.heartbeat(request)
        return message_to_json(HeartbeatResponse(error_code=code), event["version"])

    def _leave(self, event: Event, outcome: Outcome) -> Any:
        request = message_from_json(LeaveGroupRequest, event["version"], event["request"])
        codes = self.coordinator.leave(request.group_id, request.members)
        return [code.name for code in codes]

    # How the group is, for whoever makes events

    def protocol(self) -> str:
        """Say of which protocol the group is: none, consumer, or how far a classic one is."""
        group = self.shard.groups.get(GROUP)
        if group is None or group.is_empty:
            return "none"
        if isinstance(group, HostedConsumerGroup):
            return "consumer"
        assert isinstance(group, HostedClassicGroup)
        states = {ClassicState.PREPARING_REBALANCE: "joining", ClassicState.COMPLETING_REBALANCE: "syncing"}
        return states.get(group.group.state, "stable")

    def due(self) -> set[str]:
        """Say what is about to happen in the group: patterns, a new target, several timers at once."""
        group = self.shard.groups.get(GROUP)
        if not isinstance(group, HostedConsumerGroup):
            return set()
        deadlines = [round(timer.deadline, 4) for timer in group._timers._timers.values()]
        due = {
            "patterns": group._is_resolving,
            "target": group.group.group_epoch > group.group.assignment_epoch,
            "timers at once": len(set(deadlines)) < len(deadlines),
        }
        return {name for name, is_due in due.items() if is_due}


def describe_record(record: CoordinatorRecord) -> dict[str, Any]:
    """Give a record in the form in which the oracle gives one."""
    key, value = record
    key_bytes, value_bytes = encode_record(key, value)
    described: dict[str, Any] = {
        "type": key.record_type,
        "key": message_to_json(key, 0),
        "keyBytes": key_bytes.hex(),
        "value": None,
        "valueBytes": None if value_bytes is None else value_bytes.hex(),
    }
    if value is not None:
        described["value"] = message_to_json(value, written_version(value))
    return described
