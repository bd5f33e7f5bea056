"""One line of a history: what a client did and what it was told, in the order in which it was told.

A `process` is one client that does one thing after another. A value stands for itself everywhere in a history: nobody
writes it twice on purpose, so a value at two offsets is a duplicate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record that was acknowledged at an offset; None where the producer was not told which."""

    process: str
    partition: Partition
    value: int
    offset: int | None
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """Records that a consumer was given for one partition, in its order; `generation` changes when it may jump.

    A consumer may begin anywhere in a new generation (an assignment, a seek); in an old one it goes on where it was.
    """

    process: str
    partition: Partition
    generation: int
    records: tuple[tuple[int, int], ...]
    is_committed_read: bool = True


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that is known to have committed or aborted."""

    transaction: str
    is_committed: bool


Operation: TypeAlias = Sent | Polled | Ended
