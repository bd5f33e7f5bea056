"""A topic's settings: overrides before the broker's, which come in several units and by several names."""

from __future__ import annotations

import pytest

from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.settings.log_config import LogConfig


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "-1"}, -1),
        ({"log.retention.minutes": "-1"}, -1),
        ({"log.retention.hours": "-9"}, -1),
    ],
)
def test_the_finest_unit_of_retention_decides(broker: dict[str, str], retention_ms: int) -> None:
    assert BrokerConfig(broker).log_config.retention_ms == retention_ms


def test_roll_and_flush_have_two_names_each() -> None:
    config = BrokerConfig({"log.roll.hours": "1", "log.roll.jitter.hours": "2", "log.flush.scheduler.interval.ms": "3"})
    log_config = config.log_config
    assert (log_config.segment_ms, log_config.segment_jitter_ms, log_config.flush_ms) == (3_600_000, 7_200_000, 3)
    config = BrokerConfig({"log.roll.hours": "1", "log.roll.ms": "5", "log.flush.interval.ms": "6"})
    assert (config.log_config.segment_ms, config.log_config.flush_ms) == (5, 6)


def test_an_override_wins_over_the_broker() -> None:
    broker = BrokerConfig({"log.segment.bytes": "2000000", "compression.type": "lz4"})
    config = LogConfig.from_overrides(broker, {"segment.bytes": "3000000", "cleanup.policy": "compact, delete"})
    assert config.segment_bytes == 3_000_000
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.compression_type == "lz4"
    assert dict(config.overrides) == {"segment.bytes": "3000000", "cleanup.policy": "compact, delete"}


def test_topics_with_equal_overrides_share_one_object() -> None:
    broker = BrokerConfig()
    configs = [LogConfig.from_overrides(broker, {"segment.ms": "5", "retention.ms": "6"}) for _ in range(1000)]
    assert len({id(config) for config in configs}) == 1
    assert LogConfig.from_overrides(broker, {}) is broker.log_config


def test_a_configuration_that_nobody_uses_is_forgotten() -> None:
    broker = BrokerConfig()
    LogConfig.from_overrides(broker, {"segment.ms": "5"})
    assert len(broker.log_configs) == 0


def test_an_unknown_topic_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no\.such=1: expected the name of a topic setting"):
        LogConfig({"no.such": "1"})


def test_a_value_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"segment\.bytes=10: expected .* at least 1048576 \(bytes\)"):
        LogConfig({"segment.bytes": "10"})


def test_tests_may_have_smaller_segments_than_users() -> None:
    assert LogConfig({"internal.segment.bytes": "1000"}).segment_bytes == 1000


def test_a_configuration_can_not_be_changed() -> None:
    with pytest.raises(AttributeError):
        LogConfig().segment_ms = 5  # type: ignore[misc, assignment]
