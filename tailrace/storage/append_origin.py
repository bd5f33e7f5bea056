"""Who appends to a log: it decides which checks an append has to pass."""

from __future__ import annotations

from enum import IntEnum


class AppendOrigin(IntEnum):
    """Where the records come from.

    A client's batches are checked in full. The coordinators of groups and transactions write records without sequence
    numbers, and markers. What a follower copies from its leader was checked there and must not be refused here.
    """

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
