"""Changes of topics and brokers: what Kafka 4.1 lets through, what it refuses, and by which of two errors."""

from __future__ import annotations

import pytest

from tailrace.settings.alter_config import (
    AlterOperation,
    ConfigChange,
    change_broker,
    change_topic,
    replace_broker,
    replace_topic,
)
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ChangeRejected, ConfigError

BROKER = BrokerConfig()
SET, DELETE, APPEND, SUBTRACT = AlterOperation


def change(name: str, operation: AlterOperation, value: str | None = None) -> list[ConfigChange]:
    return [ConfigChange(name, operation, value)]


def test_set_replaces_and_delete_removes() -> None:
    changed = change_topic(BROKER, {"segment.ms": "5"}, change("segment.ms", SET, "6"))
    assert changed == {"segment.ms": "6"}
    assert change_topic(BROKER, changed, change("segment.ms", DELETE)) == {}
    assert change_topic(BROKER, changed, change("retention.ms", DELETE)) == {"segment.ms": "6"}


@pytest.mark.parametrize(
    ("present", "operation", "value", "expected"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "compact", "compact"),
        ("compact", APPEND, "delete , compact", "compact,delete"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "compact", ""),
        ("compact", SUBTRACT, "delete", "compact"),
    ],
)
def test_lists_are_appended_to_and_subtracted_from(
    present: str | None, operation: AlterOperation, value: str, expected: str
) -> None:
    overrides = {} if present is None else {"cleanup.policy": present}
    assert change_topic(BROKER, overrides, change("cleanup.policy", operation, value)) == {"cleanup.policy": expected}


def test_append_begins_at_kafkas_default_and_not_at_the_brokers() -> None:
    broker = BrokerConfig({"log.cleanup.policy": "compact"})
    changed = change_topic(broker, {}, change("cleanup.policy", APPEND, "compact"))
    assert changed == {"cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (change("segment.bytes", SET, "abc"), r"segment\.bytes=abc: expected an integer of 32 bits"),
        (change("segment.bytes", SET, "10"), r"segment\.bytes=10: .*at least 1048576"),
        (change("no.such", SET, "10"), r"no\.such=10: expected the name of a topic setting"),
        (change("cleanup.policy", SET, "x"), r"cleanup\.policy=x: .*each one of compact, delete"),
        (change("compression.type", SET, "GZIP"), r"compression\.type=GZIP: .*one of uncompressed, zstd"),
        (change("preallocate", SET, "yes"), r"preallocate=yes: expected true or false"),
        (change("segment.ms", APPEND, "5"), r"segment\.ms=5: expected a list for APPEND"),
        (change("min.compaction.lag.ms", SET, "5") + change("max.compaction.lag.ms", SET, "4"), "at most max"),
        (change("remote.storage.enable", SET, "true"), "no tiered storage"),
        (change("leader.replication.throttled.replicas", SET, "1:2,x"), "partition:broker"),
    ],
)
def test_a_wrong_topic_value_is_a_config_error(changes: list[ConfigChange], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        change_topic(BROKER, {}, changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (change("segment.ms", SET, "5") + change("segment.ms", DELETE), "more than once"),
        (change("segment.ms", SET, None), "can't be null"),
    ],
)
def test_a_change_that_can_not_be_made_is_rejected(changes: list[ConfigChange], message: str) -> None:
    with pytest.raises(ChangeRejected, match=message):
        change_topic(BROKER, {}, changes)


def test_a_replaced_topic_keeps_nothing() -> None:
    assert replace_topic(BROKER, [("segment.ms", "5")]) == {"segment.ms": "5"}
    with pytest.raises(ConfigError, match=r"segment\.ms=null"):
        replace_topic(BROKER, [("segment.ms", None)])


def test_the_present_texts_are_left_alone() -> None:
    present = {"segment.ms": "5"}
    change_topic(BROKER, present, change("segment.ms", SET, "6"))
    assert present == {"segment.ms": "5"}


def test_a_broker_is_changed_alone_or_with_all_others() -> None:
    changed = change_broker(BROKER, change("message.max.bytes", SET, "5"), cluster_wide=True)
    changed = change_broker(changed, change("message.max.bytes", SET, "6"), cluster_wide=False)
    assert dict(changed.dynamic_default) == {"message.max.bytes": "5"}
    assert dict(changed.dynamic_broker) == {"message.max.bytes": "6"}
    assert changed.log_config.max_message_bytes == 6
    changed = change_broker(changed, change("message.max.bytes", DELETE), cluster_wide=False)
    assert changed.log_config.max_message_bytes == 5


@pytest.mark.parametrize(
    ("key", "value", "cluster_wide", "message"),
    [
        ("num.io.threads", "x", False, r"num\.io\.threads=x"),
        ("num.io.threads", "100", False, "from 4 to 16"),
        ("num.partitions", "3", False, "can't be changed while the broker runs"),
        ("log.retention.hours", "3", True, "can't be changed while the broker runs"),
        ("listeners", "PLAINTEXT://:1", True, "name the broker"),
        ("ssl.keystore.location", "/x", False, r"listener\.name\.<listener>\.ssl\.keystore\.location"),
        ("min.insync.replicas", "0", True, "at least 1"),
    ],
)
def test_a_wrong_broker_change_is_rejected(key: str, value: str, cluster_wide: bool, message: str) -> None:
    with pytest.raises(ChangeRejected, match=message):
        change_broker(BROKER, change(key, SET, value), cluster_wide=cluster_wide)


def test_kafka_takes_broker_settings_that_it_does_not_know() -> None:
    changed = change_broker(BROKER, change("no.such.key", SET, "1"), cluster_wide=False)
    assert dict(changed.dynamic_broker) == {"no.such.key": "1"}


def test_settings_that_only_a_running_broker_takes() -> None:
    key = "leader.replication.throttled.rate"
    assert change_broker(BROKER, change(key, SET, "1000"), cluster_wide=True).leader_replication_throttled_rate == 1000


def test_a_replaced_layer_keeps_nothing_but_the_file() -> None:
    broker = BrokerConfig({"num.io.threads": "4"}, dynamic_default={"message.max.bytes": "5"})
    replaced = replace_broker(broker, {"log.retention.ms": "7"}, cluster_wide=True)
    assert (replaced.message_max_bytes, replaced.log_retention_ms, replaced.num_io_threads) == (1048588, 7, 4)
