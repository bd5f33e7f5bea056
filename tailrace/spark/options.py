"""What a reading query is told, under the names of Spark's own Kafka connector, checked as that one checks it.

Pure. `parse_source_options` takes the options as Spark gives them, in any case, and raises ValueError for what cannot
be, in the words of the official connector where it has any. An option that is misspelt is refused; one that means
nothing to a source is left alone, because Spark passes on everything that a user sets.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.settings.client_config import ConsumerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.spark.offset_json import read_assignment
from tailrace.spark.offset_limits import Earliest, Latest, OffsetLimit, check_batch_limits, parse_limit
from tailrace.spark.topic_selection import Assign, Subscribe, SubscribePattern, TopicSelection, compile_pattern
from tailrace.spark.trigger_limits import parse_duration_ms

STRATEGIES: Final = ("subscribe", "subscribepattern", "assign")
FETCH_BYTES_DEFAULT: Final = 8 * 1024 * 1024
"""Bytes of one partition in one fetch: measured, 4 to 8 MB cost Spark the least for a record."""
_KAFKA: Final = "kafka."
_NAMES: Final = {
    name.lower(): name
    for name in (
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "failOnDataLoss",
        "includeHeaders",
        "minPartitions",
        "maxRecordsPerPartition",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "groupIdPrefix",
        "commitOffsetsToGroup",
        "format",
        "valueSchema",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    )
}
_NOT_OFFERED: Final = {
    "maxbytespertrigger": "limit a batch with maxOffsetsPerTrigger",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a source goes by. `kafka` are the client's settings by Kafka's names."""

    selection: TopicSelection
    starting: OffsetLimit
    ending: OffsetLimit
    begins_at_latest_without_match: bool
    fails_on_data_loss: bool
    include_headers: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    poll_timeout_ms: int
    offset_attempts: int
    offset_retry_interval_ms: int
    commit_group: str | None
    decodes_json: bool
    kafka: Mapping[str, str]


def parse_source_options(given: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    """Read and check the options of a query; ValueError says what is wrong."""
    options = {name.lower(): value for name, value in given.items()}
    _refuse_unknown(options)
    selection = _parse_selection(options)
    starting = parse_limit(options, "starting", Latest() if is_streaming else Earliest())
    ending = parse_limit(options, "ending", Latest())
    if is_streaming:
        _check_stream(options)
    else:
        check_batch_limits(starting, ending)
    min_offsets = _positive(options, "minoffsetspertrigger")
    max_offsets = _positive(options, "maxoffsetspertrigger")
    if min_offsets is not None and max_offsets is not None and min_offsets > max_offsets:
        raise ValueError(
            f"The value of minOffsetPerTrigger({min_offsets}) is higher than the maxOffsetsPerTrigger({max_offsets})."
        )
    return SourceOptions(
        selection=selection,
        starting=starting,
        ending=ending,
        begins_at_latest_without_match=_begins_at_latest(options),
        fails_on_data_loss=_boolean(options, "failondataloss", True),
        include_headers=_boolean(options, "includeheaders", False),
        min_partitions=_positive(options, "minpartitions"),
        max_records_per_partition=_positive(options, "maxrecordsperpartition"),
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay_ms=parse_duration_ms(options.get("maxtriggerdelay", "15m")),
        poll_timeout_ms=_positive(options, "kafkaconsumer.polltimeoutms") or 120_000,
        offset_attempts=_positive(options, "fetchoffset.numretries") or 3,
        offset_retry_interval_ms=_number(options, "fetchoffset.retryintervalms", 1_000),
        commit_group=options.get("commitoffsetstogroup"),
        decodes_json=_json_schema(options) is not None,
        kafka=_kafka_settings(options),
    )


def parse_column_options(given: Mapping[str, str]) -> tuple[bool, str | None]:
    """Give what decides the columns: whether there are headers, and the fields of values that are JSON."""
    options = {name.lower(): value for name, value in given.items()}
    return _boolean(options, "includeheaders", False), _json_schema(options)


def _json_schema(options: Mapping[str, str]) -> str | None:
    """Give the fields that values have, as Spark's DDL; None where values are bytes."""
    kind, schema = options.get("format"), options.get("valueschema")
    if kind is None and schema is None:
        return None
    if kind is not None and kind.strip().lower() != "json":
        raise ValueError(f"Option 'format' is json, not '{kind}'; decode other values with from_csv or from_avro")
    if kind is None or schema is None or not schema.strip():
        raise ValueError("the options format=json and valueSchema belong together: valueSchema='id long, name string'")
    return schema.strip()


def _refuse_unknown(options: Mapping[str, str]) -> None:
    for name in options:
        if name in _NOT_OFFERED:
            raise ValueError(f"Option '{name}' is not supported: {_NOT_OFFERED[name]}")
        if name not in _NAMES and not name.startswith(_KAFKA):
            similar = difflib.get_close_matches(name, _NAMES, 1, 0.85)
            if similar:
                raise ValueError(f"Unknown option '{name}', did you mean '{_NAMES[similar[0]]}'?")


def _parse_selection(options: Mapping[str, str]) -> TopicSelection:
    given = [name for name in STRATEGIES if name in options]
    if len(given) != 1:
        many = "Only one of the following options can" if given else "One of the following options must"
        raise ValueError(
            f"{many} be specified for Kafka source: {', '.join(STRATEGIES)}. See the docs for more details."
        )
    text = options[given[0]]
    match given[0]:
        case "assign":
            if not text.strip().startswith("{"):
                raise ValueError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
            return Assign(tuple(read_assignment(text)))
        case "subscribe":
            topics = tuple(name.strip() for name in text.split(",") if name.strip())
            if not topics:
                raise ValueError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
            return Subscribe(topics)
        case _:
            if not text.strip():
                raise ValueError(
                    f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'"
                )
            compile_pattern(text.strip())
            return SubscribePattern(text.strip())


def _check_stream(options: Mapping[str, str]) -> None:
    if not options.get("commitoffsetstogroup", "a group").strip():
        raise ValueError("commitOffsetsToGroup is the name of a group, not ''")
    if "endingoffsets" in options or "endingoffsetsbytimestamp" in options:
        raise ValueError("ending offset not valid in streaming queries")
    if "endingtimestamp" in options:
        raise ValueError("ending timestamp not valid in streaming queries")


def _begins_at_latest(options: Mapping[str, str]) -> bool:
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise ValueError(f"startingOffsetsByTimestampStrategy is 'error' or 'latest', not '{strategy}'")
    return strategy == "latest"


def _positive(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    number = _number(options, name, 0)
    if number <= 0:
        raise ValueError(f"{_NAMES[name]} must be positive")
    return number


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{_NAMES[name]} must be a number, not '{text}'") from None


def _boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"{_NAMES[name]} is 'true' or 'false', not '{text}'")
    return text == "true"


_REFUSED: Final = {
    "auto.offset.reset": "say where a query begins with the option startingOffsets; where a running one goes on is in "
    "its checkpoint",
    "key.deserializer": "keys are deserialized as byte arrays; use DataFrame operations to deserialize them",
    "value.deserializer": "values are deserialized as byte arrays; use DataFrame operations to deserialize them",
    "enable.auto.commit": "the offsets of a query are in its checkpoint",
    "interceptor.classes": "nothing may change records on their way",
}


def _kafka_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Give what is passed on to the client, checked."""
    settings = kafka_settings(options, _REFUSED)
    if "bootstrap.servers" not in settings:
        raise ValueError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    try:
        ConsumerConfig(settings)
    except ConfigError as error:
        raise ValueError(f"Kafka option {error}") from error
    return {"max.partition.fetch.bytes": str(FETCH_BYTES_DEFAULT), **settings}


def kafka_settings(options: Mapping[str, str], refused: Mapping[str, str]) -> dict[str, str]:
    """Give the options that begin with `kafka.` by Kafka's names; ValueError for those that are refused."""
    settings = {name[len(_KAFKA) :]: value for name, value in options.items() if name.startswith(_KAFKA)}
    for name, reason in refused.items():
        if name in settings:
            raise ValueError(f"Kafka option '{name}' is not supported: {reason}")
    return settings
