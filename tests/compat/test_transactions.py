"""Other people's transactional producers: what they commit is seen under read_committed, and nothing else."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from tests.waiting import wait_for

DEADLINE_S = 30.0
_numbers = itertools.count()


def transactional_id() -> str:
    return f"compat-{next(_numbers)}"


def confluent_producer(servers: str, name: str, **options: Any) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 1, **options}
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def read(servers: str, topic: str, *, isolation: str = "read_committed", group: str = "reader") -> list[bytes]:
    """Read a partition up to its end as it is now."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "neither a record nor the end came"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return values
            values.append(message.value())
    finally:
        consumer.close()


def test_confluent_kafka_commits_and_aborts(servers: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    producer = confluent_producer(servers, transactional_id())
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, f"{number}".encode())
        producer.flush(DEADLINE_S)
        if number % 3 == 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    wait_for(lambda: read(servers, topic) == [b"0", b"1", b"3", b"4"])
    assert read(servers, topic, isolation="read_uncommitted") == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_what_is_not_committed_yet_is_not_seen_nor_what_comes_after_it(
    servers: str, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    slow = confluent_producer(servers, transactional_id())
    quick = confluent_producer(servers, transactional_id())
    slow.begin_transaction()
    slow.produce(topic, b"slow")
    assert slow.flush(DEADLINE_S) == 0
    quick.begin_transaction()
    quick.produce(topic, b"quick")
    quick.commit_transaction(DEADLINE_S)
    assert read(servers, topic) == []
    slow.commit_transaction(DEADLINE_S)
    wait_for(lambda: read(servers, topic) == [b"slow", b"quick"])


def test_a_producer_that_was_replaced_is_fenced(servers: str, make_topic: Callable[..., str]) -> None:
    topic, name = make_topic(), transactional_id()
    first = confluent_producer(servers, name)
    first.begin_transaction()
    first.produce(topic, b"of the first")
    assert first.flush(DEADLINE_S) == 0
    second = confluent_producer(servers, name)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        first.commit_transaction(DEADLINE_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    second.begin_transaction()
    second.produce(topic, b"of the second")
    second.commit_transaction(DEADLINE_S)
    wait_for(lambda: read(servers, topic) == [b"of the second"])


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_count_when_their_transaction_does(servers: str, make_topic: Callable[..., str], commits: bool) -> None:
    source, target, group = make_topic(), make_topic(), transactional_id()
    plain = confluent_kafka.Producer({"bootstrap.servers": servers})
    plain.produce(source, b"record")
    assert plain.flush(DEADLINE_S) == 0
    options = {
        "bootstrap.servers": servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    consumer = confluent_kafka.Consumer(options)
    try:
        consumer.subscribe([source])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None
        producer = confluent_producer(servers, transactional_id())
        producer.begin_transaction()
        producer.produce(target, message.value())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), DEADLINE_S
        )
        if commits:
            producer.commit_transaction(DEADLINE_S)
        else:
            producer.abort_transaction(DEADLINE_S)
        (committed,) = consumer.committed([confluent_kafka.TopicPartition(source, 0)], DEADLINE_S)
        assert committed.offset == (1 if commits else confluent_kafka.OFFSET_INVALID)
        wait_for(lambda: read(servers, target) == ([b"record"] if commits else []))
    finally:
        consumer.close()


def test_a_transaction_may_not_be_meant_to_take_longer_than_the_broker_allows(servers: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "transactional.id": transactional_id(), "transaction.timeout.ms": 900_001}
    )
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        producer.init_transactions(DEADLINE_S)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_aiokafka_commits_aborts_and_sends_offsets(servers: str, make_topic: Callable[..., str]) -> None:
    source, target, group = make_topic(), make_topic(), transactional_id()

    async def copy() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id())
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send(source, b"a", partition=0)
                await producer.send(source, b"b", partition=0)
            await producer.begin_transaction()
            await producer.send_and_wait(target, b"aborted", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(target, b"a", partition=0)
                place = aiokafka.TopicPartition(source, 0)
                await producer.send_offsets_to_transaction({place: 1}, group)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(copy(), DEADLINE_S))
    wait_for(lambda: read(servers, source) == [b"a", b"b"])
    wait_for(lambda: read(servers, target) == [b"a"])
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        (committed,) = consumer.committed([confluent_kafka.TopicPartition(source, 0)], DEADLINE_S)
        assert committed.offset == 1
    finally:
        consumer.close()
