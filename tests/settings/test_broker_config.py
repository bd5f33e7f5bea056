"""A broker's settings: layers, synonyms, what they cost, and that an object which exists is valid."""

from __future__ import annotations

import pytest

from tailrace.settings.broker_config import BrokerConfig, listener_setting
from tailrace.settings.config_error import ConfigError
from tailrace.settings.listeners import Endpoint


def test_an_empty_configuration_has_kafkas_defaults() -> None:
    config = BrokerConfig()
    assert config.num_partitions == 1
    assert config.log_retention_check_interval_ms == 300_000
    assert config.log_flush_interval_messages == 2**63 - 1
    assert config.log_cleanup_policy == frozenset({"delete"})
    assert config.log_directories == ("/tmp/kafka-logs",)
    assert config.advertised_listeners is None


def test_a_later_layer_wins() -> None:
    config = BrokerConfig({"message.max.bytes": "1", "num.io.threads": "5"})
    config = config.with_dynamic(dynamic_default={"message.max.bytes": "2"}, dynamic_broker={})
    assert config.message_max_bytes == 2
    config = config.with_dynamic(dynamic_default={"message.max.bytes": "2"}, dynamic_broker={"message.max.bytes": "3"})
    assert config.message_max_bytes == 3
    assert config.num_io_threads == 5


def test_a_dynamic_retention_replaces_the_static_one_in_other_units() -> None:
    config = BrokerConfig({"log.retention.hours": "1"})
    assert config.log_config.retention_ms == 3_600_000
    config = config.with_dynamic(dynamic_default={"log.retention.ms": "5"}, dynamic_broker={})
    assert (config.log_config.retention_ms, config.log_retention_hours) == (5, 168)


def test_a_wrong_text_is_refused_when_the_object_is_made() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions=0: expected an integer of 32 bits, at least 1"):
        BrokerConfig({"num.partitions": "0"})


def test_a_configuration_can_not_be_changed() -> None:
    config = BrokerConfig()
    with pytest.raises(AttributeError):
        config.num_partitions = 5  # type: ignore[misc, assignment]


def test_log_dirs_decides_before_log_dir() -> None:
    assert BrokerConfig({"log.dir": "/one"}).log_directories == ("/one",)
    assert BrokerConfig({"log.dir": "/one", "log.dirs": "/two, /three,"}).log_directories == ("/two", "/three")


def test_node_id_and_broker_id_stand_for_each_other() -> None:
    assert BrokerConfig({"node.id": "7"}).broker_id == 7
    assert BrokerConfig({"broker.id": "7"}).node_id == 7
    with pytest.raises(ConfigError, match=r"broker\.id=2"):
        BrokerConfig({"node.id": "1", "broker.id": "2"})


def test_the_controllers_listeners_are_left_out() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert config.listener_endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert config.advertised_endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092),)


def test_an_ipv6_listener_is_read_and_written_with_brackets() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://[::1]:9092"})
    assert config.listener_endpoints == (Endpoint("PLAINTEXT", "PLAINTEXT", "::1", 9092),)
    assert str(config.listener_endpoints[0]) == "PLAINTEXT://[::1]:9092"


def test_a_setting_can_be_given_for_one_listener() -> None:
    found = listener_setting("listener.name.internal.ssl.client.auth")
    assert found is BrokerConfig.ssl_client_auth
    assert listener_setting("listener.name.internal.scram-sha-256.sasl.jaas.config") is BrokerConfig.sasl_jaas_config
    assert listener_setting("listener.name.internal.no.such") is None
    with pytest.raises(ConfigError, match=r"listener\.name\.plaintext\.max\.connections=x"):
        BrokerConfig({"listener.name.plaintext.max.connections": "x"})


def test_an_unknown_key_is_kept() -> None:
    assert BrokerConfig({"my.plugin.key": "7"}).texts["my.plugin.key"] == "7"
