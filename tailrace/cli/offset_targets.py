"""Which partitions a command is for, and where offsets are to go: what is written on the command line, read.

`TOPIC` or `TOPIC:0,1` is a scope. A time is `2026-11-21T08:00:00.000`, in UTC unless it says otherwise, a duration
`P1DT2H` as ISO 8601 has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from tailrace.cli.cluster_session import topic_name
from tailrace.client.admin import Admin
from tailrace.client.errors import raise_for_code
from tailrace.protocol.topic_partition import TopicPartition

_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:[.,](?P<fraction>\d{1,9}))?S)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TopicScope:
    """A topic; all its partitions, or some."""

    topic: str
    partitions: tuple[int, ...] | None = None


def topic_scope(text: str) -> TopicScope:
    """Read `TOPIC` or `TOPIC:0,1`; a type for click."""
    name, colon, numbers = text.partition(":")
    if not colon:
        return TopicScope(topic_name(name))
    parts = numbers.split(",")
    if not all(part.isdecimal() and int(part) < 2**31 for part in parts):
        raise click.BadParameter(f"{text!r} is not TOPIC:0,1,..., a topic with numbers of its partitions")
    return TopicScope(topic_name(name), tuple(dict.fromkeys(map(int, parts))))


def timestamp_ms(text: str) -> int:
    """Read a time as milliseconds since 1970; a type for click."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time; 2026-11-21T08:00:00.000 is expected") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def duration_ms(text: str) -> int:
    """Read a duration as milliseconds; a type for click."""
    match = _DURATION.fullmatch(text)
    parts = {} if match is None else match.groupdict()
    if not any(parts.get(name) for name in ("days", "hours", "minutes", "seconds")):
        raise click.BadParameter(f"{text!r} is no duration; PnDTnHnMnS is expected, as P1DT2H or PT30M")
    days, hours, minutes, seconds = (int(parts[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    milliseconds = int((parts["fraction"] or "").ljust(3, "0")[:3])
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds
    return -total if parts["sign"] == "-" else total


async def resolve_scopes(admin: Admin, scopes: Iterable[TopicScope]) -> list[TopicPartition]:
    """Give the partitions of scopes; BrokerError for a topic that is not there."""
    wanted: dict[str, set[int] | None] = {}
    for scope in scopes:
        known = wanted.get(scope.topic, set[int]())
        wanted[scope.topic] = None if scope.partitions is None or known is None else known | set(scope.partitions)
    partitions: list[TopicPartition] = []
    topics = (await admin.describe_topics(wanted)).topics
    for name, numbers in wanted.items():
        raise_for_code(topics[name].error_code, f"topic {name}")
        chosen = topics[name].partitions.keys() if numbers is None else sorted(numbers)
        missing = [number for number in chosen if number not in topics[name].partitions]
        if missing:
            raise click.ClickException(f"topic {name} has no partition {', '.join(map(str, missing))}")
        partitions += [TopicPartition(name, number) for number in chosen]
    return partitions
