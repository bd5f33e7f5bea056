"""Clients' settings: declared as Apache Kafka 4.1 declares them, given in several forms, checked together.

`golden/settings/clients.tsv` is what `ClientSettings.java` prints; the slow test asks Kafka again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tailrace.settings.client.admin import AdminOptions, AdminSettings
from tailrace.settings.client.consumer import ConsumerOptions, ConsumerSettings
from tailrace.settings.client.offset_reset import OffsetReset, parse_offset_reset
from tailrace.settings.client.producer import ProducerOptions, ProducerSettings
from tailrace.settings.client_config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.settings.definition import SettingTable
from tailrace.testing.apache_kafka import classpath, unavailable
from tests.settings.test_kafka_facts import declared

GOLDEN = Path(__file__).parent.parent / "golden" / "settings" / "clients.tsv"

TABLES: dict[str, type[SettingTable]] = {
    "producer": ProducerSettings,
    "consumer": ConsumerSettings,
    "admin": AdminSettings,
}

OURS = {"sasl.username", "sasl.password"}
"""What librdkafka has and Java has not."""

DIFFERENT = {"ssl.truststore.type", "ssl.keystore.type", "ssl.enabled.protocols", "partition.assignment.strategy"}
"""Java's key stores cannot be read by Python, its TLS has more versions than are safe, its assignors are classes."""

NOT_HERE = (
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.",
    "metrics.",
    "sasl.client.callback.handler.class",
    "security.providers",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
    "ssl.provider",
    "ssl.protocol",
    "ssl.engine.factory.class",
    "ssl.keystore.password",
    "ssl.truststore.password",
)
"""What is Java's own (its classes, key stores, security providers), or is a Python object here (a token provider)."""

NOT_HERE_EITHER = {
    "bootstrap.controllers",
    "client.dns.lookup",
    "enable.metrics.push",
    "interceptor.classes",
    "internal.leave.group.on.close",
    "internal.throw.on.fetch.stable.offset.unsupported",
    "key.deserializer",
    "key.serializer",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metric.reporters",
    "partitioner.class",
    "share.acknowledgement.mode",
    "transaction.two.phase.commit.enable",
    "value.deserializer",
    "value.serializer",
}
"""What is an argument of the constructor here, or has nothing to act on."""


def golden(client: str) -> dict[str, list[str]]:
    lines = [line.split("\t") for line in GOLDEN.read_text().splitlines()]
    return {line[1]: line[1:] for line in lines if line[0] == client}


@pytest.mark.parametrize("client", TABLES)
def test_every_setting_is_declared_as_kafka_declares_it(client: str) -> None:
    kafka = golden(client)
    for key, setting in TABLES[client].settings.items():
        if key in OURS | DIFFERENT:
            continue
        name, type_name, default, valid, importance, *_ = declared(setting, "client")
        expected = [part.replace("non-null string", "") for part in kafka[key]]
        assert [name, type_name, default, valid.replace("non-empty string", "non-empty string"), importance] == expected


@pytest.mark.parametrize("client", TABLES)
def test_no_setting_of_kafka_is_forgotten(client: str) -> None:
    missing = golden(client).keys() - TABLES[client].settings.keys()
    assert {key for key in missing if not key.startswith(NOT_HERE)} <= NOT_HERE_EITHER | {"retries"}


@pytest.mark.parametrize(
    ("table", "options"),
    [(ProducerSettings, ProducerOptions), (ConsumerSettings, ConsumerOptions), (AdminSettings, AdminOptions)],
)
def test_the_keyword_arguments_are_the_settings(table: type[SettingTable], options: Any) -> None:
    assert set(options.__annotations__) == {setting.name for setting in table.settings.values()}


@pytest.mark.slow
@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_kafka_still_declares_the_same() -> None:
    source = Path(__file__).with_name("ClientSettings.java")
    done = subprocess.run(["java", "-cp", classpath(), str(source)], capture_output=True, text=True, check=True)
    assert done.stdout == GOLDEN.read_text()


def test_names_and_values_have_several_forms() -> None:
    config = ProducerConfig(
        {
            "linger.ms": "20",
            "batch_size": 1000,
            "bootstrap_servers": ["a:1", "b:2"],
            "enable_idempotence": False,
            "acks": 1,
        }
    )
    assert (config.linger_ms, config.batch_size, config.acks, config.required_acks) == (20, 1000, "1", 1)
    assert config.bootstrap_servers == ("a:1", "b:2")
    assert ProducerConfig({"transactional_id": None}).transactional_id is None
    assert ProducerConfig().compression_level is None
    assert ProducerConfig({"compression_type": "gzip", "compression_gzip_level": 3}).compression_level == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"linger_msec": 5}, "linger_msec=5: expected the name of a setting; is linger_ms meant?"),
        ({"xyz": 5}, "xyz=5: expected the name of a setting"),
        ({"linger_ms": -1}, r"linger.ms=-1: expected an integer of 64 bits, at least 0"),
        ({"linger_ms": 1.5}, "linger.ms=1.5"),
        ({"batch_size": True}, "batch.size=true"),
        ({"acks": 2}, "acks=2: expected a text, one of all, -1, 0, 1"),
        ({"acks": 1, "enable_idempotence": True}, "acks=1: expected all, which idempotence needs"),
        ({"retries": 0, "enable_idempotence": True}, "retries=0"),
        ({"max_in_flight_requests_per_connection": 6, "enable_idempotence": True}, "at most 5"),
        ({"transactional_id": "t", "enable_idempotence": False}, "which transactions need"),
        ({"transactional_id": "t", "acks": 1}, "acks=1"),
        ({"transactional_id": ""}, r"transactional\.id="),
        ({"delivery_timeout_ms": 1000}, "delivery.timeout.ms=1000: expected at least linger.ms and request.timeout.ms"),
        ({"security_protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI: expected one of PLAIN"),
        ({"ssl_keystore_key": "x"}, "ssl.keystore.certificate.chain=None"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ProducerConfig(options)


@pytest.mark.parametrize(
    "options", [{"acks": 1}, {"acks": 0}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}]
)
def test_idempotence_gives_way_to_what_was_given(options: dict[str, Any]) -> None:
    assert ProducerConfig().is_idempotent
    assert not ProducerConfig(options).is_idempotent


def test_a_default_delivery_timeout_grows_with_what_it_has_to_hold() -> None:
    assert ProducerConfig({"request_timeout_ms": 200_000}).delivery_timeout_ms == 200_005


def test_a_configuration_does_not_change_and_hides_its_secrets() -> None:
    config = AdminConfig({"sasl_password": "secret", "client_id": "me"})
    with pytest.raises(AttributeError, match="can't be set"):
        config.client_id = "other"  # type: ignore[misc,assignment]
    assert "secret" not in repr(config)
    assert "'client.id': 'me'" in repr(config)
    assert config.api_timeout_ms == 60_000
    assert ProducerConfig({"max_block_ms": 7}).api_timeout_ms == 7
    assert ClientConfig().api_timeout_ms == 60_000
    assert AdminConfig({"security_protocol": "ssl"}).is_encrypted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auto_offset_reset": "begin"}, "auto.offset.reset=begin: expected a text, one of latest, earliest, none"),
        ({"auto_offset_reset": "by_duration:-PT1S"}, "auto.offset.reset=by_duration"),
        ({"group_id": ""}, "group.id=: expected the name of a group"),
        ({"enable_auto_commit": True}, "enable.auto.commit=true: expected false without a group.id"),
        ({"group_instance_id": "a"}, "group.instance.id=a: expected a group.id"),
        ({"heartbeat_interval_ms": 45_000}, "heartbeat.interval.ms=45000: expected less than session.timeout.ms"),
        ({"group_protocol": "consumer", "session_timeout_ms": 1}, "session.timeout.ms=1: expected nothing with"),
        ({"group_remote_assignor": "range"}, "group.remote.assignor=range: expected group.protocol=consumer"),
        ({"partition_assignment_strategy": ""}, "at least one assignor"),
    ],
)
def test_what_no_consumer_can_be_told_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ConsumerConfig(options)


def test_a_consumer_commits_by_itself_only_with_a_group() -> None:
    assert not ConsumerConfig().commits_by_itself
    assert ConsumerConfig({"group_id": "g"}).commits_by_itself
    assert ConsumerConfig({"group_protocol": "Consumer"}).uses_consumer_protocol
    assert ConsumerConfig({"isolation_level": "read_committed"}).is_read_committed
    assert ConsumerConfig({"partition_assignment_strategy": ["sticky", "range"]}).partition_assignment_strategy == (
        "sticky",
        "range",
    )


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("PT1S", 1000), ("P1DT2H3M4.5S", 93_784_500), ("pt0.001s", 1), ("P2D", 172_800_000), ("-PT-1M", 60_000)],
)
def test_durations_are_read_as_java_reads_them(text: str, duration_ms: int) -> None:
    assert parse_offset_reset(f"by_duration:{text}") == OffsetReset("by_duration", duration_ms)
    assert ConsumerConfig({"auto_offset_reset": f"by_duration:{text}"}).offset_reset.duration_ms == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1S", "P1Y", "PT1", "P1DT"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert parse_offset_reset(f"by_duration:{text}") is None
