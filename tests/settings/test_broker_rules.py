"""What Apache Kafka 4.1 accepts and refuses, setting against setting: we do the same, but for a few stated cases.

`golden/settings/broker-rules.tsv` is what Kafka said (`KafkaRules.java` asks it); the slow test asks again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.testing.apache_kafka import classpath, unavailable

GOLDEN = Path(__file__).parent.parent / "golden" / "settings" / "broker-rules.tsv"
VERDICTS = dict(line.split("\t") for line in GOLDEN.read_text().splitlines())

BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}

DIFFERENT_ON_PURPOSE = {
    "log.cleaner.threads=0 log.cleaner.dedupe.buffer.size=10": "Kafka divides by zero",
    "max.connections.per.ip.overrides=127.0.0.1:-1": "a negative limit means nothing",
    "log.cleaner.min.compaction.lag.ms=100 log.cleaner.max.compaction.lag.ms=50": "every topic would be refused later",
    "listeners=PLAINTEXT://:-1,CONTROLLER://:9093": "there is no such port",
    "listeners=PLAINTEXT://:99999,CONTROLLER://:9093": "there is no such port",
    "log.cleaner.min.cleanable.ratio=NaN": "no ratio is NaN",
    "log.cleaner.min.cleanable.ratio=0x1p-1": "nobody writes hexadecimal doubles",
    "principal.builder.class=foo.Bar": "Java classes are only names here",
    "group.consumer.assignors=foo": "Java classes are only names here",
    "listener.name.plaintext.max.connections=x": "Kafka finds this one only when it opens the listener",
}


def accepts(case: str) -> bool:
    try:
        BrokerConfig({**BASE, **dict(assignment.split("=", 1) for assignment in case.split(" "))})
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("case", VERDICTS)
def test_a_combination_is_accepted_where_kafka_accepts_it(case: str) -> None:
    kafka_accepts = VERDICTS[case] == "accepted"
    assert accepts(case) == (kafka_accepts is (case not in DIFFERENT_ON_PURPOSE))


def test_the_error_names_the_other_setting() -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig({"replica.fetch.wait.max.ms": "40000"})
    assert str(raised.value) == "replica.fetch.wait.max.ms=40000: expected at most replica.socket.timeout.ms (30000)"


@pytest.mark.slow
def test_the_golden_verdicts_are_kafkas() -> None:
    if reason := unavailable():
        pytest.skip(f"can't ask Apache Kafka: {reason}")
    command = ["java", "-cp", classpath(), str(Path(__file__).with_name("KafkaRules.java"))]
    cases = "\n".join(VERDICTS)
    printed = subprocess.run(command, input=cases, capture_output=True, text=True, check=True).stdout
    assert dict(line.split("\t") for line in printed.splitlines()) == VERDICTS
