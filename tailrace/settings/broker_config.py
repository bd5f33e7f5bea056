"""A broker's effective settings.

A `BrokerConfig` is made of texts in three layers: static ones (file, environment, flags: `sources` reads them), dynamic
ones of the whole cluster, and dynamic ones of this broker; the later layer wins, and below all lie Kafka's defaults.
Each text is checked when the object is made, so an object that exists is valid. It is never changed: a dynamic change
makes another one (`with_dynamic`), whose `log_configs` start anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

from tailrace.settings.broker.group import GroupSettings
from tailrace.settings.broker.group_share import ShareGroupSettings
from tailrace.settings.broker.log import LogSettings
from tailrace.settings.broker.log_cleaner import LogCleanerSettings
from tailrace.settings.broker.metrics import MetricsSettings
from tailrace.settings.broker.network import NetworkSettings
from tailrace.settings.broker.node import NodeSettings
from tailrace.settings.broker.oauthbearer import OauthBearerSettings
from tailrace.settings.broker.own import OwnSettings
from tailrace.settings.broker.remote_log import RemoteLogSettings
from tailrace.settings.broker.replication import ReplicationSettings
from tailrace.settings.broker.sasl import SaslSettings
from tailrace.settings.broker.ssl import SslSettings
from tailrace.settings.broker.transactions import TransactionSettings
from tailrace.settings.broker_rules import check_broker_rules
from tailrace.settings.config_error import ConfigError
from tailrace.settings.definition import Setting
from tailrace.settings.listeners import SECURITY_PROTOCOLS, Endpoint, parse_endpoints, parse_protocol_map
from tailrace.settings.log_config import LogConfig

NO_TEXTS: Mapping[str, str] = MappingProxyType({})

_SYNONYMS = {
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
    "log.roll.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
}
"""Broker settings that stand for the same thing in several units, the one that decides first."""


class BrokerConfig(
    NodeSettings,
    NetworkSettings,
    LogSettings,
    LogCleanerSettings,
    ReplicationSettings,
    TransactionSettings,
    GroupSettings,
    ShareGroupSettings,
    MetricsSettings,
    SslSettings,
    SaslSettings,
    OauthBearerSettings,
    RemoteLogSettings,
    OwnSettings,
):
    """What a broker goes by; every setting is an attribute, `config.num_partitions`."""

    static: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    dynamic_broker: Mapping[str, str]
    texts: Mapping[str, str]
    """The texts that decide, all layers together; keys that Tailrace does not know are among them."""
    log_configs: WeakValueDictionary[frozenset[tuple[str, str]], LogConfig]
    """The topic configurations that were made from this one, by their overrides."""

    def __init__(
        self,
        static: Mapping[str, str] = NO_TEXTS,
        *,
        dynamic_default: Mapping[str, str] = NO_TEXTS,
        dynamic_broker: Mapping[str, str] = NO_TEXTS,
    ) -> None:
        static = _with_node_id(static)
        texts = dict(static)
        for layer in (dynamic_default, dynamic_broker):
            for key, text in layer.items():
                for synonym in broker_synonyms(key):
                    texts.pop(synonym, None)
                texts[key] = text
        fields = self.__dict__
        fields["static"] = MappingProxyType(dict(static))
        fields["dynamic_default"] = MappingProxyType(dict(dynamic_default))
        fields["dynamic_broker"] = MappingProxyType(dict(dynamic_broker))
        fields["texts"] = MappingProxyType(texts)
        fields["log_configs"] = WeakValueDictionary()
        for key, text in texts.items():
            setting = self.settings.get(key)
            if setting is not None:
                fields[setting.name] = setting.parse(text)
            elif (base := listener_setting(key)) is not None:
                base.parse(text, key)
        check_broker_rules(self)

    def with_dynamic(self, *, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> BrokerConfig:
        """Make the configuration that holds once these are the dynamic layers."""
        return BrokerConfig(self.static, dynamic_default=dynamic_default, dynamic_broker=dynamic_broker)

    def text_of(self, setting: Setting[Any]) -> str | None:
        """Give the text that decides a setting, or None where Kafka's default does."""
        return self.texts.get(setting.key)

    @property
    def log_directories(self) -> tuple[str, ...]:
        """The directories of the logs: log.dirs, else log.dir."""
        given = self.log_dirs if self.log_dirs is not None else self.log_dir
        return tuple(directory for part in given.split(",") if (directory := part.strip()))

    @property
    def effective_protocol_map(self) -> str:
        """The security protocols of listeners: as given, with the controller's listeners PLAINTEXT unless named."""
        given = self.listener_security_protocol_map
        if "listener.security.protocol.map" in self.texts:
            return given
        names = [f"{name}:PLAINTEXT" for name in sorted(self.controller_listeners) if name not in SECURITY_PROTOCOLS]
        return ",".join([given, *names])

    @property
    def controller_listeners(self) -> frozenset[str]:
        """The listeners that belong to the controller, which Tailrace does not open."""
        names = (self.controller_listener_names or "").upper().split(",")
        return frozenset(name.strip() for name in names if name.strip())

    @property
    def listener_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the broker listens, without the controller's listeners."""
        protocols = parse_protocol_map(self.effective_protocol_map)
        endpoints = parse_endpoints("listeners", self.listeners, protocols)
        return tuple(endpoint for endpoint in endpoints if endpoint.name not in self.controller_listeners)

    @property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """What clients are told; the listeners themselves where `advertised.listeners` is not given.

        In the second case hosts may be empty and ports 0: the broker puts in what it has bound.
        """
        if self.advertised_listeners is None:
            return self.listener_endpoints
        protocols = parse_protocol_map(self.effective_protocol_map)
        endpoints = parse_endpoints("advertised.listeners", self.advertised_listeners, protocols)
        return tuple(endpoint for endpoint in endpoints if endpoint.name not in self.controller_listeners)

    @property
    def log_config(self) -> LogConfig:
        """The configuration of a topic without overrides."""
        config: LogConfig | None = self.__dict__.get("_log_config")
        if config is None:
            config = self.__dict__["_log_config"] = LogConfig.from_overrides(self, NO_TEXTS)
        return config

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} can't be set: make another BrokerConfig from other texts")

    def __repr__(self) -> str:
        return f"BrokerConfig({sorted(self.texts)})"


def broker_synonyms(key: str) -> tuple[str, ...]:
    """Give the broker settings that mean the same as this one, the one that decides first."""
    for names in _SYNONYMS.values():
        if key in names and key != "log.flush.scheduler.interval.ms":
            return names
    return (key,)


def listener_setting(key: str) -> Setting[Any] | None:
    """Give the setting that a key such as `listener.name.internal.ssl.client.auth` overrides for one listener."""
    if not key.startswith("listener.name."):
        return None
    words = key.split(".")[3:]
    # With a SASL mechanism between: listener.name.internal.scram-sha-256.sasl.jaas.config
    for base in (".".join(words), ".".join(words[1:])):
        if base in BrokerConfig.settings:
            return BrokerConfig.settings[base]
    return None


def _with_node_id(static: Mapping[str, str]) -> Mapping[str, str]:
    """Let node.id and its older name broker.id stand for each other."""
    for given, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if given in static and other not in static:
            return {**static, other: static[given]}
    if static.get("node.id", "").strip() != static.get("broker.id", "").strip():
        raise ConfigError("broker.id", static["broker.id"], f"the same number as node.id ({static['node.id']})")
    return static
