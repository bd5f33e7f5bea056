"""What DescribeConfigs answers about a topic or a broker: each setting with its value and where the value comes from.

Everything here is a list of plain values; the handler turns them into the response. Rules that look odd are Apache
Kafka's own and were taken from its answers: the chain of synonyms begins at the first of them that has the setting's
own broker name, so a topic whose retention comes from `log.retention.hours` shows DEFAULT_CONFIG and no synonyms.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.settings.broker_config import BrokerConfig, broker_synonyms, listener_setting
from tailrace.settings.definition import Setting, UpdateMode
from tailrace.settings.log_config import LogConfig

UNKNOWN_TYPE = 0


class ConfigSource(enum.IntEnum):
    """Where a value comes from, by its number on the wire."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


@dataclass(slots=True)
class ConfigSynonym:
    """One of the places a value could come from; the first in the list is the one that decides."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(slots=True)
class DescribedConfig:
    """One setting as DescribeConfigs shows it. A secret's value is None; `config_type` is its number on the wire."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool
    synonyms: list[ConfigSynonym]
    config_type: int
    documentation: str


def describe_topic(
    broker_config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """List a topic's settings, or those of them that `names` has; the others are left out."""
    config = LogConfig.from_overrides(broker_config, overrides)
    described: list[DescribedConfig] = []
    for setting in config.settings.values():
        if names is not None and setting.key not in names:
            continue
        if setting.internal and setting.key not in overrides:
            continue
        synonyms = list(_broker_chain(broker_config, setting.synonyms[0])) if setting.synonyms else []
        if setting.key in overrides:
            own = ConfigSynonym(setting.key, overrides[setting.key].strip(), ConfigSource.DYNAMIC_TOPIC_CONFIG)
            synonyms.insert(0, own)
        text = config.text_of(setting)
        value = setting.default_text if text is None else setting.normalize(text)
        described.append(_entry(setting, setting.key, value, synonyms, read_only=False))
    return described


def describe_broker(broker_config: BrokerConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """List a broker's settings and the keys it was given that are no setting, or those of them that `names` has.

    A setting that only Tailrace has is listed where it was given or is asked for by name, so that the list of an
    untouched broker is Apache Kafka's.
    """
    settings = broker_config.settings
    listed = [key for key, setting in settings.items() if not setting.internal and not key.startswith("tailrace.")]
    listed += [key for key in broker_config.texts if key not in settings or settings[key].internal]
    given_or_asked = {*broker_config.texts, *(names or ())}
    listed += [key for key in settings if key.startswith("tailrace.") and key in given_or_asked]
    described: list[DescribedConfig] = []
    for key in listed:
        if names is not None and key not in names:
            continue
        setting = settings.get(key) or listener_setting(key)
        text = broker_config.texts.get(key)
        value: str | None = None
        if setting is not None:
            value = setting.default_text if text is None else setting.normalize(text)
        described.append(_broker_entry(key, setting, value, list(_broker_chain(broker_config, key))))
    return described


def describe_broker_defaults(
    broker_config: BrokerConfig, names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """List the cluster-wide dynamic settings: what DescribeConfigs answers about the broker without a name."""
    described: list[DescribedConfig] = []
    for key, text in broker_config.dynamic_default.items():
        if names is not None and key not in names:
            continue
        setting = broker_config.settings.get(key) or listener_setting(key)
        shown = None if setting is None or setting.is_sensitive else text
        synonym = ConfigSynonym(key, shown, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        value = setting.normalize(text) if setting is not None else None
        described.append(_broker_entry(key, setting, value, [synonym]))
    return described


def _broker_chain(config: BrokerConfig, key: str) -> Iterator[ConfigSynonym]:
    """Give the places a broker's setting could come from, the one that decides first."""
    chain = _all_layers(config, _with_listener_base(config, key))
    found = False
    for synonym in chain:
        found = found or synonym.name == key
        if found:
            yield synonym


def _with_listener_base(config: BrokerConfig, key: str) -> tuple[str, ...]:
    base = listener_setting(key)
    return broker_synonyms(key) if base is None else (key, base.key)


def _all_layers(config: BrokerConfig, keys: Iterable[str]) -> Iterator[ConfigSynonym]:
    keys = tuple(keys)
    for source, layer in (
        (ConfigSource.DYNAMIC_BROKER_CONFIG, config.dynamic_broker),
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config.dynamic_default),
        (ConfigSource.STATIC_BROKER_CONFIG, config.static),
    ):
        for key in keys:
            if key in layer:
                setting = config.settings.get(key) or listener_setting(key)
                shown = setting is not None and not setting.is_sensitive
                yield ConfigSynonym(key, layer[key] if shown else None, source)
    for key in keys:
        setting = config.settings.get(key)
        if setting is None or setting.default_text is None or setting.is_dynamic_only:
            continue
        # node.id and process.roles have a default of ours where Kafka demands a value: it is not shown as Kafka's.
        if not setting.required:
            yield ConfigSynonym(key, setting.default_text, ConfigSource.DEFAULT_CONFIG)


def _broker_entry(
    key: str, setting: Setting[Any] | None, value: str | None, synonyms: list[ConfigSynonym]
) -> DescribedConfig:
    if setting is None:
        # Kafka can't know whether a key it does not know is a secret, so it hides the value.
        return DescribedConfig(key, None, _source(synonyms), True, True, synonyms, UNKNOWN_TYPE, "")
    read_only = key != setting.key or setting.internal or setting.update_mode is UpdateMode.READ_ONLY
    return _entry(setting, key, value, synonyms, read_only=read_only)


def _entry(
    setting: Setting[Any], key: str, value: str | None, synonyms: list[ConfigSynonym], *, read_only: bool
) -> DescribedConfig:
    return DescribedConfig(
        name=key,
        value=None if setting.is_sensitive else value,
        source=_source(synonyms),
        read_only=read_only,
        is_sensitive=setting.is_sensitive,
        synonyms=synonyms,
        config_type=setting.value_type.value,
        documentation=setting.summary,
    )


def _source(synonyms: list[ConfigSynonym]) -> ConfigSource:
    return synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
