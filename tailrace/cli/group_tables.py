"""What is known of a group as rows of tables, in the columns that Kafka's own tool has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tailrace.cli.table import show_table
from tailrace.client.admin import GroupDescription, GroupMember, GroupOffset
from tailrace.protocol.topic_partition import TopicPartition

Row = tuple[object, ...]

NONE = "-"


@dataclass(slots=True)
class GroupFacts:
    """A group, the offsets it has committed, and the ends of its partitions."""

    description: GroupDescription
    offsets: Mapping[TopicPartition, GroupOffset]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    @property
    def partitions(self) -> set[TopicPartition]:
        """What the group has committed for, or reads."""
        read = {key for member in self.description.members for key in member.assignment}
        return read | set(self.offsets)


def offset_rows(facts: GroupFacts) -> Iterator[Row]:
    """Give a row for each partition, and one for each member that reads none."""
    group = facts.description
    readers = {key: member for member in group.members for key in member.assignment}
    for key in sorted(facts.partitions):
        committed, end = facts.offsets.get(key), facts.ends.get(key)
        lag = None if committed is None or end is None else end - committed.offset
        numbers = (_or_none(committed.offset if committed else None), _or_none(end), _or_none(lag))
        yield (group.group_id, key.topic, key.partition, *numbers, *_reader(readers.get(key)))
    for member in group.members:
        if not member.assignment:
            yield (group.group_id, *[NONE] * 5, *_reader(member))


def show_offsets(rows: Iterable[Row]) -> None:
    """Print the offsets of groups."""
    numbers = ["#PARTITION", "#CURRENT", "#END", "#LAG"]
    show_table(["GROUP", "TOPIC", *numbers, "MEMBER", "HOST", "CLIENT"], rows)


def state_rows(facts: GroupFacts) -> Iterator[Row]:
    """Give the row of a group."""
    group = facts.description
    yield (
        group.group_id,
        group.group_type,
        group.coordinator.node_id,
        group.coordinator.address,
        group.assignor or NONE,
        group.state,
        len(group.members),
        _or_none(group.epoch),
        _or_none(group.assignment_epoch),
    )


def member_rows(facts: GroupFacts) -> Iterator[Row]:
    """Give a row for each member; what is to come is written where it is not what the member has."""
    for member in facts.description.members:
        target = member.target_assignment
        yield (
            facts.description.group_id,
            member.member_id,
            member.instance_id or NONE,
            member.host,
            member.client_id,
            _or_none(member.epoch),
            len(member.assignment),
            partition_list(member.assignment),
            NONE if target is None or target == member.assignment else partition_list(target),
        )


def partition_list(partitions: Iterable[TopicPartition]) -> str:
    """Write partitions as `a:0,1;b:2`, or `-` for none."""
    topics: dict[str, list[int]] = {}
    for key in sorted(partitions):
        topics.setdefault(key.topic, []).append(key.partition)
    return ";".join(f"{name}:{','.join(map(str, numbers))}" for name, numbers in topics.items()) or NONE


def _reader(member: GroupMember | None) -> tuple[str, str, str]:
    return (NONE, NONE, NONE) if member is None else (member.member_id, member.host, member.client_id)


def _or_none(number: int | None) -> object:
    return NONE if number is None else number
