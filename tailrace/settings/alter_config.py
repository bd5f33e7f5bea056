"""Changes of a running configuration: what AlterConfigs, IncrementalAlterConfigs and CreateTopics ask for.

Each function takes the present texts and a proposal and gives the new texts, or raises: ConfigError (INVALID_CONFIG)
for a value that a topic's setting does not take, ChangeRejected (INVALID_REQUEST) for a change that can't be made at
all. It is Kafka's habit to answer INVALID_REQUEST to all that is wrong with a broker's settings. Nothing is stored
here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ChangeRejected, ConfigError
from tailrace.settings.definition import Setting, UpdateMode
from tailrace.settings.log_config import LogConfig
from tailrace.settings.value_type import ValueType


class AlterOperation(enum.IntEnum):
    """What IncrementalAlterConfigs does with one setting, by its number on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(slots=True)
class ConfigChange:
    """One step of IncrementalAlterConfigs."""

    name: str
    operation: AlterOperation
    value: str | None = None


THREAD_COUNTS = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "log.cleaner.threads",
)
"""Settings that one change may at most double or halve."""

KEY_STORES = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
"""Settings that can be changed for one listener only, under its `listener.name.` prefix."""


def change_topic(
    broker_config: BrokerConfig, overrides: Mapping[str, str], changes: Iterable[ConfigChange]
) -> dict[str, str]:
    """Give a topic's overrides after these changes (IncrementalAlterConfigs)."""
    changed = _apply(LogConfig.settings, overrides, changes)
    check_topic(broker_config, changed)
    return changed


def replace_topic(broker_config: BrokerConfig, proposed: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Give a topic's overrides where these replace all others (AlterConfigs and CreateTopics)."""
    overrides: dict[str, str] = {}
    for key, text in proposed:
        if text is None:
            raise ConfigError(key, "null", "a value")
        overrides[key] = text
    check_topic(broker_config, overrides)
    return overrides


def check_topic(broker_config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Give the configuration that these overrides make, or raise ConfigError."""
    config = LogConfig.from_overrides(broker_config, overrides)
    if config.remote_storage_enable and not broker_config.remote_log_storage_system_enable:
        raise ConfigError("remote.storage.enable", "true", "false, because this broker has no tiered storage")
    # Only here, where a topic is changed: a topic must not become unusable because its broker's defaults moved.
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        expected = f"at most max.compaction.lag.ms ({config.max_compaction_lag_ms} ms)"
        raise ConfigError("min.compaction.lag.ms", config.min_compaction_lag_ms, expected)
    return config


def change_broker(broker_config: BrokerConfig, changes: Iterable[ConfigChange], *, cluster_wide: bool) -> BrokerConfig:
    """Give the configuration after these changes (IncrementalAlterConfigs of a broker, or of all of them)."""
    present = broker_config.dynamic_default if cluster_wide else broker_config.dynamic_broker
    return replace_broker(broker_config, _apply(broker_config.settings, present, changes), cluster_wide=cluster_wide)


def replace_broker(broker_config: BrokerConfig, proposed: Mapping[str, str], *, cluster_wide: bool) -> BrokerConfig:
    """Give the configuration where one dynamic layer is replaced; what is to be stored is that layer of it."""
    present = broker_config.dynamic_default if cluster_wide else broker_config.dynamic_broker
    for key in proposed:
        if proposed[key] != present.get(key):
            _check_dynamic(broker_config, key, cluster_wide=cluster_wide)
    try:
        changed = broker_config.with_dynamic(
            dynamic_default=proposed if cluster_wide else broker_config.dynamic_default,
            dynamic_broker=broker_config.dynamic_broker if cluster_wide else proposed,
        )
    except ConfigError as error:
        raise ChangeRejected(str(error)) from error
    _check_thread_counts(broker_config, changed)
    return changed


def _apply(
    settings: Mapping[str, Setting[Any]], present: Mapping[str, str], changes: Iterable[ConfigChange]
) -> dict[str, str]:
    changed = dict(present)
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            raise ChangeRejected(f"{change.name} is given more than once")
        seen.add(change.name)
        if change.operation is AlterOperation.DELETE:
            changed.pop(change.name, None)
        elif change.value is None:
            raise ChangeRejected(f"{change.name} can't be null: delete it to take the default")
        elif change.operation is AlterOperation.SET:
            changed[change.name] = change.value
        else:
            changed[change.name] = _change_list(settings.get(change.name), changed.get(change.name), change)
    return changed


def _change_list(setting: Setting[Any] | None, present: str | None, change: ConfigChange) -> str:
    """Append to a list or subtract from it; a list that was not given begins as Kafka's default, not the broker's."""
    if setting is None or setting.value_type is not ValueType.LIST:
        raise ConfigError(change.name, change.value, f"a list for {change.operation.name}, which this setting is not")
    words: list[str] = list(ValueType.LIST.parse(present if present is not None else setting.default_text or ""))
    for word in ValueType.LIST.parse(change.value or ""):
        if change.operation is AlterOperation.SUBTRACT:
            words = [other for other in words if other != word]
        elif word not in words:
            words.append(word)
    return ",".join(words)


def _check_dynamic(broker_config: BrokerConfig, key: str, *, cluster_wide: bool) -> None:
    setting = broker_config.settings.get(key)
    if setting is None:
        return  # Kafka takes keys that it does not know: a plugin may
    if setting.update_mode is UpdateMode.READ_ONLY:
        raise ChangeRejected(f"{key} can't be changed while the broker runs")
    if key in KEY_STORES:
        raise ChangeRejected(f"{key} can be changed for one listener only: as listener.name.<listener>.{key}")
    if cluster_wide and setting.update_mode is UpdateMode.PER_BROKER:
        raise ChangeRejected(f"{key} can't be changed for all brokers at once: name the broker")


def _check_thread_counts(present: BrokerConfig, changed: BrokerConfig) -> None:
    for key in THREAD_COUNTS:
        name = present.settings[key].name
        before, after = getattr(present, name), getattr(changed, name)
        if before != after and not before // 2 <= after <= before * 2:
            raise ChangeRejected(f"{key}={after}: expected from {before // 2} to {before * 2}, as it is {before} now")
