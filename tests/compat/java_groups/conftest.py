"""A broker whose groups notice soon that a member is gone, and Kafka's tools beside it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import confluent_kafka
import confluent_kafka.admin
import pytest

from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.compat.conftest import Server

SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
}

_numbers = itertools.count()


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("tailrace", marks=pytest.mark.xdist_group("tailrace-java-groups")),
        pytest.param("apache-kafka", marks=pytest.mark.xdist_group("apache-kafka-java-groups")),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    reason = unavailable()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "tailrace":
        with BrokerProcess(folder, SETTINGS) as broker:
            yield broker
            assert broker.is_running, broker.log.read_text()
        return
    with ApacheKafka(folder, SETTINGS) as kafka:
        yield kafka


# Made anew here: a fixture of the session is kept as it was first made, with the server of the folder above.
@pytest.fixture(scope="session")
def servers(server: Server) -> str:
    return server.bootstrap_servers


@pytest.fixture(scope="session")
def admin(servers: str) -> confluent_kafka.admin.AdminClient:
    return confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})


@pytest.fixture
def group() -> str:
    return f"java-group-{next(_numbers)}"


def produce(servers: str, topic: str, count: int) -> None:
    """Write the numbers from 0, one after the other into each partition."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers})
    partitions = len(producer.list_topics(topic, 30).topics[topic].partitions)
    for number in range(count):
        producer.produce(topic, f"{number}", partition=number % partitions)
    assert producer.flush(30) == 0
