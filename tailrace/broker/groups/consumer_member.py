"""A member of a consumer group (KIP-848): what it told of itself, its epochs, and the partitions it holds.

    STABLE ──────────── it holds what its epoch's target says
    UNREVOKED_PARTITIONS  it was told to give partitions up, and has not said yet that it did
    UNRELEASED_PARTITIONS it waits for partitions that others still hold

Members are values: a change makes a new one, so that what was before can be compared with what comes after.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum

from tailrace.broker.groups.assignors.group_spec import Assignment
from tailrace.protocol.coordinator.consumer_group import ClassicMemberMetadata

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
STATIC_LEAVING_EPOCH = -2
"""What a static member that will be back says; a member of that epoch is away, and its place is kept."""


class MemberState(IntEnum):
    """See the module's docstring; UNKNOWN is whatever a later version wrote."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def from_record(cls, number: int) -> MemberState:
        """Read the number in a record."""
        try:
            return cls(number)
        except ValueError:
            return cls.UNKNOWN


def no_assignment() -> Assignment:
    """Give the assignment of somebody who has nothing."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """See the module's docstring.

    `classic` is what a member of the classic protocol told besides, None for a member of the new one. `assigned` is
    what the member may consume, `pending_revocation` what it has to give up; `subscribed_topic_regex` is empty where
    there is none.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=no_assignment)
    pending_revocation: Assignment = field(default_factory=no_assignment)

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its place through restarts (KIP-345)."""
        return self.instance_id is not None

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether it speaks JoinGroup and SyncGroup."""
        return self.classic is not None

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that left to come back."""
        return self.member_epoch == STATIC_LEAVING_EPOCH

    @property
    def classic_protocol_names(self) -> frozenset[str]:
        """The names of the classic protocols that it supports; none for a member of the new protocol."""
        return frozenset(p.name for p in self.classic.supported_protocols) if self.classic is not None else frozenset()

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether it holds what the target of that epoch gives it."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """Move on to an epoch, and remember the one before."""
        return replace(self, member_epoch=epoch, previous_member_epoch=self.member_epoch)
