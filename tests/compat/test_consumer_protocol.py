"""librdkafka with `group.protocol=consumer` (KIP-848): the broker assigns, and members follow, also through kill -9."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.compat.conftest import Server
from tests.compat.test_groups import (
    COUNT,
    PARTITIONS,
    Member,
    describe,
    expect_while_polling,
    filled_topic,
    produce,
    shares,
)
from tests.waiting import wait_for

SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}
"""A member hears of its new assignment with its next heartbeat, which is after 5 s by default."""

_numbers = itertools.count()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("tailrace", marks=pytest.mark.xdist_group("tailrace-consumer-protocol")),
        pytest.param("apache-kafka", marks=[pytest.mark.slow, pytest.mark.xdist_group("apache-consumer-protocol")]),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "tailrace":
        with BrokerProcess(folder, SETTINGS) as broker:
            yield broker
            assert broker.is_running, broker.log.read_text()
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
    return f"consumer-group-{next(_numbers)}"


class NewMember(Member):
    """A member of the consumer protocol; it may not say how often it reports, the broker does."""

    def __init__(self, servers: str, group: str, *topics: str, **settings: Any) -> None:
        self.values = []
        self.revoked = []
        self.assignments = 0
        self.errors = []
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        self.consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked)

    @property
    def topics(self) -> set[str]:
        return {partition.topic for partition in self.consumer.assignment()}


def test_a_group_goes_on_where_it_was(servers: str, group: str, topic: str) -> None:
    values: list[str] = []
    for _ in range(2):
        with closing(NewMember(servers, group, topic)) as member:
            expect_while_polling([member], lambda m=member: len(m.values) >= COUNT // 2)  # type: ignore[misc]
            member.consumer.commit(asynchronous=False)
            values += member.values
    assert sorted(map(int, values)) == list(range(COUNT))


@pytest.mark.parametrize("assignor", ["uniform", "range", None])
def test_members_share_the_partitions_as_they_come_and_go(
    servers: str, group: str, topic: str, assignor: str | None
) -> None:
    settings = {} if assignor is None else {"group_remote_assignor": assignor}
    with ExitStack() as stack:
        members = [NewMember(servers, group, topic, **settings)]
        stack.callback(lambda: [member.close() for member in members])
        expect_while_polling(members, lambda: shares(members))
        members.append(NewMember(servers, group, topic, **settings))
        expect_while_polling(members, lambda: shares(members))
        members.append(NewMember(servers, group, topic, **settings))
        expect_while_polling(members, lambda: shares(members))
        gone = members.pop(0)
        gone.close()
        expect_while_polling(members, lambda: shares(members))
        expect_while_polling(members, lambda: {int(v) for m in (gone, *members) for v in m.values} == set(range(COUNT)))
        assert not any(member.errors for member in members)


def test_members_keep_what_they_need_not_give_away(servers: str, group: str, topic: str) -> None:
    with closing(NewMember(servers, group, topic)) as first:
        expect_while_polling([first], lambda: shares([first]))
        with closing(NewMember(servers, group, topic)) as second:
            expect_while_polling([first, second], lambda: shares([first, second]))
            assert len(first.revoked) == PARTITIONS // 2
            assert not second.revoked


def test_a_static_member_comes_back_to_its_partitions(servers: str, group: str, topic: str) -> None:
    with closing(NewMember(servers, group, topic)) as other:
        static = NewMember(servers, group, topic, group_instance_id="one")
        expect_while_polling([other, static], lambda: shares([other, static]))
        before, assignments = static.partitions, other.assignments
        static.close()
        static = NewMember(servers, group, topic, group_instance_id="one")
        expect_while_polling([other, static], lambda: shares([other, static]))
        assert (static.partitions, other.assignments) == (before, assignments)
        static.close()


def test_topics_are_found_by_pattern(servers: str, group: str, admin: confluent_kafka.admin.AdminClient) -> None:
    stem = f"pattern-{next(_numbers)}"
    names = [f"{stem}-{letter}" for letter in "abx"]
    for name in names:
        admin.create_topics([confluent_kafka.admin.NewTopic(name, 2, 1)])[name].result(30)
    with closing(NewMember(servers, group, f"^{stem}-[ab]", f"^{stem}-[c]$")) as member:
        expect_while_polling(
            [member], lambda: member.topics == set(names[:2]) and len(member.consumer.assignment()) == 4
        )
        assert not member.errors


@pytest.mark.slow
def test_a_new_topic_is_found_by_a_pattern(servers: str, group: str, admin: confluent_kafka.admin.AdminClient) -> None:
    stem = f"pattern-{next(_numbers)}"
    first, second = f"{stem}-a", f"{stem}-b"
    admin.create_topics([confluent_kafka.admin.NewTopic(first, 1, 1)])[first].result(30)
    with closing(NewMember(servers, group, f"^{stem}.*")) as member:
        expect_while_polling([member], lambda: member.topics == {first})
        admin.create_topics([confluent_kafka.admin.NewTopic(second, 1, 1)])[second].result(30)
        expect_while_polling([member], lambda: member.topics == {first, second})


def test_new_partitions_are_assigned(
    servers: str, group: str, topic: str, admin: confluent_kafka.admin.AdminClient
) -> None:
    with closing(NewMember(servers, group, topic)) as member:
        expect_while_polling([member], lambda: shares([member]))
        admin.create_partitions([confluent_kafka.admin.NewPartitions(topic, PARTITIONS + 2)])[topic].result(30)
        expect_while_polling([member], lambda: member.partitions == set(range(PARTITIONS + 2)))


def test_a_topic_that_comes_later_is_assigned(
    servers: str, group: str, admin: confluent_kafka.admin.AdminClient
) -> None:
    name = f"later-{next(_numbers)}"
    with closing(NewMember(servers, group, name, allow_auto_create_topics=False)) as member:
        wait_for(lambda: [member.poll(), describe_or_none(admin, group)][1] is not None)
        admin.create_topics([confluent_kafka.admin.NewTopic(name, PARTITIONS, 1)])[name].result(30)
        expect_while_polling([member], lambda: shares([member]))


def test_groups_are_listed_by_type_and_described(
    servers: str, group: str, topic: str, admin: confluent_kafka.admin.AdminClient
) -> None:
    with closing(NewMember(servers, group, topic, client_id="the-client")) as member:
        expect_while_polling([member], lambda: shares([member]))
        described = describe(admin, group)
        assert (described.type.name, described.state.name) == ("CONSUMER", "STABLE")
        assert described.partition_assignor == "uniform"
        (only,) = described.members
        assert (only.client_id, only.host) == ("the-client", "/127.0.0.1")
        assert {p.partition for p in only.assignment.topic_partitions} == set(range(PARTITIONS))
        assert {p.partition for p in only.target_assignment.topic_partitions} == set(range(PARTITIONS))
        listed = admin.list_consumer_groups(types={confluent_kafka.ConsumerGroupType.CONSUMER}).result(30).valid
        assert group in {listing.group_id for listing in listed}
        listed = admin.list_consumer_groups(types={confluent_kafka.ConsumerGroupType.CLASSIC}).result(30).valid
        assert group not in {listing.group_id for listing in listed}
        with pytest.raises(confluent_kafka.KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group])[group].result(30)
    wait_for(lambda: describe(admin, group).state.name == "EMPTY")
    admin.delete_consumer_groups([group])[group].result(30)
    assert group not in {listing.group_id for listing in admin.list_consumer_groups().result(30).valid}


def test_a_group_changes_its_protocol_while_it_reads(
    servers: str, group: str, topic: str, admin: confluent_kafka.admin.AdminClient
) -> None:
    with ExitStack() as stack:
        classic = [Member(servers, group, topic) for _ in range(2)]
        stack.callback(lambda: [member.close() for member in classic])
        expect_while_polling(classic, lambda: shares(classic))
        new = NewMember(servers, group, topic)
        expect_while_polling([*classic, new], lambda: shares([*classic, new]))
        assert describe(admin, group).type.name == "CONSUMER"
        classic.pop().close()
        expect_while_polling([*classic, new], lambda: shares([*classic, new]))
        new.close()
        expect_while_polling(classic, lambda: shares(classic))
        assert describe(admin, group).type.name == "CLASSIC"
        produce(servers, topic, COUNT)
        expect_while_polling(classic, lambda: len(classic[0].values) >= COUNT)
        assert not any(member.errors for member in (*classic, new))


def test_a_member_that_is_killed_loses_its_partitions(servers: str, group: str, topic: str) -> None:
    with closing(NewMember(servers, group, topic)) as member:
        expect_while_polling([member], lambda: shares([member]))
        script = Path(__file__).with_name("consume_for_ever.py")
        with subprocess.Popen([sys.executable, str(script), servers, group, topic], stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            expect_while_polling([member], lambda: len(member.partitions) == PARTITIONS // 2)
            assert other.stdout.readline() == b"assigned\n"
            other.kill()
        expect_while_polling([member], lambda: shares([member]))


def test_groups_and_offsets_survive_kill_9_of_the_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, {**SETTINGS, "group.consumer.session.timeout.ms": "30000"}) as broker:
        servers = broker.bootstrap_servers
        topic = filled_topic(servers, confluent_kafka.admin.AdminClient({"bootstrap.servers": servers}))
        with closing(NewMember(servers, "g", topic)) as member:
            expect_while_polling([member], lambda: len(member.values) == COUNT)
            member.consumer.commit(asynchronous=False)
            broker.kill()
            broker.start()
            produce(servers, topic, COUNT)
            expect_while_polling([member], lambda: len(member.values) == 2 * COUNT)
            assert sorted(map(int, member.values)) == sorted(2 * list(range(COUNT)))
            assert (member.assignments, member.revoked) == (1, []), "the member had to join again"
            member.consumer.commit(asynchronous=False)
            committed = member.consumer.committed(member.consumer.assignment(), timeout=30)
            assert {partition.offset for partition in committed} == {2 * COUNT // PARTITIONS}


def describe_or_none(admin: confluent_kafka.admin.AdminClient, group: str) -> Any:
    described = describe(admin, group)
    return described if described.members else None
