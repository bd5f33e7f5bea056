"""Where a broker's settings come from, and which source wins.

Kafka's defaults < the properties file < the environment < flags. The environment speaks as Kafka's container images
do: `KAFKA_LOG_RETENTION_MS` is `log.retention.ms`, a double underscore is an underscore, a triple one a dash; settings
that only Tailrace has are `TAILRACE_METRICS_PORT` for `tailrace.metrics.port`. A key that nobody knows is kept (Kafka
shows it too) and named in a warning, with the nearest name that exists. A value that its setting does not take raises
ConfigError, which says where it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tailrace.settings.broker_config import BrokerConfig, listener_setting
from tailrace.settings.config_error import ConfigError

_OTHER_PROGRAMS = re.compile(
    r"KAFKA_(VERSION|HOME|CLUSTER_ID|DEBUG|.*_OPTS?|.*LOG4J.*|JMX_.*|SERVICE_.*|PORT|PORT_.*|.*_(SERVICE|TCP)(_.*)?)"
)
"""Variables of Kafka's scripts and of container platforms (a service called kafka), which are no settings."""

_PLUGIN_PREFIXES = ("rsm.config.", "rlmm.config.", "remote.log.metadata.")


@dataclass(slots=True)
class LoadedConfig:
    """A broker's configuration and what is to be said about how it was found.

    `warnings` are for a person to read, one sentence each; `origins` says of each key which source decided it.
    """

    config: BrokerConfig
    warnings: list[str]
    origins: dict[str, str]


def load_broker_config(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Iterable[tuple[str, str, str]] = (),
) -> LoadedConfig:
    """Read all sources; a flag is (key, value, how it was given). Raises ConfigError, and OSError for the file."""
    texts: dict[str, str] = {}
    origins: dict[str, str] = {}
    if file is not None:
        for key, text in read_properties(file).items():
            texts[key], origins[key] = text, str(file)
    for key, (text, variable) in read_environment(environment or {}).items():
        texts[key], origins[key] = text, f"environment variable {variable}"
    for key, text, origin in flags:
        texts[key], origins[key] = text, origin
    try:
        config = BrokerConfig(texts)
    except ConfigError as error:
        raise (error.with_origin(f"from {origins[error.key]}") if error.key in origins else error) from None
    warnings = [warning for key in texts if (warning := _warn_of_unknown(key, origins[key])) is not None]
    return LoadedConfig(config, warnings, origins)


def read_properties(file: Path) -> dict[str, str]:
    """Read a properties file; raises ConfigError for one that is none, and OSError."""
    import javaproperties  # a tenth of a start to import: only who gives a file pays

    try:
        return javaproperties.loads(file.read_text(encoding="latin-1"))
    except ValueError as error:
        raise ConfigError("--config", file, f"a properties file, but {error}") from None


def parse_assignment(text: str) -> tuple[str, str]:
    """Split `key=value`; raises ConfigError where there is no key or no equals sign."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError("--set", text, "key=value")
    return key.strip(), value


def read_environment(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Find settings among environment variables: the text of each key, and the variable's name."""
    found: dict[str, tuple[str, str]] = {}
    for variable, text in environment.items():
        prefix, _, rest = variable.partition("_")
        if not rest or prefix not in ("KAFKA", "TAILRACE") or _OTHER_PROGRAMS.fullmatch(variable):
            continue
        key = _key_of(rest)
        found[key if prefix == "KAFKA" else f"tailrace.{key}"] = (text, variable)
    return found


def _key_of(name: str) -> str:
    marks = {"_": ".", "__": "_", "___": "-"}
    return re.sub("_{1,3}", lambda found: marks[found[0]], name.lower())


def _warn_of_unknown(key: str, origin: str) -> str | None:
    if key in BrokerConfig.settings or key.startswith(_PLUGIN_PREFIXES) or listener_setting(key) is not None:
        return None
    import difflib

    near = difflib.get_close_matches(key, BrokerConfig.settings, n=1, cutoff=0.8)
    return f"unknown setting {key} ({origin}) is ignored{f'; is {near[0]} meant?' if near else ''}"
