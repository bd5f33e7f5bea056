"""What a transaction's state machine asks its coordinator to do.

The machine is given an event and returns effects, in the order in which they have to happen. It knows no clock, log or
task: what has to be written down is a `Persist`, whose outcome comes back as an event, and so do the markers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from tailrace.broker.transactions.metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TransactionMetadata
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell the request that `reply` stands for; the machine looks at `reply` no further."""

    reply: Any
    code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class Persist:
    """Write this down, None for a tombstone, and report `stored()`, `overdue(code)` or `refused(code)`."""

    metadata: TransactionMetadata | None


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Write the end of the transaction to these partitions, however long it takes, and report `markers_written()`."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class TakeProducerId:
    """Take a producer id that nobody had, and put the same event again with it: nothing has changed yet."""


@dataclass(frozen=True, slots=True)
class CompleteLater:
    """The end of a transaction could not be written down: report `markers_written()` again in a while."""


@dataclass(frozen=True, slots=True)
class Forget:
    """The transactional id has expired: keep nothing of it."""


Effect: TypeAlias = Answer | Persist | WriteMarkers | TakeProducerId | CompleteLater | Forget
