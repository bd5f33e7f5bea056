"""What a consumer reads, and where it is in each partition.

Pure: no request is sent here. A partition that was assigned goes through these phases:

    STARTING     no position: the group's committed offset is asked for, or the reset policy decides
    RESETTING    the offset that `reset` means is asked for
    VALIDATING   the leader changed: is what was read still what it has? (KIP-320)
    FETCHING     there is a position

A partition that is assigned anew has a new state, and a position that was moved (seek, reset, truncation) a new
`generation`: an answer that belongs to another state or generation is stale, and dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from tailrace.client.errors import InvalidState
from tailrace.protocol.topic_partition import TopicPartition

NO_EPOCH: Final = -1
NO_NODE: Final = -1


class Phase(Enum):
    """What a partition waits for."""

    STARTING = auto()
    RESETTING = auto()
    VALIDATING = auto()
    FETCHING = auto()


class SubscriptionKind(Enum):
    """How partitions come to a consumer."""

    NONE = auto()
    ASSIGNED = auto()
    TOPICS = auto()
    PATTERN = auto()
    SERVER_PATTERN = auto()


@dataclass(slots=True, eq=False)
class PartitionState:
    """Where a consumer is in one partition. `position` is handed out next, `fetch_offset` is fetched next."""

    topic_partition: TopicPartition
    phase: Phase = Phase.STARTING
    generation: int = 0
    position: int = -1
    position_epoch: int = NO_EPOCH
    """The leader epoch of the last record before the position."""
    leader_epoch: int = NO_EPOCH
    """The epoch of the leader that the position was validated with."""
    fetch_offset: int = -1
    buffered_count: int = 0
    """Answers that wait to be handed out."""
    reset_timestamp: int = -1
    is_paused: bool = False
    is_revoked: bool = False
    """The partition is on its way to another member: nothing more of it is handed out."""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    preferred_replica: int = NO_NODE
    preferred_until: float = 0.0
    attempts: int = 0
    not_before: float = 0.0

    @property
    def is_fetchable(self) -> bool:
        """Whether records can be fetched and handed out."""
        return self.phase is Phase.FETCHING and not self.is_paused and not self.is_revoked

    @property
    def has_position(self) -> bool:
        """Whether it is known what comes next, be it validated or not."""
        return self.phase in (Phase.FETCHING, Phase.VALIDATING)

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        """Go on at an offset."""
        self._move()
        self.position = self.fetch_offset = offset
        self.position_epoch = epoch
        self.leader_epoch = NO_EPOCH
        self.phase = Phase.FETCHING

    def reset(self, timestamp: int) -> None:
        """Have the position looked for: EARLIEST, LATEST, or a timestamp."""
        self._move()
        self.position = self.fetch_offset = -1
        self.reset_timestamp = timestamp
        self.phase = Phase.RESETTING

    def learn_leader_epoch(self, epoch: int) -> bool:
        """Take notice of the leader's epoch; say whether it is a later one, and the position has to be validated."""
        if epoch <= self.leader_epoch or self.phase is not Phase.FETCHING:
            return False
        if self.position_epoch < 0 or self.position_epoch == epoch:
            self.leader_epoch = epoch
            return False
        self.phase = Phase.VALIDATING
        return True

    def validated(self, epoch: int) -> None:
        """Go on: the leader of this epoch has what was read."""
        self.leader_epoch = epoch
        self.phase = Phase.FETCHING
        self.attempts, self.not_before = 0, 0.0

    def advance(self, position: int, epoch: int) -> None:
        """Take notice of what was handed out."""
        self.position = position
        if epoch >= 0:
            self.position_epoch = epoch

    def lag(self, *, is_committed: bool) -> int | None:
        """Say how many offsets are left to the end that readers see, as the last fetch told it."""
        end = self.last_stable_offset if is_committed else self.high_watermark
        return None if end < 0 or not self.has_position else max(0, end - self.position)

    def lead(self) -> int | None:
        """Say how many offsets lie between the log's start and the position."""
        known = self.log_start_offset >= 0 and self.has_position
        return self.position - self.log_start_offset if known else None

    def read_replica(self, now: float) -> int:
        """Give the replica that the leader said to read from, as long as that holds."""
        if self.preferred_replica >= 0 and now > self.preferred_until:
            self.preferred_replica = NO_NODE
        return self.preferred_replica

    def back_off(self, now: float, pause_ms: float, pause_ms_max: float) -> None:
        """Leave the partition alone for a while, which doubles."""
        self.not_before = now + min(pause_ms * 2 ** min(self.attempts, 20), pause_ms_max) / 1000
        self.attempts += 1

    def _move(self) -> None:
        self.generation += 1
        self.buffered_count = 0
        self.attempts, self.not_before = 0, 0.0
        self.preferred_replica = NO_NODE


@dataclass(slots=True)
class SubscriptionState:
    """What is subscribed to or assigned, with the state of each partition."""

    kind: SubscriptionKind = SubscriptionKind.NONE
    topics: frozenset[str] = frozenset()
    """The topics subscribed to: those that were named, or those that the pattern has now."""
    pattern: re.Pattern[str] | None = None
    server_pattern: str | None = None
    partitions: dict[TopicPartition, PartitionState] = field(default_factory=dict[TopicPartition, PartitionState])

    @property
    def uses_group(self) -> bool:
        """Whether the group assigns the partitions."""
        return self.kind not in (SubscriptionKind.NONE, SubscriptionKind.ASSIGNED)

    def subscribe(
        self,
        kind: SubscriptionKind,
        *,
        topics: Iterable[str] = (),
        pattern: re.Pattern[str] | None = None,
        server_pattern: str | None = None,
    ) -> None:
        """Have the group assign partitions; those that it assigned stay until it assigns others."""
        self._check_kind(SubscriptionKind.ASSIGNED, "subscribe to topics after assign")
        self.kind, self.pattern, self.server_pattern = kind, pattern, server_pattern
        self.topics = frozenset(topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's help."""
        if self.uses_group:
            raise InvalidState("assign after subscribe: unsubscribe first")
        self.kind = SubscriptionKind.ASSIGNED
        self.take_assignment(partitions)

    def take_assignment(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others; those that are read already go on where they are."""
        known = self.partitions
        self.partitions = {key: known.get(key) or PartitionState(key) for key in partitions}

    def unsubscribe(self) -> None:
        """Read nothing."""
        self.kind, self.topics, self.pattern, self.server_pattern = SubscriptionKind.NONE, frozenset(), None, None
        self.partitions = {}

    def is_current(self, state: PartitionState, generation: int) -> bool:
        """Whether what was asked for then is still wanted."""
        return self.partitions.get(state.topic_partition) is state and state.generation == generation

    def state_of(self, topic_partition: TopicPartition) -> PartitionState:
        """Give the state of a partition; InvalidState where it is not assigned."""
        state = self.partitions.get(topic_partition)
        if state is None:
            raise InvalidState(f"partition {topic_partition} is not assigned to this consumer")
        return state

    def in_phase(self, phase: Phase, now: float) -> list[PartitionState]:
        """Give the partitions that wait for something, and may be asked about now."""
        return [state for state in self.partitions.values() if state.phase is phase and state.not_before <= now]

    def next_retry(self, now: float) -> float | None:
        """Say when the first partition that failed may be tried again."""
        return min((s.not_before for s in self.partitions.values() if s.not_before > now), default=None)

    def _check_kind(self, refused: SubscriptionKind, what: str) -> None:
        if self.kind is refused:
            raise InvalidState(f"{what}: unsubscribe first")
