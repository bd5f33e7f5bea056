"""A word count with Kafka Streams under exactly_once_v2, in whose middle the broker and an instance are killed."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import confluent_kafka
import pytest

from tailrace.testing.apache_kafka import unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.compat.java_groups.conftest import SETTINGS
from tests.compat.java_groups.java_process import JavaProcess, wait_until

STREAMS = "kafka-streams"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable(STREAMS) is not None, reason=str(unavailable(STREAMS)))]

PARTITIONS = 3
LINES = 3000
WORDS_PER_LINE = 4
WORDS = [f"word-{number}" for number in range(40)]
PROGRAM = Path(__file__).with_name("WordCount.java")
STREAMS_SETTINGS = """
commit.interval.ms=100
num.stream.threads=2
topology.optimization=none
replication.factor=1
consumer.session.timeout.ms=6000
consumer.heartbeat.interval.ms=500
producer.transaction.timeout.ms=20000
"""


class WordCount:
    """The application: its instances, what they were given and what they counted."""

    def __init__(self, folder: Path, servers: str) -> None:
        self.folder = folder
        self.servers = servers
        self.expected: Counter[str] = Counter()
        self.counted: dict[str, list[int]] = {}
        self._chance = random.Random(11)
        folder.mkdir()
        self._settings = folder / "streams.properties"
        self._settings.write_text(STREAMS_SETTINGS)
        self._consumer: confluent_kafka.Consumer | None = None

    def start(self, name: str) -> JavaProcess:
        arguments = [self.servers, "word-count", "lines", "counts", str(self.folder / name), str(self._settings)]
        return JavaProcess(self.folder, str(PROGRAM), *arguments, artifacts=(STREAMS,))

    def write(self, lines: int) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers})
        for number in range(lines):
            words = self._chance.choices(WORDS, k=WORDS_PER_LINE)
            self.expected.update(words)
            producer.produce("lines", " ".join(words), partition=number % PARTITIONS)
        assert producer.flush(60) == 0

    def read(self) -> None:
        """Take what was committed to the output since the last call."""
        if self._consumer is None:
            settings = {"bootstrap.servers": self.servers, "group.id": "reader", "enable.auto.commit": False}
            self._consumer = confluent_kafka.Consumer({**settings, "isolation.level": "read_committed"})
            self._consumer.assign([confluent_kafka.TopicPartition("counts", p, 0) for p in range(PARTITIONS)])
        for message in self._consumer.consume(1000, 0.1):
            if message.error() is None:
                word, count = (message.key() or b"").decode(), int(message.value() or b"")
                self.counted.setdefault(word, []).append(count)

    def has_counted_all(self) -> bool:
        self.read()
        return {word: counts[-1] for word, counts in self.counted.items()} == self.expected

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def test_words_are_counted_once_though_broker_and_instance_are_killed(tmp_path: Path) -> None:
    settings = {**SETTINGS, "num.partitions": str(PARTITIONS)}
    with BrokerProcess(tmp_path / "broker", settings) as broker:
        count = WordCount(tmp_path / "streams", broker.bootstrap_servers)
        count.write(LINES)
        with count.start("first") as first, count.start("second") as second:
            running = [first, second]
            wait_until(running, lambda: count.read() or sum(map(len, count.counted.values())) > len(WORDS))
            broker.kill()
            broker.start()
            count.write(LINES)
            wait_until(running, count.has_counted_all)
            first.kill()
            count.write(LINES)
            wait_until([second], count.has_counted_all)
            assert not first.named("uncaught"), first
            assert not second.named("uncaught"), second
            assert second.stop() in (0, 143)
        count.close()
    for word, counts in count.counted.items():
        assert counts == sorted(set(counts)), f"{word} was counted back or twice: {counts}"
