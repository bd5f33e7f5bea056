"""The consumer over a network that fails, to a real broker: in order, nothing left out, and nothing twice.

Only a member whose group has given its partitions away meanwhile may read a record again.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import pytest

from tailrace.client import Consumer, TopicPartition
from tailrace.client.cluster import Cluster
from tailrace.protocol.api_keys import ApiKey
from tailrace.settings.client_config import ConsumerConfig
from tailrace.testing.broker_process import BrokerProcess
from tests.client.fault_proxy import Fault, FaultProxy
from tests.client.group_servers import SETTINGS, group_options, make_topic, produce

PARTITIONS = 3
RECORDS = 900
READING = frozenset({ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA})
GROUP = READING | {
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
}
OPTIONS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "request_timeout_ms": 400,
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
    "fetch_max_wait_ms": 20,
    "max_partition_fetch_bytes": 1_000,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


@pytest.fixture
async def proxy(broker: BrokerProcess) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(broker.port) as made:
        yield made


def strike(proxy: FaultProxy, struck: frozenset[ApiKey], faults: list[Fault], rate: float, random: Random) -> None:
    """Strike the third answer to a fetch, and others by chance."""
    fetched = itertools.count(1)

    def choose(api: ApiKey) -> Fault:
        is_due = api is ApiKey.FETCH and next(fetched) == 3
        return random.choice(faults) if is_due or (api in struck and random.random() < rate) else Fault.NONE

    proxy.choose = choose


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.NONE], ids=lambda fault: fault.name)
async def test_records_come_in_order_and_once(broker: BrokerProcess, proxy: FaultProxy, fault: Fault) -> None:
    topic = await make_topic(broker.bootstrap_servers, PARTITIONS)
    await produce(broker.bootstrap_servers, topic, range(RECORDS), PARTITIONS)
    config = ConsumerConfig({"bootstrap_servers": broker.bootstrap_servers, **OPTIONS})
    seen: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    strike(proxy, READING, [fault], 0.03 if fault is Fault.HALF_OPEN else 0.2, Random(fault.name))
    async with (
        Cluster(config, connect=proxy.connect) as cluster,
        Consumer(config, cluster=cluster) as consumer,
    ):
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        while sum(map(len, seen.values())) < RECORDS:
            records = await consumer.poll(20_000, max_records=50)
            assert records, f"nothing came any more after {sum(map(len, seen.values()))}"
            for record in records:
                seen[record.partition].append(int(record.value or b"-1"))
        proxy.heal()
        assert not await consumer.poll(100)
    assert (ApiKey.FETCH, fault) in proxy.struck, "the fault was there"
    assert seen == {number: list(range(number, RECORDS, PARTITIONS)) for number in range(PARTITIONS)}


@pytest.mark.parametrize("protocol", ["cooperative-sticky", "consumer"])
async def test_a_member_reads_everything(broker: BrokerProcess, proxy: FaultProxy, protocol: str) -> None:
    topic = await make_topic(broker.bootstrap_servers, PARTITIONS)
    await produce(broker.bootstrap_servers, topic, range(RECORDS), PARTITIONS)
    options = group_options(broker.bootstrap_servers, protocol, **OPTIONS, auto_commit_interval_ms=20)
    config = ConsumerConfig(options)
    faults = [Fault.RESET_BEFORE, Fault.RESET_WITHIN, Fault.DUPLICATED, Fault.SLOW]
    strike(proxy, frozenset(GROUP), faults, 0.1, Random(protocol))
    seen: set[int] = set()
    async with (
        Cluster(config, connect=proxy.connect) as cluster,
        Consumer(config, cluster=cluster) as consumer,
    ):
        consumer.subscribe([topic])
        while len(seen) < RECORDS:
            records = await consumer.poll(20_000, max_records=50)
            assert records, f"nothing came any more after {len(seen)}"
            seen |= {int(record.value or b"-1") for record in records}
        proxy.heal()
        await consumer.commit()
        keys = sorted(consumer.assignment)
        places = await consumer.committed(*keys)
    assert {place.offset for place in places.values() if place is not None} == {RECORDS // PARTITIONS}
    assert proxy.struck
