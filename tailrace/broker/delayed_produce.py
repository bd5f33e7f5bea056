"""A produce request that waits: acks=all for the in-sync replicas, or any acks for a group commit that is due.

It is complete when each of its partitions has an answer: its records are acknowledged, or an error says they can't be.
Partitions that have none when the time is over are answered REQUEST_TIMED_OUT; their records stay in the log.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

from tailrace.broker.partition import Partition
from tailrace.broker.purgatory import DelayedOperation
from tailrace.broker.request import Answer, CloseConnection, Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.produce import PartitionProduceResponse

PendingAck: TypeAlias = tuple[Partition, PartitionProduceResponse, int]
"""Records that were appended: where, what is answered about them, and the offset behind the last of them."""

_partition_of = operator.itemgetter(0)


class DelayedProduce(DelayedOperation, ABC):
    """Waits until every append in `pending` is acknowledged.

    A subclass says how the answer is made. Tried at once, the request may be complete before anybody made a `Parked`
    for it; then the handler answers, else `parked` gets the answer.
    """

    __slots__ = ("acks", "has_errors", "parked", "pending")

    def __init__(self, timeout_ms: float, acks: int) -> None:
        super().__init__(timeout_ms)
        self.acks = acks
        self.pending: list[PendingAck] = []
        self.has_errors = False
        self.parked: Parked | None = None

    @abstractmethod
    def make_answer(self) -> Answer:
        """Make the answer, now that every partition is decided; may raise CloseConnection."""

    @property
    def keys(self) -> Iterator[Partition]:
        """The partitions whose high watermark decides; nothing is made of them unless somebody has to wait."""
        return map(_partition_of, self.pending)

    def try_complete(self) -> bool:
        """Complete when no partition is undecided any more."""
        undecided: list[PendingAck] = []
        for entry in self.pending:
            partition, answer, required_offset = entry
            code = partition.acknowledgement(required_offset, self.acks)
            if code is None:
                undecided.append(entry)
            elif code:
                answer.error_code = code
                self.has_errors = True
        self.pending = undecided
        return False if undecided else self.force_complete()

    def on_complete(self) -> None:
        """Answer; whatever is undecided now has timed out."""
        for _, answer, _ in self.pending:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
            self.has_errors = True
        if self.parked is None:
            return
        try:
            response = self.make_answer()
        except CloseConnection as error:
            self.parked.fail(error)
        else:
            self.parked.complete(response)

    def on_failure(self, error: Exception) -> None:
        """Pass on that deciding broke."""
        if self.parked is not None:
            self.parked.fail(error)
