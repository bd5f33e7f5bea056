"""What a group is to an administrator: its listing, its description, its members."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tailrace.client.metadata import Node
from tailrace.protocol.topic_partition import TopicPartition


class GroupState(StrEnum):
    """Where a group is between two assignments; a consumer group has the states in the second half, too."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"

    @classmethod
    def parse(cls, text: str) -> GroupState:
        """Read a broker's word, or a person's; what is not known is UNKNOWN."""
        return next((state for state in cls if state.lower() == text.lower()), cls.UNKNOWN)


class GroupType(StrEnum):
    """The protocol of a group's members."""

    UNKNOWN = "Unknown"
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"

    @classmethod
    def parse(cls, text: str) -> GroupType:
        """Read a broker's word, or a person's; what is not known is UNKNOWN."""
        return next((kind for kind in cls if kind.lower() == text.lower()), cls.UNKNOWN)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as brokers list it; older ones tell neither state nor type."""

    group_id: str
    protocol_type: str
    state: GroupState
    group_type: GroupType

    @property
    def is_consumer_group(self) -> bool:
        """Whether consumers are in it, or offsets are all it has."""
        return self.group_type is GroupType.CONSUMER or self.protocol_type in ("consumer", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group, with what it reads.

    `target_assignment` and `epoch` are a consumer group's: what the member is to read when others have let it go.
    `assignment_bytes` are a classic member's assignment as its leader wrote it.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    subscribed_topics: tuple[str, ...]
    subscribed_pattern: str | None
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    is_classic: bool | None = None
    assignment_bytes: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members; the epochs are a consumer group's."""

    group_id: str
    group_type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    coordinator: Node
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None
