"""Kafka's TransactionalMessageCopier: it commits what it read and what it wrote as one transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from tailrace.testing.apache_kafka import unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.compat.java_groups.conftest import SETTINGS, produce
from tests.compat.java_groups.java_process import JavaProcess, wait_until
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
COUNT = 2000


def copier(folder: Path, servers: str, source: str, target: str, *arguments: str) -> JavaProcess:
    where = ["--broker-list", servers, "--input-topic", source, "--input-partition", "0", "--output-topic", target]
    who = ["--consumer-group", f"copy-of-{source}", "--transactional-id", f"copier-of-{source}"]
    return JavaProcess(folder, COPIER, *where, *who, "--transaction-size", "50", *arguments)


def read_committed(servers: str, topic: str, count: int) -> list[int]:
    """What a consumer sees that reads to the last stable offset, which has to be the end of the topic."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values: list[int] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, f"{len(values)} of {count} records, and no end"
        error = message.error()
        if error is None:
            values.append(int(message.value() or b""))
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            if len(values) >= count:
                consumer.close()
                return values


def remaining(process: JavaProcess) -> int:
    return min((event["remaining"] for event in process.events), default=COUNT)


@pytest.mark.parametrize("group_mode", [[], ["--group-mode", "--use-group-metadata"]], ids=["assigned", "subscribed"])
def test_every_record_is_copied_once(
    servers: str, make_topic: Callable[..., str], tmp_path: Path, group_mode: list[str]
) -> None:
    source, target = make_topic(1), make_topic(1)
    produce(servers, source, COUNT)
    with copier(tmp_path, servers, source, target, "--enable-random-aborts", *group_mode) as process:
        assert process.wait() == 0, process
        assert process.wait_for_event("ShutdownComplete")["remaining"] == 0
    assert read_committed(servers, target, COUNT) == list(range(COUNT))


def test_every_record_is_copied_once_though_copier_and_broker_are_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker", SETTINGS) as broker:
        servers = broker.bootstrap_servers
        for topic in ("source", "target"):
            produce(servers, topic, 0)
        produce(servers, "source", COUNT)
        arguments = ("--transaction-timeout", "10000", "--enable-random-aborts")
        with copier(tmp_path / "copier", servers, "source", "target", *arguments) as first:
            wait_until([first], lambda: remaining(first) < COUNT * 3 // 4)
            first.kill()
        with copier(tmp_path / "copier", servers, "source", "target", *arguments) as second:
            wait_until([second], lambda: remaining(second) < COUNT // 2)
            broker.kill()
            broker.start()
            assert second.wait() == 0, second
        wait_for(lambda: broker.is_running)
        assert read_committed(servers, "target", COUNT) == list(range(COUNT))
