"""Groups of which one member is librdkafka's: either may lead, and each understands what the other says of itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from tests.client.group_servers import SERVERS, Member, group_options, make_topic, produce, start_server
from tests.waiting import until


@pytest.fixture(scope="module", params=SERVERS)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from start_server(request.param, tmp_path_factory)


class Foreigner:
    """A confluent-kafka consumer that a thread polls."""

    def __init__(self, topic: str, options: dict[str, Any]) -> None:
        protocol = options.get("partition_assignment_strategy", "consumer")
        settings: dict[str, Any] = {
            "bootstrap.servers": options["bootstrap_servers"],
            "group.id": options["group_id"],
            "auto.offset.reset": "earliest",
        }
        if protocol == "consumer":
            settings["group.protocol"] = "consumer"
        else:
            settings |= {"partition.assignment.strategy": protocol, "heartbeat.interval.ms": 100}
        self.values: list[int] = []
        self.partitions: set[int] = set()
        self._is_stopping = threading.Event()
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            for message in self._consumer.consume(100, 0.05):
                if message.error() is None:
                    self.values.append(int(message.value() or b"-1"))
            self.partitions = {place.partition for place in self._consumer.assignment()}
        self._consumer.close()

    async def stop(self) -> None:
        self._is_stopping.set()
        await asyncio.to_thread(self._thread.join)


@pytest.mark.parametrize("protocol", ["range", "roundrobin", "cooperative-sticky", "consumer"])
@pytest.mark.parametrize("leads", ["ours", "theirs"])
async def test_members_of_both_clients_share_a_group(servers: str, protocol: str, leads: str) -> None:
    topic = await make_topic(servers)
    await produce(servers, topic, range(100))
    options = group_options(servers, protocol)
    foreigner = Foreigner(topic, options) if leads == "theirs" else None
    if foreigner is not None:
        await until(lambda: len(foreigner.values) == 100, "everything read by theirs")
    ours = Member.of(topic, **options)
    if foreigner is None:
        await until(lambda: len(ours.records) == 100, "everything read by ours")
        foreigner = Foreigner(topic, options)
    theirs = foreigner
    try:
        await until(lambda: len(ours.partitions) == 2 == len(theirs.partitions), "two partitions for each")
        assert ours.partitions | theirs.partitions == set(range(4))
        await produce(servers, topic, range(100, 200))
        await until(lambda: len(ours.records) + len(theirs.values) >= 200, "the rest read by both")
        assert sorted(ours.values + theirs.values) == list(range(200))
        await (ours.stop() if leads == "ours" else theirs.stop())
        await until(lambda: len(theirs.partitions if leads == "ours" else ours.partitions) == 4, "all for who stays")
        await produce(servers, topic, range(200, 240))
        await until(lambda: len(ours.records) + len(theirs.values) >= 240, "the last read by who stays")
        assert sorted(ours.values + theirs.values) == list(range(240))
    finally:
        await theirs.stop()
        if leads == "theirs":
            await ours.stop()
