"""A request that comes late, when its transaction is over, decides nothing of the next one (KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.client import Producer
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.codec import decode_message
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.end_txn import EndTxnResponse
from tailrace.protocol.messages.produce import ProduceResponse
from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.faults.holding_proxy import HoldingProxy
from tests.waiting import DEADLINE_S

TOPIC = "late"
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
RESPONSE_HEADER_BYTES = 5
"""A correlation id and no tagged fields."""


@pytest.fixture(
    params=[
        "tailrace",
        pytest.param(
            "apache-kafka",
            marks=[pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))],
        ),
    ]
)
async def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HoldingProxy]:
    kind = BrokerProcess if request.param == "tailrace" else ApacheKafka
    async with HoldingProxy() as between:
        settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{between.port}"}
        broker = kind(tmp_path, settings)
        await asyncio.to_thread(broker.start)
        try:
            between.broker_port = broker.port
            admin = AdminClient({"bootstrap.servers": address(between)})
            futures = admin.create_topics([NewTopic(TOPIC, 1, 1)])
            await asyncio.to_thread(futures[TOPIC].result, DEADLINE_S)
            yield between
        finally:
            await asyncio.to_thread(broker.stop)


def address(proxy: HoldingProxy) -> str:
    return f"127.0.0.1:{proxy.port}"


def read_committed(servers: str) -> list[bytes]:
    """Read the topic to its last stable offset."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "check", "enable.partition.eof": True, "check.crcs": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "the consumer got stuck"
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                return values
            values.append(message.value())
    finally:
        consumer.close()


async def committed(proxy: HoldingProxy) -> list[bytes]:
    return await asyncio.to_thread(read_committed, address(proxy))


async def send(producer: Producer[Any, Any], value: bytes) -> None:
    await producer.send(TOPIC, value, partition=0)
    await producer.flush()


def produce_error(answer: bytes, version: int = 13) -> ErrorCode:
    response = decode_message(ProduceResponse, version, answer[RESPONSE_HEADER_BYTES:])
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("commits", [True, False])
async def test_a_late_end_does_not_end_the_next_transaction(proxy: HoldingProxy, commits: bool) -> None:
    async with Producer(bootstrap_servers=address(proxy), transactional_id="t") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await send(producer, b"1")
        proxy.hold_next(ApiKey.END_TXN)
        await (producer.commit_transaction() if commits else producer.abort_transaction())
        await producer.begin_transaction()
        await send(producer, b"2")
        answer = decode_message(EndTxnResponse, 5, (await proxy.release())[RESPONSE_HEADER_BYTES:])
        assert answer.error_code in FENCED
        first = [b"1"] if commits else []
        assert await committed(proxy) == first
        await send(producer, b"3")
        await (producer.abort_transaction() if commits else producer.commit_transaction())
        assert await committed(proxy) == (first if commits else [b"2", b"3"])


@pytest.mark.parametrize("commits", [True, False])
async def test_a_late_produce_is_in_no_other_transaction(proxy: HoldingProxy, commits: bool) -> None:
    async with Producer(bootstrap_servers=address(proxy), transactional_id="t") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        proxy.hold_next(ApiKey.PRODUCE)
        await send(producer, b"1")
        await (producer.commit_transaction() if commits else producer.abort_transaction())
        await producer.begin_transaction()
        await send(producer, b"2")
        assert produce_error(await proxy.release()) in FENCED
        await producer.commit_transaction()
        assert await committed(proxy) == ([b"1", b"2"] if commits else [b"2"])


async def test_a_late_produce_between_two_transactions_opens_none(proxy: HoldingProxy) -> None:
    async with Producer(bootstrap_servers=address(proxy), transactional_id="t") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        proxy.hold_next(ApiKey.PRODUCE)
        await send(producer, b"1")
        await producer.abort_transaction()
        # Until the abort's marker is in the log, which Kafka does not wait for, it is a duplicate.
        assert produce_error(await proxy.release()) in (*FENCED, ErrorCode.NONE)
        await producer.begin_transaction()
        await send(producer, b"2")
        await producer.commit_transaction()
        assert await committed(proxy) == [b"2"]


async def test_a_late_produce_of_an_older_client_is_known_by_its_sequence(proxy: HoldingProxy) -> None:
    """librdkafka keeps its epoch from one transaction to the next (transactions v1)."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address(proxy), "transactional.id": "v1", "reconnect.backoff.ms": 5, "log_level": 0}
    )
    await asyncio.to_thread(producer.init_transactions, DEADLINE_S)
    producer.begin_transaction()
    proxy.hold_next(ApiKey.PRODUCE)
    producer.produce(TOPIC, b"1", partition=0)
    await asyncio.to_thread(producer.commit_transaction, DEADLINE_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"2", partition=0)
    assert await asyncio.to_thread(producer.flush, DEADLINE_S) == 0
    await proxy.release()
    await asyncio.to_thread(producer.commit_transaction, DEADLINE_S)
    assert await committed(proxy) == [b"1", b"2"]
