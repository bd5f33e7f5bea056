"""File, environment and flags: which wins, and what is said about keys and values that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.settings.config_error import ConfigError
from tailrace.settings.sources import load_broker_config, parse_assignment, read_environment, read_properties

ROOT = Path(__file__).parent.parent.parent

KAFKAS_OWN_KEYS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/var/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
"""What the server.properties says that comes with Apache Kafka 4.1."""


def write(folder: Path, text: str) -> Path:
    file = folder / "server.properties"
    file.write_text(text, encoding="latin-1")
    return file


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "num.partitions=1\nlog.roll.hours=1\nmessage.max.bytes=1\n")
    loaded = load_broker_config(
        file=file,
        environment={"KAFKA_NUM_PARTITIONS": "2", "KAFKA_LOG_ROLL_HOURS": "2"},
        flags=[("num.partitions", "3", "--set")],
    )
    assert loaded.config.num_partitions == 3
    assert loaded.config.log_roll_hours == 2
    assert loaded.config.message_max_bytes == 1
    assert loaded.warnings == []


def test_kafkas_own_file_needs_no_change(tmp_path: Path) -> None:
    file = write(tmp_path, "".join(f"{key}={text}\n" for key, text in KAFKAS_OWN_KEYS.items()))
    loaded = load_broker_config(file=file)
    assert loaded.warnings == []
    assert [str(endpoint) for endpoint in loaded.config.listener_endpoints] == ["PLAINTEXT://:9092"]
    assert loaded.config.log_directories == ("/var/kraft-combined-logs",)


def test_our_own_file_is_right() -> None:
    loaded = load_broker_config(file=ROOT / "config" / "server.properties")
    assert loaded.warnings == []
    assert loaded.config.log_directories == ("tailrace-data",)


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    text = "# comment\n! comment\nlog.dirs = /a,\\\n    /b\nbroker.rack:caf\\u00e9\nnode.id 7\n"
    text += "num.partitions=1\nnum.partitions=2\n"
    assert read_properties(write(tmp_path, text)) == {
        "log.dirs": "/a,/b",
        "broker.rack": "café",
        "node.id": "7",
        "num.partitions": "2",
    }


def test_a_broken_escape_in_a_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"server\.properties"):
        read_properties(write(tmp_path, "broker.rack=\\u12\n"))


def test_the_environment_is_read_as_kafkas_containers_read_it() -> None:
    environment = {
        "KAFKA_LOG_RETENTION_MS": "5",
        "KAFKA_LISTENER_NAME_MY__LISTENER_SCRAM___SHA___256_SASL_JAAS_CONFIG": "x",
        "TAILRACE_METRICS_PORT": "0",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
        "KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "KAFKA_SERVICE_HOST": "10.0.0.1",
        "HOME": "/root",
        "KAFKA": "x",
    }
    assert {key: text for key, (text, _) in read_environment(environment).items()} == {
        "log.retention.ms": "5",
        "listener.name.my_listener.scram-sha-256.sasl.jaas.config": "x",
        "tailrace.metrics.port": "0",
    }


def test_an_unknown_key_is_named_once_with_its_nearest_neighbour() -> None:
    loaded = load_broker_config(
        environment={"KAFKA_NUM_PARTITION": "2"},
        flags=[("num.partition", "3", "--set"), ("xyz", "1", "--set")],
    )
    assert loaded.warnings == [
        "unknown setting num.partition (--set) is ignored; is num.partitions meant?",
        "unknown setting xyz (--set) is ignored",
    ]


def test_settings_of_plugins_and_listeners_are_not_unknown() -> None:
    flags = [("rsm.config.bucket", "b", "f"), ("listener.name.plaintext.max.connections", "5", "f")]
    assert load_broker_config(flags=flags).warnings == []


def test_a_wrong_value_says_where_it_came_from() -> None:
    with pytest.raises(ConfigError) as raised:
        load_broker_config(environment={"KAFKA_NUM_PARTITIONS": "none"})
    assert str(raised.value) == (
        "num.partitions=none (from environment variable KAFKA_NUM_PARTITIONS): "
        "expected an integer of 32 bits, at least 1"
    )


@pytest.mark.parametrize(("text", "pair"), [("a=b", ("a", "b")), (" a =b=c", ("a", "b=c")), ("a=", ("a", ""))])
def test_an_assignment_is_split_at_the_first_equals_sign(text: str, pair: tuple[str, str]) -> None:
    assert parse_assignment(text) == pair


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_an_assignment_without_key_or_equals_sign_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        parse_assignment(text)
