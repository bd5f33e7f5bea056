"""A group's effective settings: what was set for it (KIP-848's and KIP-932's group resource), else the broker's value.

Each may be set within the bounds that the broker has for it, `group.consumer.min.session.timeout.ms` and its kin.
Names, types and defaults are those of Apache Kafka 4.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.settings.declare import integer, string
from tailrace.settings.definition import Setting, SettingTable
from tailrace.settings.value_range import at_least, between, one_of


class OffsetReset:
    """Where a share group begins: an end of the log, or so long ago."""

    _DURATION = re.compile(
        r"by_duration:[+]?P(?=\d|T\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d{0,9})?S)?)?", re.ASCII | re.IGNORECASE
    )

    def admits(self, value: Any) -> bool:
        """Whether the value is one of them."""
        return value in ("earliest", "latest") or self._DURATION.fullmatch(value) is not None

    def __str__(self) -> str:
        return "earliest, latest or by_duration:PnDTnHnMn.nS"


class GroupConfig(SettingTable):
    """What one group goes by; every setting is an attribute, `config.consumer_session_timeout_ms`."""

    overrides: Mapping[str, str]
    """The texts that were set for this group, by key."""

    consumer_session_timeout_ms = integer(45000, "How long a silent member stays in the group.", at_least(1))
    consumer_heartbeat_interval_ms = integer(5000, "How often the members report.", at_least(1))
    share_session_timeout_ms = integer(45000, "How long a silent member stays in the share group.", at_least(1))
    share_heartbeat_interval_ms = integer(5000, "How often the members of the share group report.", at_least(1))
    share_record_lock_duration_ms = integer(
        30000, "How long a record that was handed out is kept from others.", between(1000, 3600000)
    )
    share_auto_offset_reset = string("latest", "Where a share group without a position begins.", OffsetReset())
    share_isolation_level = string(
        "read_uncommitted",
        "Whether records of open and aborted transactions are handed out.",
        one_of("read_committed", "read_uncommitted"),
    )
    streams_session_timeout_ms = integer(45000, "How long a silent member stays in the streams group.", at_least(1))
    streams_heartbeat_interval_ms = integer(5000, "How often the members of the streams group report.", at_least(1))
    streams_num_standby_replicas = integer(0, "How many standby copies of its state each task keeps.", at_least(0))

    def __init__(self, broker_config: BrokerConfig, overrides: Mapping[str, str]) -> None:
        for key, text in overrides.items():
            setting = self.settings.get(key)
            if setting is None:
                raise ConfigError(key, text, "the name of a group setting")
            self.__dict__[setting.name] = setting.parse(text)
        self.__dict__["overrides"] = MappingProxyType(dict(overrides))
        self.__dict__["_broker_config"] = broker_config
        for key in overrides:
            self._check_bounds(broker_config, key)
        for kind in ("consumer", "share", "streams"):
            self._check_heartbeat(kind)

    def text_of(self, setting: Setting[Any]) -> str | None:
        """Give the text that decides a setting: the group's own, else the broker's, which may be Kafka's default."""
        own = self.overrides.get(setting.key)
        if own is not None:
            return own
        broker_setting = BrokerConfig.settings.get(f"group.{setting.key}")
        if broker_setting is None:
            return None
        broker_config: BrokerConfig = self.__dict__["_broker_config"]
        text = broker_config.text_of(broker_setting)
        return broker_setting.default_text if text is None else text

    def _check_bounds(self, broker_config: BrokerConfig, key: str) -> None:
        kind, _, rest = key.partition(".")
        value = getattr(self, self.settings[key].name)
        least = BrokerConfig.settings.get(f"group.{kind}.min.{rest}")
        most = BrokerConfig.settings.get(f"group.{kind}.max.{rest.removeprefix('num.')}")
        if least is not None and value < (bound := getattr(broker_config, least.name)):
            raise ConfigError(key, value, f"at least {least.key} ({bound})")
        if most is not None and value > (bound := getattr(broker_config, most.name)):
            raise ConfigError(key, value, f"at most {most.key} ({bound})")

    def _check_heartbeat(self, kind: str) -> None:
        timeout: int = getattr(self, f"{kind}_session_timeout_ms")
        interval: int = getattr(self, f"{kind}_heartbeat_interval_ms")
        if timeout <= interval:
            raise ConfigError(
                f"{kind}.session.timeout.ms", timeout, f"more than {kind}.heartbeat.interval.ms ({interval})"
            )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} can't be set: make another GroupConfig from other overrides")
