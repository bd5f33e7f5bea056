"""A broker for the tests of the Spark connector, and one Spark session for all that need it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.testing.broker_process import BrokerProcess
from tailrace.testing.spark_connector import jars
from tests.spark.topics import Topics


@pytest.fixture(scope="session")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """A running broker, whose topics a test makes as it likes."""
    folder: Path = tmp_path_factory.mktemp("broker")
    with BrokerProcess(folder, {"num.partitions": "2"}) as broker:
        yield Topics(broker.bootstrap_servers)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session with two workers, and with Spark's own Kafka connector where its jars can be had."""
    pytest.importorskip("pyspark", minversion="4.2", reason="pyspark is not installed")
    from tailrace.spark import session
    from tailrace.spark.java import NoJava

    official_jars = ",".join(str(jar) for jar in jars())
    config = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    config |= {"spark.jars": official_jars} if official_jars else {}
    try:
        made = session("tests", master="local[2]", config=config)
    except NoJava as error:
        pytest.skip(str(error))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def official(spark: Any) -> str:
    """The name of Spark's own connector; the test is skipped where its jars are not there."""
    if not jars():
        pytest.skip("the jars of Spark's Kafka connector cannot be fetched: Maven is not installed, or has no network")
    return "kafka"
