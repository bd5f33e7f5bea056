"""Kill -9 at random moments under load: nothing acknowledged is lost, nothing idempotent is written twice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.history.checker import find_anomalies
from tests.history.operations import Operation, Polled, Sent

TOPIC = "killed"
PARTITIONS = 3
DEADLINE_S = 60
DELIVERY_DEADLINE_S = 300  # a JVM that is killed again and again may be away for more than a minute
SETTINGS = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "512"}


class Load:
    """A producer on a thread of its own that remembers what was acknowledged, and where."""

    def __init__(self, servers: str, topic: str, *, is_idempotent: bool, seed: int) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.sent = 0
        self.fatal: list[Any] = []
        self._topic = topic
        self._chance = random.Random(seed)
        self._ending = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": is_idempotent,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "queue.buffering.max.messages": 2_000,
                "compression.type": "lz4",
                "message.timeout.ms": DELIVERY_DEADLINE_S * 1000,
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 20,
                "retry.backoff.ms": 5,
                "retry.backoff.max.ms": 20,
                "log_level": 0,
                "error_cb": self._failed,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _failed(self, error: Any) -> None:
        if error.fatal():
            self.fatal.append(error)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            number = int(message.value().split(b":")[0])
            self.acknowledged[number] = (message.partition(), message.offset())

    def _run(self) -> None:
        while not self._ending.is_set() and not self.fatal:
            value = b"%d:" % self.sent + b"x" * self._chance.randrange(400)
            try:
                self._producer.produce(
                    self._topic, value, partition=self.sent % PARTITIONS, on_delivery=self._delivered
                )
                self.sent += 1
            except BufferError:
                self._producer.poll(0.01)
            self._producer.poll(0)

    def wait_for_acknowledgements(self) -> None:
        """Wait until the load flows again, so that every kill has something to lose."""
        before = len(self.acknowledged)
        deadline = time.monotonic() + DEADLINE_S
        while len(self.acknowledged) == before and not self.fatal:
            assert time.monotonic() < deadline, "nothing was acknowledged since the last start"
            self._ending.wait(0.005)

    def end(self) -> None:
        """Stop sending, and wait until everything was delivered or given up."""
        self._ending.set()
        self._thread.join()
        left = self._producer.flush(DELIVERY_DEADLINE_S)
        assert self.fatal == []
        assert left == 0, f"{left} records were never answered"


def read_everything(servers: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Give each partition's (offset, number) in the order a consumer sees them."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "check", "enable.partition.eof": True, "check.crcs": True}
    )
    seen: dict[int, list[tuple[int, int]]] = {partition: [] for partition in range(PARTITIONS)}
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in seen])
        ended: set[int] = set()
        while len(ended) < PARTITIONS:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "the consumer got stuck"
            if message.error() is None:
                seen[message.partition()].append((message.offset(), int(message.value().split(b":")[0])))
            else:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
        return seen
    finally:
        consumer.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, SETTINGS) as process:
        yield process


def check_kills_under_load(broker: BrokerProcess | ApacheKafka, *, is_idempotent: bool, kills: int, seed: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(DEADLINE_S)
    chance = random.Random(seed)
    print(f"seed {seed}")
    load = Load(broker.bootstrap_servers, TOPIC, is_idempotent=is_idempotent, seed=seed)
    pause = threading.Event()
    try:
        for _ in range(kills):
            load.wait_for_acknowledgements()
            pause.wait(chance.uniform(0, 0.3))
            broker.kill()
            broker.start()
    finally:
        load.end()
    check(load, read_everything(broker.bootstrap_servers, TOPIC), is_idempotent=is_idempotent)


def check(load: Load, seen: dict[int, list[tuple[int, int]]], *, is_idempotent: bool) -> None:
    assert load.acknowledged, "nothing was acknowledged: the test proves nothing"
    history: list[Operation] = [
        Sent("producer", (TOPIC, partition), number, offset)
        for number, (partition, offset) in sorted(load.acknowledged.items())
    ]
    history += [Polled("consumer", (TOPIC, partition), 0, tuple(records)) for partition, records in seen.items()]
    anomalies = find_anomalies(history)
    if not is_idempotent:  # a retry may write twice, and behind what was sent after it
        anomalies.pop("duplicate", None)
        anomalies.pop("non-monotonic send", None)
    assert anomalies == {}
    for partition, records in seen.items():
        assert [offset for offset, _ in records] == list(range(len(records)))
        if is_idempotent:
            assert [number for _, number in records] == list(range(partition, load.sent, PARTITIONS))


def test_an_idempotent_producer_survives_kills(broker: BrokerProcess) -> None:
    check_kills_under_load(broker, is_idempotent=True, kills=8, seed=random.randrange(10**9))


def test_nothing_acknowledged_is_lost_without_idempotence_either(broker: BrokerProcess) -> None:
    check_kills_under_load(broker, is_idempotent=False, kills=5, seed=random.randrange(10**9))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_two_hundred_kills(broker: BrokerProcess, batch: int) -> None:
    check_kills_under_load(broker, is_idempotent=batch % 4 != 3, kills=25, seed=random.randrange(10**9))


@pytest.mark.slow
@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_apache_kafka_as_the_control(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path) as kafka:
        check_kills_under_load(kafka, is_idempotent=True, kills=4, seed=random.randrange(10**9))
