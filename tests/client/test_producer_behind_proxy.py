"""The producer over a network that fails, to a real broker: nothing lost, doubled or out of order, and all in its time.

The proxy strikes answers by a seed. A run sends records while that goes on, lets the network heal, and compares what
another client reads with what was sent.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from random import Random
from typing import Any

import pytest

from tailrace.client.cluster import Cluster
from tailrace.client.delivery import Delivery
from tailrace.client.errors import AbortableError, BufferExhausted, OperationTimedOut
from tailrace.client.producer import Producer
from tailrace.protocol.api_keys import ApiKey
from tailrace.settings.client_config import ProducerConfig
from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.client.fault_proxy import Choose, Fault, FaultProxy
from tests.client.other_reader import read_partitions
from tests.waiting import until

Broker = BrokerProcess | ApacheKafka
MakeProducer = Callable[..., Producer[Any, Any]]
needs_java = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]
PARTITIONS = 3
RECORDS = 600
SETTINGS = {
    "num.partitions": str(PARTITIONS),
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
FAULTS = [fault for fault in Fault if fault is not Fault.NONE]
STRUCK = frozenset({ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN, ApiKey.FIND_COORDINATOR})
OPTIONS: dict[str, Any] = {
    "request_timeout_ms": 400,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
    "delivery_timeout_ms": 60_000,
    "linger_ms": 1,
    "batch_size": 600,
    "buffer_memory": 12_000,
}


@pytest.fixture(scope="module", params=["tailrace", pytest.param("kafka", marks=needs_java)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    kind = BrokerProcess if request.param == "tailrace" else ApacheKafka
    with kind(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


@pytest.fixture
async def proxy(broker: Broker) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(broker.port) as made:
        yield made


@pytest.fixture
async def make_producer(broker: Broker, proxy: FaultProxy) -> AsyncIterator[MakeProducer]:
    clusters: list[Cluster] = []

    def make(**options: Any) -> Producer[bytes, bytes]:
        config = ProducerConfig({"bootstrap_servers": broker.bootstrap_servers, **OPTIONS, **options})
        clusters.append(Cluster(config, connect=proxy.connect))
        return Producer(config, cluster=clusters[-1])

    yield make
    for cluster in clusters:
        await cluster.close()


def striking(random: Random, faults: list[Fault], rate: float) -> Choose:
    """Strike the third answer to a Produce, and others by chance."""
    produced = itertools.count(1)

    def choose(api: ApiKey) -> Fault:
        is_due = api is ApiKey.PRODUCE and next(produced) == 3
        return random.choice(faults) if is_due or (api in STRUCK and random.random() < rate) else Fault.NONE

    return choose


async def send_all(
    producer: Producer[Any, Any], topic: str, random: Random, records: int = RECORDS
) -> list[list[tuple[bytes, Delivery]]]:
    sent: list[list[tuple[bytes, Delivery]]] = [[] for _ in range(PARTITIONS)]
    memory = producer._accumulator.memory
    for number in range(records):
        partition = random.randrange(PARTITIONS)
        value = b"%d:%s" % (number, b"x" * random.randrange(60))
        sent[partition].append((value, await producer.send(topic, value, partition=partition)))
        held = sum(batch.size for batch in producer._accumulator.incomplete)
        assert held <= memory.total_bytes - memory.available_bytes <= memory.total_bytes, "more than buffer.memory"
        if random.random() < 0.1:
            await asyncio.sleep(0)
    return sent


@pytest.mark.parametrize("fault", [*FAULTS, None], ids=lambda fault: fault.name.lower() if fault else "all")
async def test_nothing_is_lost_doubled_or_out_of_order(
    broker: Broker, make_producer: MakeProducer, proxy: FaultProxy, fault: Fault | None
) -> None:
    random = Random(f"{fault}")
    topic = f"ordered-{fault.name if fault else 'all'}"
    producer = make_producer()
    await producer.partitions_for(topic)
    rate = 0.03 if fault is Fault.HALF_OPEN else 0.25
    proxy.choose = striking(random, FAULTS if fault is None else [fault], rate)
    sent = await send_all(producer, topic, random)
    proxy.heal()
    await producer.close()
    assert any(api is ApiKey.PRODUCE for api, _ in proxy.struck), "the fault was there"
    assert producer._accumulator.memory.available_bytes == OPTIONS["buffer_memory"]
    found = await read_partitions(broker.bootstrap_servers, topic, PARTITIONS)
    assert found == [[value for value, _ in mine] for mine in sent]
    for mine in sent:
        # A broker remembers five batches; of an older duplicate it does not say where it is.
        assert all(delivery.result().offset in (place, -1) for place, (_, delivery) in enumerate(mine))


@pytest.mark.parametrize("fault", [Fault.RESET_BEFORE, Fault.RESET_WITHIN, Fault.DROPPED])
async def test_without_idempotence_what_was_acknowledged_is_there(
    broker: Broker, make_producer: MakeProducer, proxy: FaultProxy, fault: Fault
) -> None:
    random = Random(3)
    topic = f"acknowledged-{fault.name}"
    options = {"enable_idempotence": False}
    producer = make_producer(**options)
    await producer.partitions_for(topic)
    proxy.choose = striking(random, [fault], 0.25)
    sent = await send_all(producer, topic, random)
    proxy.heal()
    await producer.close()
    found = await read_partitions(broker.bootstrap_servers, topic, PARTITIONS)
    for values, mine in zip(found, sent, strict=True):
        assert len(values) >= len(mine)
        assert all(values[delivery.result().offset] == value for value, delivery in mine)


async def test_what_is_committed_is_there_once(broker: Broker, make_producer: MakeProducer, proxy: FaultProxy) -> None:
    random = Random(5)
    topic = "committed"
    options = {"transactional_id": "behind-proxy", "max_block_ms": 20_000}
    async with make_producer(**options) as producer:
        await producer.partitions_for(topic)
        await producer.init_transactions()
        proxy.choose = striking(random, [fault for fault in FAULTS if fault is not Fault.HALF_OPEN], 0.15)
        number = 0
        while number < 25:
            try:
                async with producer.transaction():
                    for partition in range(PARTITIONS):
                        await producer.send_batch(topic, [b"%d a" % number, b"%d b" % number], partition=partition)
            except AbortableError:
                continue
            number += 1
        proxy.heal()
    assert {api for api, _ in proxy.struck} >= {ApiKey.PRODUCE, ApiKey.END_TXN}
    expected = [b"%d %s" % (number, part) for number in range(25) for part in (b"a", b"b")]
    assert await read_partitions(broker.bootstrap_servers, topic, PARTITIONS) == [expected] * PARTITIONS


async def test_a_broker_that_is_killed_and_started_again(
    broker: Broker, make_producer: MakeProducer, proxy: FaultProxy
) -> None:
    random = Random(7)
    topic = "killed"
    async with make_producer() as producer:
        await producer.partitions_for(topic)
        await (await producer.send(topic, b"first", partition=0))
        sending = asyncio.create_task(send_all(producer, topic, random, records=4_000))
        proxy.choose = striking(random, [Fault.RESET_BEFORE], 0.05)
        for _ in range(2):
            await asyncio.to_thread(broker.kill)
            assert not sending.done(), "it is killed while records are sent"
            await asyncio.to_thread(broker.start)
        sent = await sending
        proxy.heal()
    found = await read_partitions(broker.bootstrap_servers, topic, PARTITIONS)
    expected = [[value for value, _ in mine] for mine in sent]
    expected[0].insert(0, b"first")
    assert found == expected


async def test_a_record_is_given_up_after_delivery_timeout_ms(
    broker: Broker, make_producer: MakeProducer, proxy: FaultProxy
) -> None:
    options = {"request_timeout_ms": 150, "delivery_timeout_ms": 500, "linger_ms": 0}
    async with make_producer(**options) as producer:
        await (await producer.send("timely", b"v"))
        proxy.choose = lambda api: Fault.HALF_OPEN if api is ApiKey.PRODUCE else Fault.NONE
        began = time.monotonic()
        with pytest.raises(OperationTimedOut, match="not acknowledged in 500 ms"):
            await (await producer.send("timely", b"late"))
        took = time.monotonic() - began
        assert 0.49 <= took < 5
        assert len([api for api, _ in proxy.struck if api is ApiKey.PRODUCE]) >= 2, "request.timeout.ms ended attempts"
        proxy.heal()
        await (await producer.send("timely", b"again"))


async def test_send_waits_for_the_buffer_and_for_metadata_as_long_as_max_block_ms(
    broker: Broker, make_producer: MakeProducer, proxy: FaultProxy
) -> None:
    options = {"max_block_ms": 300, "request_timeout_ms": 200, "delivery_timeout_ms": 20_000}
    async with make_producer(**options) as producer:
        await producer.partitions_for("full")
        proxy.choose = lambda api: Fault.HALF_OPEN
        while producer._accumulator.memory.available_bytes >= OPTIONS["batch_size"]:
            await producer.send("full", b"x" * 400)
        began = time.monotonic()
        with pytest.raises(BufferExhausted):
            await producer.send("full", b"x" * 400)
        assert 0.29 <= time.monotonic() - began < 5
        began = time.monotonic()
        with pytest.raises(OperationTimedOut):
            await producer.send("unknown", b"v")
        assert 0.1 <= time.monotonic() - began < 5
        proxy.heal()
    assert sum(map(len, await read_partitions(broker.bootstrap_servers, "full", PARTITIONS))) > 0


async def test_a_broker_that_takes_no_connections_is_waited_for(
    broker: Broker, make_producer: MakeProducer, proxy: FaultProxy
) -> None:
    proxy.refuses = True
    producer = make_producer()
    sending = asyncio.create_task(producer.send("patient", b"v", partition=0))
    await until(lambda: proxy.connections_count >= 3, "three attempts to connect")
    assert not sending.done()
    proxy.heal()
    await (await sending)
    await producer.close()
    assert (await read_partitions(broker.bootstrap_servers, "patient", PARTITIONS))[0] == [b"v"]


async def test_memory_stays_near_buffer_memory_while_nobody_answers(
    broker: Broker, make_producer: MakeProducer, proxy: FaultProxy
) -> None:
    """Also in the process: what is on its way is written once more, into the connection's buffer, and no oftener."""
    buffer_memory, value = 8_000_000, b"x" * 10_000
    options = {"max_block_ms": 800, "batch_size": 100_000, "buffer_memory": buffer_memory, "request_timeout_ms": 200}
    producer = make_producer(**options)
    await (await producer.send("stalled", value))
    proxy.choose = lambda api: Fault.HALF_OPEN if api is ApiKey.PRODUCE else Fault.NONE
    tracemalloc.start()
    try:
        with pytest.raises(BufferExhausted):
            await asyncio.gather(*(producer.send("stalled", value) for _ in range(2_000)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.8 * buffer_memory < peak < 2 * buffer_memory
    await producer.close(flush=False)
