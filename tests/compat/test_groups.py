"""Unmodified clients in groups: they subscribe, rebalance, commit and go on where they were, also after kill -9."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest

from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.compat.conftest import Server
from tests.waiting import wait_for

SETTINGS = {"group.initial.rebalance.delay.ms": "100"}
"""A group's first rebalance waits 3 s by default, which is long where every test has a group of its own."""
COUNT = 60
PARTITIONS = 4

_numbers = itertools.count()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("tailrace", marks=pytest.mark.xdist_group("tailrace-groups")),
        pytest.param("apache-kafka", marks=[pytest.mark.slow, pytest.mark.xdist_group("apache-kafka-groups")]),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "tailrace":
        with BrokerProcess(folder, SETTINGS) as broker:
            yield broker
        return
    reason = unavailable()
    if reason:
        pytest.skip(f"no Apache Kafka to compare with: {reason}")
    with ApacheKafka(folder, SETTINGS) as apache:
        yield apache


@pytest.fixture(scope="module")
def servers(server: Server) -> str:
    return server.bootstrap_servers


@pytest.fixture(scope="module")
def admin(servers: str) -> confluent_kafka.admin.AdminClient:
    return confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})


@pytest.fixture
def topic(servers: str, admin: confluent_kafka.admin.AdminClient) -> str:
    return filled_topic(servers, admin)


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


def filled_topic(servers: str, admin: confluent_kafka.admin.AdminClient) -> str:
    """Make a topic of several partitions and put records into each."""
    name = f"groups-{next(_numbers)}"
    admin.create_topics([confluent_kafka.admin.NewTopic(name, PARTITIONS, 1)])[name].result(30)
    produce(servers, name, COUNT)
    return name


def produce(servers: str, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(topic, f"{number}", partition=number % PARTITIONS)
    assert producer.flush(30) == 0


class Member:
    """A librdkafka consumer that notes what it was given and what it read."""

    def __init__(self, servers: str, group: str, topic: str, **settings: Any) -> None:
        self.values: list[str] = []
        self.revoked: list[int] = []
        self.assignments = 0
        self.errors: list[Any] = []
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 200,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        self.assignments += 1

    def _revoked(self, _: Any, partitions: list[Any]) -> None:
        self.revoked += [partition.partition for partition in partitions]

    @property
    def partitions(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def poll(self, timeout_s: float = 0.02) -> None:
        message = self.consumer.poll(timeout_s)
        if message is None:
            return
        if message.error():
            self.errors.append(message.error())
        else:
            self.values.append(message.value().decode())

    def close(self) -> None:
        self.consumer.close()


def expect_while_polling(members: list[Member], condition: Callable[[], bool], deadline_s: float = 30) -> None:
    deadline = time.monotonic() + deadline_s
    while not condition():
        for member in members:
            member.poll()
        assert time.monotonic() < deadline, [(m.partitions, len(m.values), m.errors) for m in members]


def shares(members: list[Member]) -> bool:
    """Whether the members have all partitions among them, each one some, none twice."""
    owned = [member.partitions for member in members]
    return all(owned) and sorted(itertools.chain(*owned)) == list(range(PARTITIONS))


# Each client


def consume_with_confluent(servers: str, group: str, topic: str, count: int) -> list[str]:
    with closing(Member(servers, group, topic)) as member:
        expect_while_polling([member], lambda: len(member.values) >= count)
        member.consumer.commit(asynchronous=False)
        return member.values


def consume_with_kafka_python(servers: str, group: str, topic: str, count: int) -> list[str]:
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=30_000,
    )
    with closing(consumer):
        values = [message.value.decode() for message in itertools.islice(consumer, count)]
        consumer.commit()
        return values


def consume_with_aiokafka(servers: str, group: str, topic: str, count: int) -> list[str]:
    async def consume() -> list[str]:
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            values = [(await consumer.getone()).value.decode() for _ in range(count)]
            await consumer.commit()
            return values
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(consume(), 30))


CLIENTS = [consume_with_confluent, consume_with_kafka_python, consume_with_aiokafka]


@pytest.mark.parametrize("first", CLIENTS)
@pytest.mark.parametrize("second", CLIENTS)
def test_a_group_goes_on_where_it_was_with_whichever_client(
    servers: str, group: str, topic: str, first: Any, second: Any
) -> None:
    half = COUNT // 2
    values = first(servers, group, topic, half)
    values += second(servers, group, topic, COUNT - len(values))
    assert sorted(map(int, values)) == list(range(COUNT))


# Rebalances


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions_as_they_come_and_go(servers: str, group: str, topic: str, assignor: str) -> None:
    settings = {"partition.assignment.strategy": assignor}
    with ExitStack() as stack:
        members = [Member(servers, group, topic, **settings)]
        stack.callback(lambda: [member.close() for member in members])
        expect_while_polling(members, lambda: shares(members))
        members.append(Member(servers, group, topic, **settings))
        expect_while_polling(members, lambda: shares(members))
        members.append(Member(servers, group, topic, **settings))
        expect_while_polling(members, lambda: shares(members))
        gone = members.pop(0)
        gone.close()
        expect_while_polling(members, lambda: shares(members))
        expect_while_polling(members, lambda: {int(v) for m in (gone, *members) for v in m.values} == set(range(COUNT)))
        assert not any(member.errors for member in members)


def test_cooperative_members_keep_what_they_need_not_give_away(servers: str, group: str, topic: str) -> None:
    settings = {"partition.assignment.strategy": "cooperative-sticky"}
    with closing(Member(servers, group, topic, **settings)) as first:
        expect_while_polling([first], lambda: shares([first]))
        with closing(Member(servers, group, topic, **settings)) as second:
            expect_while_polling([first, second], lambda: shares([first, second]))
            assert len(first.revoked) == PARTITIONS // 2
            assert not second.revoked


def test_a_static_member_comes_back_without_a_rebalance(servers: str, group: str, topic: str) -> None:
    with closing(Member(servers, group, topic)) as other:
        static = Member(servers, group, topic, group_instance_id="one")
        expect_while_polling([other, static], lambda: shares([other, static]))
        before, assignments = static.partitions, other.assignments
        static.close()  # a static member does not leave
        static = Member(servers, group, topic, group_instance_id="one")
        expect_while_polling([other, static], lambda: shares([other, static]))
        assert (static.partitions, other.assignments) == (before, assignments)
        static.close()


def test_members_with_different_clients_are_in_one_group(servers: str, group: str, topic: str) -> None:
    with closing(Member(servers, group, topic)) as librdkafka:
        python = kafka.KafkaConsumer(
            topic, bootstrap_servers=servers, group_id=group, session_timeout_ms=6000, heartbeat_interval_ms=500
        )
        wait_until = time.monotonic() + 30
        while not python.assignment():
            python.poll(20)
            librdkafka.poll()
            assert time.monotonic() < wait_until
        assert len(librdkafka.partitions) < PARTITIONS
        python.close(autocommit=False)
        expect_while_polling([librdkafka], lambda: shares([librdkafka]))


# Offsets and groups


def test_offsets_are_listed_altered_and_deleted_by_tools(
    servers: str, group: str, topic: str, admin: confluent_kafka.admin.AdminClient
) -> None:
    wanted = [confluent_kafka.TopicPartition(topic, number, 5 + number) for number in range(PARTITIONS)]
    request = confluent_kafka.ConsumerGroupTopicPartitions(group, wanted)
    admin.alter_consumer_group_offsets([request])[group].result(30)
    everything = confluent_kafka.ConsumerGroupTopicPartitions(group)
    listed = admin.list_consumer_group_offsets([everything])[group].result(30).topic_partitions
    assert {p.partition: p.offset for p in listed} == {number: 5 + number for number in range(PARTITIONS)}
    groups = admin.list_consumer_groups().result(30).valid
    assert group in {listing.group_id for listing in groups}
    admin.delete_consumer_groups([group])[group].result(30)
    assert group not in {listing.group_id for listing in admin.list_consumer_groups().result(30).valid}


def test_a_group_with_members_is_described_and_not_deleted(
    servers: str, group: str, topic: str, admin: confluent_kafka.admin.AdminClient
) -> None:
    with closing(Member(servers, group, topic, client_id="the-client")) as member:
        expect_while_polling([member], lambda: shares([member]))
        wait_for(lambda: describe(admin, group).state.name == "STABLE")
        described = describe(admin, group)
        assert (described.partition_assignor, [m.client_id for m in described.members]) == ("range", ["the-client"])
        (only,) = described.members
        assert only.host == "/127.0.0.1"
        assert {p.partition for p in only.assignment.topic_partitions} == set(range(PARTITIONS))
        with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group])[group].result(30)
    wait_for(lambda: describe(admin, group).state.name == "EMPTY")


def describe(admin: confluent_kafka.admin.AdminClient, group: str) -> Any:
    return admin.describe_consumer_groups([group])[group].result(30)


# Kill -9


def test_groups_and_offsets_survive_kill_9(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        servers = broker.bootstrap_servers
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})
        topic = filled_topic(servers, admin)
        with closing(Member(servers, "g", topic)) as member:
            expect_while_polling([member], lambda: len(member.values) == COUNT)
            member.consumer.commit(asynchronous=False)
            before = member.consumer.memberid()
            broker.kill()
            broker.start()
            produce(servers, topic, COUNT)
            expect_while_polling([member], lambda: len(member.values) == 2 * COUNT)
            assert sorted(map(int, member.values)) == sorted(2 * list(range(COUNT)))
            assert member.consumer.memberid() == before, "the member had to join again"
            assert member.assignments == 1
            committed = member.consumer.committed(member.consumer.assignment(), timeout=30)
            assert {partition.offset for partition in committed} == {COUNT // PARTITIONS}
        broker.kill()
        broker.start()
        with closing(Member(servers, "g", topic)) as successor:
            expect_while_polling([successor], lambda: len(successor.values) == COUNT)
            assert sorted(map(int, successor.values)) == list(range(COUNT))
