"""What a transaction is to an administrator: to its coordinator, and to the partitions that it wrote to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tailrace.protocol.topic_partition import TopicPartition


class TransactionState(StrEnum):
    """Where a transactional id is; after an Ongoing transaction comes a Prepare, then its Complete."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"

    @property
    def is_open(self) -> bool:
        """Whether a transaction is under way, be it only that its end is told to the partitions."""
        return self in _OPEN

    @classmethod
    def parse(cls, text: str) -> TransactionState:
        """Read a broker's word; what is not known is UNKNOWN."""
        return next((state for state in cls if state.lower() == text.lower()), cls.UNKNOWN)


_OPEN = frozenset(
    {
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    }
)


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id with what its open transaction has written to.

    `start_time_ms` is of the last transaction, open or not; None where there was none.
    """

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: TransactionState
    timeout_ms: int
    start_time_ms: int | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProducer:
    """A producer as a partition remembers it; `transaction_start_offset` is None where it has none open there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that a partition waits for, and that no coordinator will end."""

    topic_partition: TopicPartition
    producer: PartitionProducer
