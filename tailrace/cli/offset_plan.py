"""Where the offsets of a group are to go: one rule for all of its partitions, or a file that says it of each.

The rules are those of kafka-consumer-groups.sh: an offset never leaves what the partition holds; a time after the last
record is the end; what was never committed stays at the end with `current`, and cannot be shifted.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TextIO

import click

from tailrace.cli.offset_targets import TopicScope, resolve_scopes
from tailrace.client.admin import Admin, GroupOffset
from tailrace.client.cluster import Cluster
from tailrace.client.offsets import EARLIEST, LATEST, list_offsets
from tailrace.protocol.topic_partition import TopicPartition

Plan = dict[TopicPartition, int]


class Rule(Enum):
    """How an offset is found."""

    EARLIEST = auto()
    LATEST = auto()
    CURRENT = auto()
    OFFSET = auto()
    SHIFT = auto()
    TIMESTAMP = auto()


@dataclass(frozen=True, slots=True)
class Move:
    """A rule with its number: an offset, by how many, or a time."""

    rule: Rule
    number: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """What a partition holds."""

    first: int
    end: int

    def nearest(self, offset: int) -> int:
        """Give the offset, or the end of the range that it is beyond."""
        return min(max(offset, self.first), self.end)


def plan(
    move: Move,
    ranges: Mapping[TopicPartition, Range],
    committed: Mapping[TopicPartition, GroupOffset],
    at_time: Mapping[TopicPartition, int],
) -> Plan:
    """Say where each partition's offset goes; `at_time` has the offsets that were found for the move's time, or -1."""
    if move.rule is Rule.SHIFT:
        missing = [str(key) for key in ranges if key not in committed]
        if missing:
            raise click.ClickException(f"cannot shift what was never committed: {', '.join(missing)}")
    return {key: _target(move, key, held, committed.get(key), at_time.get(key, -1)) for key, held in ranges.items()}


def _target(move: Move, key: TopicPartition, held: Range, committed: GroupOffset | None, at_time: int) -> int:
    match move.rule:
        case Rule.EARLIEST:
            return held.first
        case Rule.OFFSET:
            return held.nearest(move.number)
        case Rule.TIMESTAMP if at_time >= 0:
            return at_time
        case Rule.SHIFT if committed is not None:
            return held.nearest(committed.offset + move.number)
        case Rule.CURRENT if committed is not None:
            return committed.offset
        case _:
            return held.end


async def ask_ranges(cluster: Cluster, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Range]:
    """Ask what partitions hold."""
    first = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    end = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    return {key: Range(first[key].offset, end[key].offset) for key in partitions}


async def make_plan(
    cluster: Cluster,
    move: Move,
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, GroupOffset],
) -> Plan:
    """Ask what the rule needs to know, and apply it."""
    ranges = await ask_ranges(cluster, partitions)
    at_time: dict[TopicPartition, int] = {}
    if move.rule is Rule.TIMESTAMP:
        found = await list_offsets(cluster, dict.fromkeys(partitions, max(move.number, 0)))
        at_time = {key: one.offset for key, one in found.items()}
    return plan(move, ranges, committed, at_time)


def read_plans(lines: TextIO, groups: Sequence[str]) -> dict[str, Plan]:
    """Read `topic,partition,offset` for the one group, or `group,topic,partition,offset` for several."""
    plans: dict[str, Plan] = {group: {} for group in groups}
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        cells = [cell.strip() for cell in row]
        if len(cells) == 3 and len(groups) == 1:
            cells.insert(0, groups[0])
        if len(cells) != 4 or not cells[2].isdecimal() or not cells[3].isdecimal():
            form = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
            raise click.ClickException(f"line {number} is not {form}: {','.join(row)}")
        group, topic, partition, offset = cells
        if group not in plans:
            raise click.ClickException(f"line {number} is for group {group}, which was not named")
        plans[group][TopicPartition(topic, int(partition))] = int(offset)
    return plans


async def fit_plan(cluster: Cluster, wanted: Plan) -> Plan:
    """Keep a plan that was read from a file within what the partitions hold."""
    scopes = [TopicScope(key.topic, (key.partition,)) for key in wanted]
    ranges = await ask_ranges(cluster, await resolve_scopes(Admin(cluster), scopes))
    return {key: ranges[key].nearest(offset) for key, offset in wanted.items()}


def csv_lines(plans: Mapping[str, Plan]) -> Iterable[str]:
    """Write plans as `read_plans` reads them."""
    for group, targets in plans.items():
        for key, offset in sorted(targets.items()):
            line = f"{key.topic},{key.partition},{offset}"
            yield line if len(plans) == 1 else f"{group},{line}"
