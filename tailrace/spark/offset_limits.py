"""Where a query begins and ends: the earliest or latest offsets, given ones, or those of a time.

Pure. The options are startingTimestamp, startingOffsetsByTimestamp and startingOffsets, of which the first one that is
given holds, and the same for the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.client.offsets import EARLIEST, LATEST
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.spark.offset_json import names_of, read_offsets


@dataclass(frozen=True, slots=True)
class Earliest:
    """What is there from the beginning."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end, as it is when the query looks for it."""


@dataclass(frozen=True, slots=True)
class GivenOffsets:
    """An offset for each partition; -2 is its earliest one and -1 its latest."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GivenTimestamp:
    """In every partition the first record of that time (milliseconds) or later."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class GivenTimestamps:
    """For each partition a time of its own."""

    timestamps_ms: Mapping[TopicPartition, int]


OffsetLimit = Earliest | Latest | GivenOffsets | GivenTimestamp | GivenTimestamps

_TIMESTAMPS_EXAMPLE: Final = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'


def parse_limit(options: Mapping[str, str], which: str, default: OffsetLimit) -> OffsetLimit:
    """Read the options of one end, `which` being `starting` or `ending`; names are in lower case."""
    timestamp = options.get(f"{which}timestamp")
    if timestamp is not None:
        if not timestamp.strip().lstrip("-").isdecimal():
            raise ValueError(f"{which}Timestamp: Expected a single long value, got {timestamp}")
        return GivenTimestamp(int(timestamp))
    timestamps = options.get(f"{which}offsetsbytimestamp")
    if timestamps is not None:
        return GivenTimestamps(read_offsets(timestamps, _TIMESTAMPS_EXAMPLE))
    offsets = options.get(f"{which}offsets")
    if offsets is None:
        return default
    match offsets.strip().lower():
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case _:
            return GivenOffsets(read_offsets(offsets))


def check_batch_limits(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Refuse what would give a batch query nothing or everything by mistake."""
    if isinstance(starting, Latest):
        raise ValueError("starting offset can't be latest for batch queries on Kafka")
    if isinstance(ending, Earliest):
        raise ValueError("ending offset can't be earliest for batch queries on Kafka")
    if isinstance(starting, GivenOffsets):
        wrong = [key for key, offset in starting.offsets.items() if offset == LATEST]
        if wrong:
            raise ValueError(f"startingOffsets for {names_of(wrong)} can't be latest for batch queries on Kafka")
    if isinstance(ending, GivenOffsets):
        wrong = [key for key, offset in ending.offsets.items() if offset == EARLIEST]
        if wrong:
            raise ValueError(f"ending offset for {names_of(wrong)} can't be earliest for batch queries on Kafka")
