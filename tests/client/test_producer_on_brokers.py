"""The producer against Tailrace, and the same against Apache Kafka: bulks, and transactions of both versions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tailrace.client.admin import Admin, NewTopic
from tailrace.client.cluster import Cluster
from tailrace.client.errors import AbortableError, InvalidState, ProducerFenced, TransactionAborted
from tailrace.client.partitioner import KeyHashes
from tailrace.client.producer import Producer
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import AdminConfig
from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.client.other_reader import committed_offset, read_partitions

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

needs_java = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]
BROKERS = [
    "tailrace",
    pytest.param("kafka", marks=needs_java),
    pytest.param("kafka with transactions of version 1", marks=needs_java),
]
PARTITIONS = 3
_numbers = itertools.count()


@pytest.fixture(scope="module", params=BROKERS)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("broker")
    broker: AbstractContextManager[Any] = BrokerProcess(folder, {"offsets.topic.num.partitions": "2"})
    if request.param != "tailrace":
        settings = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
        features = {"transaction.version": 1} if "version 1" in request.param else {}
        broker = ApacheKafka(folder, settings, features)
    with broker as running:
        yield running.bootstrap_servers


@pytest.fixture
async def topic(servers: str) -> str:
    name = f"topic-{next(_numbers)}"
    async with Cluster(AdminConfig({"bootstrap_servers": servers})) as cluster:
        assert await Admin(cluster).create_topics([NewTopic(name, PARTITIONS, 1)]) == {name: None}
    return name


def transactional(servers: str, name: str) -> Producer[bytes, bytes]:
    return Producer(bootstrap_servers=servers, transactional_id=name, retry_backoff_ms=20)


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_arrow_and_lists_are_read_by_others(servers: str, topic: str, compression: str) -> None:
    keys = [b"%d" % (number % 40) for number in range(2_000)]
    values = [b"value %d" % number for number in range(2_000)]
    async with Producer(bootstrap_servers=servers, compression_type=compression, max_request_size=20_000) as producer:
        first = await producer.send_arrow(topic, pa.table({"key": keys, "value": values}))
        second = await producer.send_batch(topic, values, keys=keys)
        assert sum(found.records_count for found in await first) == 2_000
        assert sum(found.records_count for found in await second) == 2_000
    hashes = KeyHashes()
    expected: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for key, value in zip(keys, values, strict=True):
        expected[hashes.partition_of(key, PARTITIONS)].append(value)
    assert await read_partitions(servers, topic, PARTITIONS) == [mine + mine for mine in expected]


async def test_only_what_is_committed_is_read(servers: str, topic: str) -> None:
    async with transactional(servers, topic) as producer:
        await producer.init_transactions()
        for number in range(9):
            await producer.begin_transaction()
            for partition in range(PARTITIONS):
                delivery = await producer.send(topic, b"%d" % number, partition=partition)
            if number % 3 == 2:
                await delivery
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    committed = [b"%d" % number for number in range(9) if number % 3 != 2]
    assert await read_partitions(servers, topic, PARTITIONS) == [committed] * PARTITIONS
    everything = await read_partitions(servers, topic, PARTITIONS, isolation="read_uncommitted")
    assert everything == [[b"%d" % number for number in range(9)]] * PARTITIONS


async def test_offsets_are_committed_with_the_records(servers: str, topic: str) -> None:
    group, partition = f"group of {topic}", TopicPartition(topic, 0)
    async with transactional(servers, topic) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(topic, b"1", partition=0)
            await producer.send_offsets_to_transaction({partition: 1}, group)
        with pytest.raises(ZeroDivisionError):
            await _fail_after_offsets(producer, partition, group)
    assert await committed_offset(servers, group, topic) == 1
    assert await read_partitions(servers, topic) == [[b"1"]]


async def _fail_after_offsets(producer: Producer[bytes, bytes], partition: TopicPartition, group: str) -> None:
    async with producer.transaction():
        await producer.send(partition.topic, b"2", partition=0)
        await producer.flush()
        await producer.send_offsets_to_transaction({partition: 2}, group)
        raise ZeroDivisionError


async def test_a_second_producer_of_the_name_fences_the_first(servers: str, topic: str) -> None:
    async with transactional(servers, topic) as old, transactional(servers, topic) as new:
        await old.init_transactions()
        await old.begin_transaction()
        await (await old.send(topic, b"left open", partition=0))
        await new.init_transactions()
        async with new.transaction():
            await new.send(topic, b"new", partition=0)
        await old.send(topic, b"late", partition=0)
        with pytest.raises(ProducerFenced):
            await _commit_or_abort(old)
        with pytest.raises(ProducerFenced):
            await old.begin_transaction()
        with pytest.raises(ProducerFenced):
            await old.send(topic, b"later")
    assert await read_partitions(servers, topic) == [[b"new"]]


async def _commit_or_abort(producer: Producer[bytes, bytes]) -> None:
    """What is written with an old epoch spoils the transaction; whether the producer was fenced is told at its end."""
    try:
        await producer.commit_transaction()
    except AbortableError:
        await producer.abort_transaction()


async def test_what_was_not_sent_is_dropped_and_the_next_transaction_is_in_order(servers: str, topic: str) -> None:
    async with Producer(bootstrap_servers=servers, transactional_id=topic, linger_ms=60_000) as producer:
        await producer.init_transactions()
        for number in range(4):
            await producer.begin_transaction()
            delivery = await producer.send(topic, b"%d" % number, partition=0)
            if number % 2:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
                assert isinstance(delivery.exception(), TransactionAborted)
        with pytest.raises(InvalidState):
            await producer.send(topic, b"outside")
    assert await read_partitions(servers, topic) == [[b"1", b"3"]]


async def test_transactions_of_many_producers_do_not_mix(servers: str, topic: str) -> None:
    async def transact(index: int) -> None:
        async with transactional(servers, f"{topic}-{index}") as producer:
            await producer.init_transactions()
            for number in range(5):
                await producer.begin_transaction()
                values = [b"%d %d %d" % (index, number, place) for place in range(20)]
                await producer.send_batch(topic, values, partition=number % PARTITIONS)
                await (producer.commit_transaction() if number % 2 else producer.abort_transaction())

    await asyncio.gather(*(transact(index) for index in range(4)))
    found = await read_partitions(servers, topic, PARTITIONS)
    expected = {b"%d %d %d" % (i, n, place) for i in range(4) for n in (1, 3) for place in range(20)}
    assert {value for values in found for value in values} == expected
    assert sum(len(values) for values in found) == len(expected)
