"""Administration asked the same of Tailrace and of Apache Kafka 4.1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from tailrace.client import Admin, BrokerError, ErrorCode, Producer, ProducerFenced, TopicPartition
from tailrace.client.admin import (
    AlterOperation,
    ConfigChange,
    ConfigSource,
    GroupDescription,
    GroupOffset,
    GroupState,
    GroupType,
    NewTopic,
    ResourceType,
    TransactionDescription,
    TransactionState,
)
from tests.client.group_servers import (
    PROTOCOLS,
    SERVERS,
    Member,
    group_options,
    make_topic,
    produce,
    shared,
    start_server,
    unique,
)
from tests.waiting import DEADLINE_S


@pytest.fixture(scope="module", params=SERVERS)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from start_server(request.param, tmp_path_factory)


@pytest.fixture
async def admin(servers: str) -> AsyncIterator[Admin]:
    async with Admin(bootstrap_servers=servers) as admin:
        yield admin


def code_of(outcome: object) -> ErrorCode | None:
    """The code of an error in a result; None for anything else."""
    return outcome.code if isinstance(outcome, BrokerError) else None


async def comes_true(look: Callable[[], Awaitable[bool]], what: str) -> None:
    """Ask brokers again until they say so."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_S
    while not await look():
        assert loop.time() < deadline, f"{what}: not so within {DEADLINE_S} s"


async def is_in(admin: Admin, group: str, state: GroupState) -> None:
    """Wait until a group is in a state."""

    async def look() -> bool:
        found = (await admin.describe_groups([group]))[group]
        return isinstance(found, GroupDescription) and found.state is state

    await comes_true(look, f"group {group} is {state}")


async def test_the_cluster_says_who_is_in_it(admin: Admin, servers: str) -> None:
    cluster = await admin.describe_cluster()
    assert (len(cluster.cluster_id or ""), cluster.controller_id) == (22, 1)
    assert [(node.node_id, node.address.port) for node in cluster.nodes] == [(1, int(servers.rpartition(":")[2]))]


async def test_topics_are_made_described_grown_and_deleted(admin: Admin) -> None:
    name, refused, nowhere = unique("topic"), unique("refused"), unique("nowhere")
    new = [NewTopic(name, configs={"retention.ms": "5"}, assignments={0: [1], 1: [1]}), NewTopic(refused, 1, 9)]
    assert await admin.create_topics([new[0]], validate_only=True) == {name: None}
    created = await admin.create_topics(new)
    assert (created[name], code_of(created[refused])) == (None, ErrorCode.INVALID_REPLICATION_FACTOR)
    assert code_of((await admin.create_topics(new[:1]))[name]) is ErrorCode.TOPIC_ALREADY_EXISTS
    topics = (await admin.describe_topics([name, nowhere])).topics
    assert list(topics[name].partitions) == [0, 1]
    assert topics[nowhere].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    grown = await admin.create_partitions({name: 3, nowhere: 3})
    assert (grown[name], code_of(grown[nowhere])) == (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert code_of((await admin.create_partitions({name: 2}))[name]) is ErrorCode.INVALID_PARTITIONS
    async with asyncio.timeout(DEADLINE_S):  # Kafka's broker hears of it from its controller
        described = await admin.describe_topics([name])
        while len(described.topics[name].partitions) < 3:
            described = await admin.describe_topics([name])
    deleted = await admin.delete_topics([name, nowhere])
    assert (deleted[name], code_of(deleted[nowhere])) == (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_settings_are_changed_one_by_one(admin: Admin, servers: str) -> None:
    name = await make_topic(servers, 1)
    changes = [
        ConfigChange("retention.ms", "5000"),
        ConfigChange("cleanup.policy", "compact", AlterOperation.APPEND),
    ]
    await admin.alter_configs(ResourceType.TOPIC, name, changes)
    await admin.alter_configs(
        ResourceType.TOPIC, name, [ConfigChange("retention.ms", None, AlterOperation.DELETE)], validate_only=True
    )
    keys = ["retention.ms", "cleanup.policy", "segment.bytes"]
    entries = (await admin.describe_configs(ResourceType.TOPIC, [name], keys=keys))[name]
    assert not isinstance(entries, BrokerError)
    assert sorted((entry.name, entry.value, entry.source) for entry in entries) == [  # type: ignore[union-attr]
        ("cleanup.policy", "delete,compact", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("retention.ms", "5000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),
    ]
    with pytest.raises(BrokerError, match="INVALID_CONFIG"):
        await admin.alter_configs(ResourceType.TOPIC, name, [ConfigChange("retention.ms", "soon")])
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        await admin.alter_configs(ResourceType.TOPIC, unique("nowhere"), changes)


async def test_records_are_deleted_and_what_is_left_takes_place(admin: Admin, servers: str) -> None:
    name = await make_topic(servers, 1)
    await produce(servers, name, range(10), 1)
    key = TopicPartition(name, 0)
    assert await admin.delete_records(key, 4) == 4
    assert await admin.delete_records(key, -1) == 10
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
        await admin.delete_records(key, 11)
    (directory,) = await admin.describe_log_dirs(1)
    (replica,) = [one for one in directory.replicas if one.topic_partition == key]
    assert (directory.error, replica.size_bytes > 0, replica.is_future) == (None, True, False)


async def test_offsets_of_a_group_without_members(admin: Admin, servers: str) -> None:
    name, group, nowhere = await make_topic(servers, 2), unique("group"), TopicPartition(unique("nowhere"), 0)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    offsets = {first: GroupOffset(3, "as said"), second: GroupOffset(4), nowhere: GroupOffset(1)}
    altered = await admin.alter_group_offsets(group, offsets)
    assert (altered[first], altered[second]) == (None, None)
    assert code_of(altered[nowhere]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    listed = await admin.list_group_offsets({group: None, unique("empty"): [first]})
    everything, nothing = listed.values()
    assert everything == {first: GroupOffset(3, "as said"), second: GroupOffset(4)}
    assert nothing == {}
    assert await admin.list_group_offsets({group: [second]}, require_stable=True) == {group: {second: GroupOffset(4)}}
    (listing,) = [one for one in await admin.list_groups(states=[GroupState.EMPTY]) if one.group_id == group]
    assert (listing.group_type, listing.is_consumer_group) == (GroupType.CLASSIC, True)
    assert (await admin.delete_group_offsets(group, [first])) == {first: None}
    assert await admin.list_group_offsets({group: None}) == {group: {second: GroupOffset(4)}}
    missing = unique("missing")
    deleted = await admin.delete_groups([group, missing])
    assert (deleted[group], code_of(deleted[missing])) == (None, ErrorCode.GROUP_ID_NOT_FOUND)
    described = await admin.describe_groups([group])
    assert code_of(described[group]) is ErrorCode.GROUP_ID_NOT_FOUND
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        await admin.delete_group_offsets(missing, [first])


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
async def test_a_group_with_members(admin: Admin, servers: str, protocol: str) -> None:
    assert protocol in PROTOCOLS
    name = await make_topic(servers, 4)
    options: dict[str, Any] = group_options(servers, protocol, enable_auto_commit=False)
    group = options["group_id"]
    members = [Member.of(name, **options, client_id=f"c{number}", group_instance_id=f"i{number}") for number in (0, 1)]
    try:
        await shared(*members, count=4)
        await is_in(admin, group, GroupState.STABLE)
        description = (await admin.describe_groups([group]))[group]
        assert isinstance(description, GroupDescription)
        is_consumer = protocol == "consumer"
        assert description.group_type is (GroupType.CONSUMER if is_consumer else GroupType.CLASSIC)
        assert description.assignor == ("uniform" if is_consumer else protocol)
        assert (description.state, description.coordinator.node_id) == (GroupState.STABLE, 1)
        assert [(one.client_id, one.instance_id) for one in sorted(description.members, key=lambda m: m.client_id)] == [
            ("c0", "i0"),
            ("c1", "i1"),
        ]
        for member in description.members:
            partitions = {key.partition for key in member.assignment}
            assert partitions == members[int(member.client_id[1:])].partitions
            assert member.subscribed_topics == (name,)
            assert member.host == "/127.0.0.1"
            assert (member.epoch is not None, member.target_assignment is not None) == (is_consumer, is_consumer)
        assert code_of((await admin.delete_groups([group]))[group]) is ErrorCode.NON_EMPTY_GROUP
        key = TopicPartition(name, 0)
        subscribed = await admin.delete_group_offsets(group, [key])
        assert code_of(subscribed[key]) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        altered = await admin.alter_group_offsets(group, {key: GroupOffset(1)})
        assert code_of(altered[key]) is ErrorCode.UNKNOWN_MEMBER_ID
    finally:
        for one in members:
            await one.stop()
    if not is_consumer:  # static members stay when they are closed, until somebody removes them
        left = (await admin.describe_groups([group]))[group]
        assert isinstance(left, GroupDescription)
        removed = await admin.remove_members(group, left.members, reason="the test is over")
        assert set(removed.values()) <= {None}
        await is_in(admin, group, GroupState.EMPTY)


async def test_transactions_are_seen_and_ended(admin: Admin, servers: str) -> None:
    name, transactional_id = await make_topic(servers, 1), unique("id")
    key = TopicPartition(name, 0)
    async with Producer(bootstrap_servers=servers, transactional_id=transactional_id) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(name, b"v"))
        pattern = f"{transactional_id}|none"
        (listing,) = await admin.list_transactions(states=[TransactionState.ONGOING], transactional_id_pattern=pattern)
        assert (listing.transactional_id, listing.coordinator_id) == (transactional_id, 1)
        assert await admin.list_transactions(running_longer_than_ms=3_600_000) == []
        described = (await admin.describe_transactions([transactional_id, "nobody"])).values()
        description, nobody = described
        assert isinstance(description, TransactionDescription)
        assert code_of(nobody) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (description.partitions, description.state.is_open) == ({key}, True)
        (active,) = (await admin.describe_producers([key]))[key]  # type: ignore[misc]
        assert (active.producer_id, active.producer_epoch) == (listing.producer_id, description.producer_epoch)
        assert active.transaction_start_offset == 0
        assert await admin.find_hanging_transactions([key], running_longer_than_ms=0) == []
        assert await admin.fence_producers([transactional_id]) == {transactional_id: None}
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()

    async def look() -> bool:
        found = (await admin.describe_producers([key]))[key]
        assert not isinstance(found, BrokerError)
        return all(one.transaction_start_offset is None for one in found)

    await comes_true(look, "the transaction is aborted")
