"""What a producer is told of the consumer whose offsets it commits: its group, and its place there (KIP-447).

A coordinator refuses offsets of a member that is not in the group any more, or that is behind: so two consumers that
both believe to have a partition never both commit. Pure values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """A consumer as its group knows it. With the group's id alone the coordinator checks nothing.

    `generation_id` is the generation of a classic group, or the member's epoch in the consumer protocol.
    """

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetToCommit(Protocol):
    """The offset of the record that is read next, and what is kept with it."""

    @property
    def offset(self) -> int:
        """The offset of the record that is read next."""
        ...

    @property
    def metadata(self) -> str:
        """Whatever the committer wants to be kept with it."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last record that was read; -1 where it is not known."""
        ...
