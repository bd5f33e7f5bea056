"""A member of a classic group, and what it is waiting for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tailrace.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember


@dataclass(slots=True)
class ClassicMember:
    """One member: what it told of itself, its assignment, and the requests of its that wait for an answer.

    `protocols` are in the member's order of preference. `joining` and `syncing` are the replies of a parked JoinGroup
    and SyncGroup, None while there is none. `is_new` holds until its first rebalance ends.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: list[JoinGroupRequestProtocol]
    assignment: bytes = b""
    joining: Any = None
    syncing: Any = None
    is_new: bool = False
    protocol_names: tuple[str, ...] = field(init=False)
    """The names of its protocols, the preferred one first."""
    supported: frozenset[str] = field(init=False)
    """The same without their order. Kept, because each join looks at those of every member."""

    def __post_init__(self) -> None:
        """Note the names of the protocols."""
        self.change_protocols(self.protocols)

    def change_protocols(self, protocols: list[JoinGroupRequestProtocol]) -> None:
        """Take other protocols."""
        self.protocols = protocols
        self.protocol_names = tuple(protocol.name for protocol in protocols)
        self.supported = frozenset(self.protocol_names)

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its place through restarts (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for us and so cannot send heartbeats: its session may not expire meanwhile.

        A new member is not spared: its session is long enough for a rebalance, and its client may be gone for good.
        """
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Give the metadata it sent for a protocol; empty where it does not support that one."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """Choose the first of its protocols that every member supports."""
        return next(name for name in self.protocol_names if name in candidates)

    def as_joined(self, protocol_name: str | None) -> JoinGroupResponseMember:
        """Describe the member to the leader, who assigns."""
        return JoinGroupResponseMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            metadata=self.metadata(protocol_name),
        )
