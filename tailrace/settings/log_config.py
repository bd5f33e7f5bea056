"""A topic's effective settings: its own overrides, else what the broker says, else Kafka's default.

`LogConfig.from_overrides(broker_config, overrides)` is the way to get one: topics with the same overrides share one
object, so a thousand partitions cost no more than one. It is never changed; when a topic or the broker is configured
anew, its logs get another. Which text wins is decided here; `described_config` lists it for DescribeConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tailrace.settings.config_error import ConfigError
from tailrace.settings.definition import Setting
from tailrace.settings.topic_settings import TopicSettings

if TYPE_CHECKING:
    from tailrace.settings.broker_config import BrokerConfig

_MILLISECONDS = {"hours": 3_600_000, "minutes": 60_000}


class LogConfig(TopicSettings):
    """What one topic's logs go by; every setting is an attribute, `config.segment_bytes`."""

    overrides: Mapping[str, str]
    """The texts that this topic overrides, by key."""

    def __init__(self, overrides: Mapping[str, str] | None = None, broker_config: BrokerConfig | None = None) -> None:
        given = dict(overrides or {})
        for key, text in given.items():
            setting = self.settings.get(key)
            if setting is None:
                raise ConfigError(key, text, "the name of a topic setting")
            self.__dict__[setting.name] = setting.parse(text)
        self.__dict__["overrides"] = MappingProxyType(given)
        self.__dict__["_broker_texts"] = broker_config.texts if broker_config is not None else {}
        if self.internal_segment_bytes is not None:
            # The one way to segments below a megabyte: tests of rolling and recovery want them.
            self.__dict__["segment_bytes"] = self.internal_segment_bytes

    @classmethod
    def from_overrides(cls, broker_config: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
        """Give the configuration of a topic with these overrides; the same object for the same overrides.

        Raises ConfigError for an unknown key and for a value that its setting does not take.
        """
        shared = broker_config.log_configs
        known = frozenset(overrides.items())
        found = shared.get(known)
        if found is None:
            found = shared[known] = cls(overrides, broker_config)
        return found

    def text_of(self, setting: Setting[Any]) -> str | None:
        """Give the text that decides a setting, or None where Kafka's default does."""
        own = self.overrides.get(setting.key)
        if own is not None:
            return own
        broker_texts: Mapping[str, str] = self.__dict__["_broker_texts"]
        for synonym in setting.synonyms:
            text = broker_texts.get(synonym)
            if text is not None:
                return topic_text(setting, synonym, text)
        return None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} can't be set: make another LogConfig from other overrides")

    def __repr__(self) -> str:
        return f"LogConfig({dict(self.overrides)!r})"


def topic_text(setting: Setting[Any], synonym: str, text: str) -> str:
    """Turn the text of a broker's setting into that of the topic's setting, hours and minutes into milliseconds."""
    factor = _MILLISECONDS.get(synonym.rpartition(".")[2], 1)
    if setting.key == "retention.ms":
        # Kafka takes any negative retention of a broker, in whatever unit, as: for ever.
        return str(max(int(text) * factor, -1)) if int(text) >= 0 else "-1"
    return text if factor == 1 else str(int(text) * factor)
