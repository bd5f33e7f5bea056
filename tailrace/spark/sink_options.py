"""What a writing query is told, and which columns it has to have, as Spark's own Kafka connector checks them.

Pure. ValueError says what is wrong, in the words of the official connector where it has any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tailrace.settings.client_config import ProducerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.spark.options import kafka_settings

HEADERS: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS,),
    "partition": ("int",),
}
_REFUSED: Final = {
    "key.serializer": "keys are written as they are, binary or string",
    "value.serializer": "values are written as they are, binary or string",
    "transactional.id": "the sink writes at least once, without transactions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What a sink goes by. `topic` is None where the column says it; `kafka` are the client's settings."""

    topic: str | None
    columns: tuple[str, ...]
    kafka: Mapping[str, str]


def parse_sink_options(
    given: Mapping[str, str], names_and_types: Sequence[tuple[str, str]], *, overwrites: bool
) -> SinkOptions:
    """Read and check the options and columns of a query; ValueError says what is wrong."""
    options = {name.lower(): value for name, value in given.items()}
    if overwrites:
        raise ValueError("Save mode Overwrite not allowed for Kafka: a topic can only be appended to")
    if options.get("exactlyonce", "false").strip().lower() != "false":
        raise ValueError("Option 'exactlyOnce' is not supported: the sink writes at least once")
    settings = kafka_settings(options, _REFUSED)
    if "bootstrap.servers" not in settings:
        raise ValueError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    try:
        ProducerConfig(settings)
    except ConfigError as error:
        raise ValueError(f"Kafka option {error}") from error
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise ValueError("the option 'topic' is empty")
    columns = _check_columns(dict(names_and_types), topic)
    return SinkOptions(topic=None if topic is None else topic.strip(), columns=columns, kafka=settings)


def _check_columns(types: Mapping[str, str], topic: str | None) -> tuple[str, ...]:
    """Give the names of the columns that are written; others are left aside, as `timestamp` is."""
    if "topic" not in types and topic is None:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in types:
        raise ValueError("Required attribute 'value' not found")
    written = tuple(name for name in _TYPES if name in types)
    for name in written:
        if types[name] not in _TYPES[name]:
            wanted = " or ".join(_TYPES[name])
            raise ValueError(f"{name} attribute unsupported type {types[name]}. {name} must be a(n) {wanted}")
    return tuple(name for name in written if name != "topic" or topic is None)
