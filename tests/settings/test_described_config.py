"""What DescribeConfigs is to answer, held against what Apache Kafka 4.1 answered.

`golden/settings/described.tsv` is what `DescribeSettings.java` printed of a broker with SETTINGS, before and after it
changed some of them; the slow test asks a new broker again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.described_config import (
    ConfigSource,
    DescribedConfig,
    describe_broker,
    describe_broker_defaults,
    describe_topic,
)
from tailrace.settings.value_type import ValueType
from tailrace.testing.apache_kafka import ApacheKafka, classpath, unavailable
from tailrace.testing.broker_process import BrokerProcess

GOLDEN = Path(__file__).parent.parent / "golden" / "settings" / "described.tsv"

SETTINGS = {
    "log.retention.hours": "100",
    "log.segment.bytes": "1048576",
    "my.unknown.key": "7",
    "listener.name.plaintext.max.connections": "77",
    "delegation.token.secret.key": "abc",
}
OVERRIDES = {"segment.ms": "777777", "cleanup.policy": "delete,compact", "compression.type": " gzip "}
DEFAULTS = {
    "log.retention.ms": "333333333",
    "message.max.bytes": "2000000",
    "leader.replication.throttled.rate": "1000",
}
OWN = {"message.max.bytes": "2100000", "no.such.key": "1"}

SETTLED_BY_THE_CLUSTER = ("min.insync.replicas",)
"""A new cluster of Kafka 4.1 pins this one as a dynamic default, for a feature of replication that we have not."""

OF_THIS_MACHINE = (
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
)


def line(stage: str, what: str, entry: DescribedConfig) -> str:
    chain = ";".join(f"{s.name}={'null' if s.value is None else s.value}={s.source.name}" for s in entry.synonyms)
    config_type = ValueType(entry.config_type).name if entry.config_type else "UNKNOWN"
    fields = [stage, what, entry.name, "null" if entry.value is None else entry.value, entry.source.name, config_type]
    fields += ["read-only" if entry.read_only else "dynamic", "sensitive" if entry.is_sensitive else "shown", chain]
    return "\t".join(fields)


def described(static: dict[str, str]) -> list[str]:
    before = BrokerConfig(static)
    after = before.with_dynamic(dynamic_default=DEFAULTS, dynamic_broker=OWN)
    lines = [line("dynamic", "defaults", entry) for entry in describe_broker_defaults(after)]
    for stage, config in (("static", before), ("dynamic", after)):
        lines += [line(stage, "broker", entry) for entry in describe_broker(config)]
        lines += [line(stage, "plain", entry) for entry in describe_topic(config, {})]
        lines += [line(stage, "special", entry) for entry in describe_topic(config, OVERRIDES)]
    return comparable(lines)


def comparable(lines: list[str]) -> list[str]:
    excluded = {*SETTLED_BY_THE_CLUSTER, *OF_THIS_MACHINE}
    return sorted(line for line in lines if line.split("\t")[2] not in excluded)


def static_settings(properties: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)


def ask(bootstrap_servers: str) -> list[str]:
    source = Path(__file__).with_name("DescribeSettings.java")
    command = ["java", "-cp", classpath(), str(source), bootstrap_servers, "1"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return comparable(printed.splitlines())


def ask_kafka(folder: Path) -> tuple[list[str], dict[str, str]]:
    with ApacheKafka(folder, SETTINGS) as kafka:
        return ask(kafka.bootstrap_servers), static_settings(next(folder.glob("*.properties")))


def golden() -> tuple[list[str], dict[str, str]]:
    lines = GOLDEN.read_text().splitlines()
    static = dict(line.split("\t")[1:] for line in lines if line.startswith("given\t"))
    return [line for line in lines if not line.startswith("given\t")], static


def test_topic_and_broker_are_described_as_kafka_describes_them() -> None:
    kafkas, static = golden()
    assert described(static) == kafkas


@pytest.mark.slow
def test_a_running_kafka_describes_the_same(tmp_path: Path) -> None:
    if reason := unavailable():
        pytest.skip(f"no Apache Kafka to ask: {reason}")
    kafkas, static = ask_kafka(tmp_path)
    assert described(static) == kafkas


@pytest.mark.slow
def test_a_running_tailrace_tells_kafkas_admin_client_the_same(tmp_path: Path) -> None:
    if reason := unavailable():
        pytest.skip(f"no admin client of Apache Kafka: {reason}")
    kafkas, static = golden()
    with BrokerProcess(tmp_path, static) as broker:
        answered = ask(broker.bootstrap_servers)
    assert [line for line in answered if "\ttailrace." not in line] == kafkas


def test_names_select_and_unknown_names_are_left_out() -> None:
    config = BrokerConfig()
    assert [entry.name for entry in describe_topic(config, {}, ["segment.ms", "no.such"])] == ["segment.ms"]
    assert [entry.name for entry in describe_broker(config, ["num.partitions", "no.such"])] == ["num.partitions"]


def test_our_own_settings_are_listed_where_they_are_given_or_asked_for() -> None:
    key = "tailrace.metrics.port"
    assert key not in {entry.name for entry in describe_broker(BrokerConfig())}
    given = describe_broker(BrokerConfig({key: "0"}))
    assert [entry.value for entry in given if entry.name == key] == ["0"]
    asked = describe_broker(BrokerConfig(), [key])
    assert [(entry.value, entry.source) for entry in asked] == [("9308", ConfigSource.DEFAULT_CONFIG)]


def test_a_secret_is_never_shown() -> None:
    config = BrokerConfig({"ssl.key.password": "hunter2", "listener.name.x.ssl.key.password": "hunter3"})
    assert "hunter" not in repr(describe_broker(config))
    assert "hunter" not in repr(config)


def regenerate(folder: Path) -> None:
    kafkas, static = ask_kafka(folder)
    given = [f"given\t{key}\t{text}" for key, text in static.items() if key not in OF_THIS_MACHINE]
    GOLDEN.write_text("\n".join([*given, *kafkas]) + "\n")
