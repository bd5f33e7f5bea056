"""A group of many members through joins, leaves, kills and broker restarts: nothing is left out, nobody shares."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.history.checker import find_anomalies
from tests.history.operations import Operation, Polled, Sent
from tests.waiting import wait_for

TOPIC = "churned"
GROUP = "churning"
PARTITIONS = 12
SESSION_TIMEOUT_S = 3
DEADLINE_S = 90
ROOT = Path(__file__).parent.parent.parent
SETTINGS = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "100"}


class Member:
    """A member's process, and what it said."""

    def __init__(self, servers: str, number: int) -> None:
        self.name = f"member-{number}"
        self.events: list[dict[str, Any]] = []
        command = [sys.executable, "-m", "tests.faults.group_member", servers, TOPIC, GROUP]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))

    @property
    def partitions(self) -> set[int]:
        """What it was last assigned."""
        for event in reversed(self.events):
            if event["event"] in ("assigned", "revoked"):
                return set(event["partitions"]) if event["event"] == "assigned" else set()
        return set()

    def end(self, *, kill: bool) -> None:
        """Let it leave, or kill it; either way wait for the rest of what it said."""
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()


class Churn:
    """The group, the load and the history."""

    def __init__(self, broker: BrokerProcess | ApacheKafka, seed: int) -> None:
        print(f"seed {seed}")
        self.broker = broker
        self.chance = random.Random(seed)
        self.members: list[Member] = []
        self.gone: list[Member] = []
        self.sent: dict[int, tuple[int, int]] = {}
        self._written = 0
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        )

    def produce(self, count: int) -> None:
        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            self.sent[int(message.value())] = (message.partition(), message.offset())

        for _ in range(count):
            value = self._written
            self._producer.produce(TOPIC, b"%d" % value, partition=value % PARTITIONS, on_delivery=delivered)
            self._written += 1
        self._producer.poll(0)

    def flush(self) -> None:
        assert self._producer.flush(DEADLINE_S) == 0

    def join(self) -> None:
        self.members.append(Member(self.broker.bootstrap_servers, len(self.members) + len(self.gone)))

    def end_one(self, *, kill: bool) -> None:
        member = self.members.pop(self.chance.randrange(len(self.members)))
        member.end(kill=kill)
        self.gone.append(member)

    def event(self, size: int) -> None:
        """Do one random thing; keep the group near its size."""
        if len(self.members) < size // 2 or (len(self.members) < size and self.chance.random() < 0.5):
            self.join()
        elif self.chance.random() < 0.1:
            self.broker.kill()
            self.broker.start()
        else:
            self.end_one(kill=self.chance.random() < 0.5)
        self.produce(100)

    def is_settled(self) -> bool:
        """Whether every partition has exactly one owner, and nobody who is gone has any."""
        owned = [partition for member in self.members for partition in member.partitions]
        return sorted(owned) == list(range(PARTITIONS))

    def everybody(self) -> list[Member]:
        return self.members + self.gone

    def seen(self) -> set[int]:
        return {v for m in self.everybody() for e in list(m.events) if e["event"] == "polled" for _, v in e["records"]}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, SETTINGS) as process:
        yield process


def check_churn(broker: BrokerProcess | ApacheKafka, *, members: int, events: int, seed: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    churn = Churn(broker, seed)
    pause = threading.Event()
    try:
        for _ in range(members // 2):
            churn.join()
        churn.produce(1000)
        for _ in range(events):
            pause.wait(churn.chance.uniform(0.05, 0.6))
            churn.event(members)
        # One session timeout until a member that was killed is missed, and at most another until the others share.
        wait_for(churn.is_settled, "the group is stable", 2 * SESSION_TIMEOUT_S)
        churn.flush()
        wait_for(lambda: churn.seen() >= set(churn.sent), "every record was delivered", DEADLINE_S)
    finally:
        for member in churn.members:
            member.end(kill=False)
    check_owners(churn)
    check_history(churn)


def check_owners(churn: Churn) -> None:
    """In one generation each partition has one owner."""
    owners: dict[tuple[int, int], set[str]] = defaultdict(set)
    for member in churn.everybody():
        for event in member.events:
            if event["event"] == "assigned":
                for partition in event["partitions"]:
                    owners[event["generation"], partition].add(member.name)
    assert owners
    assert {key: names for key, names in owners.items() if len(names) > 1} == {}


def check_history(churn: Churn) -> None:
    history: list[Operation] = [
        Sent("producer", (TOPIC, partition), value, offset) for value, (partition, offset) in sorted(churn.sent.items())
    ]
    for member in churn.everybody():
        generation = 0
        for event in member.events:
            if event["event"] == "assigned":
                generation += 1
            elif event["event"] == "polled":
                records = tuple((offset, value) for offset, value in event["records"])
                history.append(Polled(member.name, (TOPIC, event["partition"]), generation, records))
    assert find_anomalies(history) == {}


def test_a_group_through_joins_leaves_kills_and_restarts(broker: BrokerProcess) -> None:
    check_churn(broker, members=4, events=8, seed=random.randrange(10**9))


@pytest.mark.slow
def test_twenty_members_through_a_hundred_events(broker: BrokerProcess) -> None:
    check_churn(broker, members=20, events=100, seed=random.randrange(10**9))


@pytest.mark.slow
@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_apache_kafka_as_the_control(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path, SETTINGS) as kafka:
        check_churn(kafka, members=6, events=12, seed=random.randrange(10**9))
