"""What every group is to its coordinator, of whichever protocol it is.

A coordinator finds a group by its id and asks it: may these offsets be committed, does somebody read this topic, may
the group go? A group of the classic protocol (`hosted_classic.py`) and one of the consumer protocol (KIP-848) answer by
their own rules. Methods that check raise the ApiError that the client is to be told.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from tailrace.broker.groups.offset_store import CommittedOffset
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord

NO_GENERATION = -1


class GroupType(StrEnum):
    """The kinds of groups, named as ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(Protocol):
    """One group; see the module's docstring."""

    @property
    def group_id(self) -> str:
        """Its name."""
        ...

    @property
    def group_type(self) -> GroupType:
        """Which protocol its members speak."""
        ...

    @property
    def state_name(self) -> str:
        """Its state, as ListGroups and DescribeGroups name it."""
        ...

    @property
    def protocol_type(self) -> str:
        """What its members are: `consumer`, `connect`, ...; empty where only offsets are kept under its name."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and none on their way in."""
        ...

    @property
    def member_count(self) -> int:
        """How many members it has."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether some member reads the topic, as far as can be known."""
        ...

    def check_offset_commit(
        self, *, member_id: str, instance_id: str | None, generation: int, is_transactional: bool, version: int
    ) -> None:
        """Raise where somebody may not commit offsets; `generation` is the member epoch in the consumer protocol."""
        ...

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """Raise where somebody may not ask for offsets."""
        ...

    def check_offset_delete(self) -> None:
        """Raise where no offset of the group may be deleted now."""
        ...

    def check_delete(self) -> None:
        """Raise where the group may not be deleted now."""
        ...

    def committed(self, member_id: str) -> None:
        """Take a member's commit for a sign of life."""
        ...

    def expires_since(self, offset: CommittedOffset) -> int | None:
        """Give the time from which an offset's retention counts, or None where it may not expire now."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """Give the records that end it."""
        ...

    def discard(self) -> None:
        """Forget its timers: the group is no more."""
        ...

    def activate(self) -> None:
        """Begin its members' sessions: the group was read from the log and is served from now on."""
        ...

    def resign(self) -> None:
        """Tell all who wait to look for the coordinator elsewhere."""
        ...
