"""What an assignor is told of a group, and what it answers.

An assignment maps topic ids to partition numbers; topics without partitions do not appear. Nothing here changes what it
was given. Members are taken in the order of their ids and topics in the order of theirs, so that one input has one
outcome (Kafka goes by the order of its hash tables, and gives the same partitions to members of other names).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Assignment: TypeAlias = Mapping[bytes, frozenset[int]]
"""Topic ids to partitions; never an empty set of them."""

NO_PARTITIONS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member: the topics it wants, and the partitions that it was to have until now."""

    topic_ids: frozenset[bytes]
    assignment: Assignment
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group; `is_homogeneous` where all members want the same topics. Every topic is in `partition_counts`."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    is_homogeneous: bool


Assignor: TypeAlias = Callable[[GroupSpec], dict[str, Assignment]]
"""Gives each member its partitions; a member that is left out gets none."""


def uuid_order(topic_id: bytes) -> tuple[int, int]:
    """Order ids as Java compares them: two signed numbers."""
    high = int.from_bytes(topic_id[:8], "big", signed=True)
    return high, int.from_bytes(topic_id[8:], "big", signed=True)


def java_string_order(text: str) -> bytes:
    """Order texts as Java compares them: by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")
