"""A subscription to clients' metrics (KIP-714): which clients send which metrics, and how often.

Names, types and defaults are those of Apache Kafka 4.1. Whose clients a subscription matches is decided where metrics
are received; here is what may be set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tailrace.settings.config_error import ChangeRejected, ConfigError
from tailrace.settings.declare import integer, word_list
from tailrace.settings.definition import Setting, SettingTable

INTERVAL_MS_MIN = 100
INTERVAL_MS_MAX = 3_600_000

MATCH_KEYS = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)
"""What of a client a pattern may look at."""


class ClientMetricsConfig(SettingTable):
    """What one subscription says; every setting is an attribute."""

    overrides: Mapping[str, str]
    """The texts that were set for this subscription, by key."""

    interval_ms = integer(300000, "How often a client sends its metrics.")
    match = word_list((), "Which clients: patterns of the form client_id=..., all of which have to fit.")
    metrics = word_list((), "Prefixes of the metrics' names; empty is none, * is every metric.")

    def __init__(self, overrides: Mapping[str, str]) -> None:
        for key, text in overrides.items():
            setting = self.settings.get(key)
            if setting is None:
                raise ChangeRejected(f"Unknown client metrics configuration: {key}")
            self.__dict__[setting.name] = setting.parse(text)
        self.__dict__["overrides"] = MappingProxyType(dict(overrides))
        if not INTERVAL_MS_MIN <= self.interval_ms <= INTERVAL_MS_MAX:
            bounds = f"from {INTERVAL_MS_MIN} to {INTERVAL_MS_MAX} ms"
            raise ChangeRejected(f"interval.ms={self.interval_ms}: expected {bounds}")
        for pattern in self.match:
            _check_pattern(pattern)

    def text_of(self, setting: Setting[Any]) -> str | None:
        """Give the text that was set, or None where the default holds."""
        return self.overrides.get(setting.key)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} can't be set: make another ClientMetricsConfig from other overrides")


def _check_pattern(pattern: str) -> None:
    key, separator, expression = pattern.partition("=")
    if not separator or key.strip() not in MATCH_KEYS:
        raise ConfigError("match", pattern, f"<key>=<regular expression> with one of {', '.join(sorted(MATCH_KEYS))}")
    try:
        re.compile(expression.strip())
    except re.error as error:
        raise ConfigError("match", pattern, f"a regular expression after the '=' ({error})") from error
