"""Brokers for tests with real groups, Tailrace and (slow) Apache Kafka 4.1; members that a task polls; their topics."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tailrace.client import Admin, Consumer, ConsumerRecord, Producer, RebalanceListener, TopicPartition
from tailrace.client.admin import NewTopic
from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.waiting import until

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}
"""Nobody waits for more members, or long for a heartbeat."""
SERVERS = [
    pytest.param("tailrace", marks=pytest.mark.xdist_group("tailrace-groups")),
    pytest.param("apache-kafka", marks=[pytest.mark.slow, pytest.mark.xdist_group("apache-kafka-groups")]),
]
PROTOCOLS = ["range", "roundrobin", "sticky", "cooperative-sticky", "consumer"]

_numbers = itertools.count()


def start_server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a broker, and give where it is."""
    folder = tmp_path_factory.mktemp(kind)
    if kind == "tailrace":
        with BrokerProcess(folder, SETTINGS) as broker:
            yield broker.bootstrap_servers
        return
    reason = unavailable()
    if reason:
        pytest.skip(reason)
    with ApacheKafka(folder, SETTINGS) as kafka:
        yield kafka.bootstrap_servers


def unique(what: str) -> str:
    return f"{what}-{next(_numbers)}"


def group_options(servers: str, protocol: str, **options: Any) -> dict[str, Any]:
    """Options of a member, by the name of its assignor or of the consumer protocol."""
    made: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest", **options}
    made.setdefault("group_id", unique(f"group-{protocol}"))
    if protocol == "consumer":
        return {**made, "group_protocol": "consumer"}
    return {"heartbeat_interval_ms": 100, **made, "partition_assignment_strategy": protocol}


async def make_topic(servers: str, partitions: int = 4) -> str:
    name = unique("flights")
    async with Admin(bootstrap_servers=servers) as admin:
        assert await admin.create_topics([NewTopic(name, partitions, 1)]) == {name: None}
    return name


async def produce(servers: str, topic: str, numbers: Collection[int], partitions: int = 4) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number, key=b"k", partition=number % partitions)


@dataclass
class Events(RebalanceListener):
    """What a listener was told."""

    log: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(("assigned", tuple(sorted(key.partition for key in partitions))))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(("revoked", tuple(sorted(key.partition for key in partitions))))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(("lost", tuple(sorted(key.partition for key in partitions))))


class Member:
    """A consumer that a task polls until it is told to stop."""

    def __init__(self, subscribe: Callable[[Consumer[bytes, bytes], Events], None], **options: Any) -> None:
        self.consumer: Consumer[bytes, bytes] = Consumer(**options)
        self.events = Events()
        self.records: list[ConsumerRecord[bytes, bytes]] = []
        self._is_stopping = False
        subscribe(self.consumer, self.events)
        self._task = asyncio.ensure_future(self._run())

    @classmethod
    def of(cls, topic: str, **options: Any) -> Member:
        return cls(lambda consumer, events: consumer.subscribe([topic], listener=events), **options)

    @property
    def partitions(self) -> set[int]:
        return {key.partition for key in self.consumer.assignment}

    @property
    def values(self) -> list[int]:
        return [int(record.value or b"-1") for record in self.records]

    async def stop(self, *, leave_group: bool = True) -> None:
        self._is_stopping = True
        self.consumer.wakeup()
        await self._task
        await self.consumer.close(leave_group=leave_group)

    async def _run(self) -> None:
        from tailrace.client import WokenUp

        while not self._is_stopping:
            try:
                self.records += await self.consumer.poll(500)
            except WokenUp:
                return


async def shared(*members: Member, count: int) -> None:
    """Wait until the members have all partitions among them, each of them some."""

    def is_so() -> bool:
        for member in members:
            if member._task.done():
                member._task.result()
        every = [number for member in members for number in member.partitions]
        return len(every) == count == len(set(every)) and all(member.partitions for member in members)

    await until(is_so, f"{count} partitions shared by {len(members)} members")
