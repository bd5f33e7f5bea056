"""The broker under test: Tailrace in the quick tests, Apache Kafka 4.1 as the control in the slow ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import confluent_kafka.admin
import pytest

from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.waiting import wait_for

Server = BrokerProcess | ApacheKafka

_numbers = itertools.count()


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("tailrace", marks=pytest.mark.xdist_group("tailrace")),
        pytest.param("apache-kafka", marks=[pytest.mark.slow, pytest.mark.xdist_group("apache-kafka")]),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "tailrace":
        with BrokerProcess(folder) as broker:
            yield broker
            assert broker.is_running, broker.log.read_text()
        return
    reason = unavailable()
    if reason:
        pytest.skip(f"no Apache Kafka to compare with: {reason}")
    with ApacheKafka(folder) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def servers(server: Server) -> str:
    return server.bootstrap_servers


@pytest.fixture(scope="session")
def admin(servers: str) -> confluent_kafka.admin.AdminClient:
    return confluent_kafka.admin.AdminClient({"bootstrap.servers": servers})


@pytest.fixture
def make_topic(admin: confluent_kafka.admin.AdminClient) -> Callable[..., str]:
    """A function that makes a topic of its own for the test, and waits until it has leaders."""

    def make(partitions: int = 1, **config: str) -> str:
        name = f"compat-{next(_numbers)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = confluent_kafka.admin.NewTopic(name, partitions, 1, config=settings)
        admin.create_topics([topic])[name].result(30)
        wait_for(lambda: all(p.leader >= 0 for p in admin.list_topics(name).topics[name].partitions.values()))
        return name

    return make
