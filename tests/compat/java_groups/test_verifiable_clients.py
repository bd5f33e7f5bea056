"""Kafka's VerifiableProducer and VerifiableConsumer, with which Kafka tests itself, in groups of both protocols."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest

from tailrace.testing.apache_kafka import run_tool, unavailable
from tests.compat.java_groups.conftest import produce
from tests.compat.java_groups.java_process import JavaProcess, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]

PARTITIONS = 6
COUNT = 120
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"


class Members:
    """VerifiableConsumers of one group, as the tests start and end them."""

    def __init__(self, folder: Path, servers: str, group: str, topic: str) -> None:
        self.folder = folder
        self.config = folder / "consumer.properties"
        self.config.write_text("heartbeat.interval.ms=300\n")
        self.arguments = ["--bootstrap-server", servers, "--topic", topic, "--group-id", group]
        self.topic = topic
        self.alive: list[JavaProcess] = []
        self.gone: list[JavaProcess] = []

    def start(self, kind: list[str], *arguments: str) -> JavaProcess:
        """Start a member; `kind` says how it takes part in the group."""
        program = "org.apache.kafka.tools.VerifiableConsumer"
        member = JavaProcess(self.folder, program, *self.arguments, *self.settings(kind), *kind, *arguments)
        self.alive.append(member)
        return member

    def settings(self, kind: list[str]) -> list[str]:
        """Have every record printed; classic members hear soon of a rebalance, the others when the broker wants it."""
        return ["--verbose"] if kind[0] == CONSUMER[0] else ["--verbose", "--consumer.config", str(self.config)]

    def end(self, member: JavaProcess, *, kill: bool = False) -> None:
        self.alive.remove(member)
        self.gone.append(member)
        if kill:
            member.kill()
        else:
            assert member.stop() in (0, 143), member

    def share_all(self) -> bool:
        """Whether each member has some of the partitions, all have them all, and none is had twice."""
        owned = [assigned(member) for member in self.alive]
        return all(owned) and sorted(itertools.chain(*owned)) == list(range(PARTITIONS))

    def wait_until_shared(self) -> None:
        wait_until(self.alive, self.share_all)

    def values(self) -> list[int]:
        return [int(event["value"]) for member in self.alive + self.gone for event in member.named("record_data")]


def assigned(member: JavaProcess) -> list[int]:
    """The partitions that a member has now, by what it said about assignments and revocations."""
    owned: set[int] = set()
    for event in member.events:
        partitions = {partition["partition"] for partition in event.get("partitions", ())}
        if event["name"] == "partitions_assigned":
            owned |= partitions
        elif event["name"] == "partitions_revoked":
            owned -= partitions
    return sorted(owned)


@pytest.fixture
def topic(servers: str, make_topic: Callable[..., str]) -> str:
    name = make_topic(PARTITIONS)
    produce(servers, name, COUNT)
    return name


@pytest.fixture
def members(tmp_path: Path, servers: str, group: str, topic: str) -> Iterator[Members]:
    members = Members(tmp_path, servers, group, topic)
    yield members
    for member in members.alive:
        member.kill()


CLASSIC = ["--session-timeout", "6000"]
CONSUMER = ["--group-protocol", "consumer"]
KINDS = {
    "range": [*CLASSIC, "--assignment-strategy", RANGE],
    "cooperative": [*CLASSIC, "--assignment-strategy", COOPERATIVE],
    "consumer-uniform": [*CONSUMER, "--group-remote-assignor", "uniform"],
    "consumer-range": [*CONSUMER, "--group-remote-assignor", "range"],
}


CONTROLLED = ("range", "consumer-uniform")
"""Kinds of which Apache Kafka is the control; a minute is saved with the others."""


@pytest.mark.parametrize(
    ("server", "kind"),
    [*(("tailrace", kind) for kind in KINDS), *(("apache-kafka", kind) for kind in CONTROLLED)],
    indirect=["server"],
)
def test_members_share_the_partitions_as_they_come_go_and_are_killed(
    servers: str, topic: str, members: Members, kind: str
) -> None:
    first = members.start(KINDS[kind])
    members.wait_until_shared()
    second, third = members.start(KINDS[kind]), members.start(KINDS[kind])
    members.wait_until_shared()
    members.end(second, kill=True)
    members.wait_until_shared()
    members.end(first)
    members.wait_until_shared()
    assert assigned(third) == list(range(PARTITIONS))
    produce(servers, topic, COUNT)
    wait_until([third], lambda: set(members.values()) == set(range(COUNT)) and len(members.values()) >= 2 * COUNT)
    commits = third.wait_for_event("offsets_committed")
    assert all(event["success"] for event in third.named("offsets_committed")), commits
    assert committed(servers, members) == [2 * COUNT // PARTITIONS] * PARTITIONS


def committed(servers: str, members: Members) -> list[int]:
    """What the group has committed, once the last member has left and so committed all that it read."""
    for member in list(members.alive):
        members.end(member)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})
    group = members.arguments[-1]
    everything = confluent_kafka.ConsumerGroupTopicPartitions(group)
    listed = admin.list_consumer_group_offsets([everything])[group].result(30).topic_partitions
    return [partition.offset for partition in listed]


@pytest.mark.parametrize("kind", ["range", "consumer-uniform"])
def test_a_static_member_finds_its_partitions_again(members: Members, kind: str) -> None:
    other = members.start(KINDS[kind], "--group-instance-id", "other")
    members.wait_until_shared()
    static = members.start(KINDS[kind], "--group-instance-id", "static")
    members.wait_until_shared()
    before, events = assigned(static), len(other.named("partitions_assigned"))
    members.end(static)
    again = members.start(KINDS[kind], "--group-instance-id", "static")
    members.wait_until_shared()
    assert assigned(again) == before
    assert len(other.named("partitions_assigned")) == events, "the other member saw a rebalance"


def test_members_of_both_protocols_are_in_one_group(members: Members) -> None:
    classic = members.start(KINDS["range"])
    members.wait_until_shared()
    members.start(KINDS["consumer-range"])
    members.wait_until_shared()
    members.end(classic)
    members.wait_until_shared()
    members.start(KINDS["range"])
    members.wait_until_shared()
    assert members


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_what_the_verifiable_producer_sent_is_there(servers: str, make_topic: Callable[..., str], acks: str) -> None:
    topic = make_topic(1)
    arguments = ["--topic", topic, "--max-messages", "500", "--acks", acks]
    sent = run_tool("org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", servers, *arguments)
    assert sent.returncode == 0, sent.stderr
    events: list[dict[str, Any]] = [json.loads(line) for line in sent.stdout.splitlines()]
    acknowledged = [event for event in events if event["name"] == "producer_send_success"]
    assert [event["value"] for event in acknowledged] == [f"{number}" for number in range(500)], sent.stdout[-2000:]
    if acks != "0":
        assert [event["offset"] for event in acknowledged] == list(range(500))
    assert events[-1]["name"] == "tool_data"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "none"})
    assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), 30) == (0, 500)
    consumer.close()
