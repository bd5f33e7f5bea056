"""Exactly once: what a copier makes of a topic is there once each, whoever is killed with -9 at whatever moment."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.history.checker import find_anomalies
from tests.history.operations import Operation, Polled, Sent

PARTITIONS = 3
DEADLINE_S = 60.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.bytes": "1048576",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


class CopierProcess:
    """A copier that is started again when it ends."""

    def __init__(self, servers: str, folder: Path, records_a_transaction: int) -> None:
        self._command = [sys.executable, "-m", "tests.faults.copier", servers, "source", "target", "copier"]
        self._command.append(str(records_a_transaction))
        self._output = folder / "copier.log"
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def ensure_running(self) -> None:
        """Start it where it is not running: it was killed, or it gave up."""
        if self._process is None or self._process.poll() is not None:
            with self._output.open("ab") as output:
                self._process = subprocess.Popen(self._command, stdout=output, stderr=output)
            self.starts += 1

    def kill(self) -> None:
        """End it with -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def output(self) -> str:
        """What it printed."""
        return self._output.read_text()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, SETTINGS) as process:
        yield process


def fill(servers: str, records: int) -> None:
    """Make both topics, and the records to copy: each partition has every third number."""
    admin = AdminClient({"bootstrap.servers": servers})
    futures = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("source", "target")])
    for future in futures.values():
        future.result(DEADLINE_S)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 10**6,
        }
    )
    for number in range(records):
        producer.produce("source", b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0


class Reader:
    """Reads the target under read_committed, while it is being written and broken."""

    def __init__(self, servers: str) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.ms": 5,
                "reconnect.backoff.max.ms": 50,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition("target", number, 0) for number in range(PARTITIONS)])
        self.history: list[Operation] = []
        self.values: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        self.count = 0

    def read(self, seconds: float) -> None:
        """Read what comes in a while."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            for message in self._consumer.consume(1000, min(left, 0.05)):
                if message.error() is None:
                    partition, value = message.partition(), int(message.value().removeprefix(b"c"))
                    self.history.append(Polled("reader", ("target", partition), 0, ((message.offset(), value),)))
                    self.values[partition].append(value)
                    self.count += 1

    def close(self) -> None:
        """Stop reading."""
        self._consumer.close()


def check_copy_under_kills(
    broker: BrokerProcess | ApacheKafka, *, records: int, kills: int, records_a_transaction: int, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    fill(broker.bootstrap_servers, records)
    copier = CopierProcess(broker.bootstrap_servers, broker.folder, records_a_transaction)
    reader = Reader(broker.bootstrap_servers)
    try:
        for turn in range(kills):
            # The kills are spread over the work, each at a random moment of it.
            wait_for_progress(copier, reader, more_than=records * turn // (kills + 1))
            reader.read(chance.uniform(0, 0.1))
            kill_one(broker, copier, chance, turn)
        wait_for_progress(copier, reader, more_than=records - 1)
        reader.read(0.5)
    finally:
        copier.kill()
        reader.close()
    check(reader, records, copier)


def kill_one(broker: BrokerProcess | ApacheKafka, copier: CopierProcess, chance: random.Random, turn: int) -> None:
    """Kill the broker, the copier, or both."""
    who = ("broker", "copier", "both")[turn % 3]
    if who != "broker":
        copier.kill()
    if who != "copier":
        broker.kill()
        threading.Event().wait(chance.uniform(0, 0.1))
        broker.start()


def wait_for_progress(copier: CopierProcess, reader: Reader, *, more_than: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while reader.count <= more_than:
        copier.ensure_running()
        reader.read(0.01)
        assert time.monotonic() < deadline, f"stuck at {reader.count} records: {copier.output[-3000:]}"


def check(reader: Reader, records: int, copier: CopierProcess) -> None:
    # Where the copier's records stand only the reader knows.
    history: list[Operation] = [Sent("copier", ("target", n % PARTITIONS), n, None) for n in range(records)]
    assert find_anomalies(history + reader.history) == {}, copier.output[-2000:]
    for partition, values in reader.values.items():
        assert values == list(range(partition, records, PARTITIONS))


def test_every_record_is_copied_once(broker: BrokerProcess) -> None:
    check_copy_under_kills(broker, records=1_500, kills=3, records_a_transaction=10, seed=random.randrange(10**9))


@pytest.mark.slow
def test_a_hundred_thousand_records_are_copied_once(broker: BrokerProcess) -> None:
    check_copy_under_kills(broker, records=100_000, kills=60, records_a_transaction=200, seed=random.randrange(10**9))


@pytest.mark.slow
@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_apache_kafka_as_the_control(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path, SETTINGS) as kafka:
        check_copy_under_kills(kafka, records=1_500, kills=3, records_a_transaction=10, seed=random.randrange(10**9))
