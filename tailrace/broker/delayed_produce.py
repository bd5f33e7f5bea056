"""A produce request that waits: acks=all for the in-sync replicas, or any acks for a group commit that is due.

It is complete when each of its partitions has an answer: its records are acknowledged, or an error says they can't be.
Partitions that have none when the time is over are answered REQUEST_TIMED_OUT; their records stay in the log.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tailrace.broker.partition import Partition
from tailrace.broker.purgatory import DelayedOperation
from tailrace.broker.request import Answer, CloseConnection, Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.produce import PartitionProduceResponse


class PendingAck(NamedTuple):
    """Records that were appended: where, what is answered about them, and the offset behind the last of them.

    `high_watermark_moved` says whether the append itself moved it.
    """

    partition: Partition
    answer: PartitionProduceResponse
    required_offset: int
    high_watermark_moved: bool


_PARTITION_OF = operator.attrgetter("partition")


class DelayedProduce(DelayedOperation):
    """Waits until every append of a request is acknowledged.

    `make_answer` is called once, when all partitions are decided. Tried at once, it may be complete before anybody made
    a `Parked` for it; the handler then answers itself.
    """

    __slots__ = ("_acks", "_make_answer", "_pending", "parked")

    def __init__(
        self, timeout_ms: float, pending: list[PendingAck], acks: int, make_answer: Callable[[], Answer]
    ) -> None:
        super().__init__(timeout_ms)
        self._pending = pending
        self._acks = acks
        self._make_answer = make_answer
        self.parked: Parked | None = None

    @property
    def keys(self) -> Iterator[Partition]:
        """The partitions whose high watermark decides; nothing is made of them unless somebody has to wait."""
        return map(_PARTITION_OF, self._pending)

    def try_complete(self) -> bool:
        """Complete when no partition is undecided any more."""
        undecided: list[PendingAck] | None = None
        for entry in self._pending:
            partition, answer, required_offset, _ = entry
            code = partition.acknowledgement(required_offset, self._acks)
            if code is None:
                if undecided is None:
                    undecided = []
                undecided.append(entry)
            elif code:
                answer.error_code = code
        if undecided is not None:
            self._pending = undecided
            return False
        self._pending = []
        return self.force_complete()

    def on_complete(self) -> None:
        """Answer; whatever is undecided now has timed out."""
        for entry in self._pending:
            entry.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        if self.parked is None:
            return
        try:
            answer = self._make_answer()
        except CloseConnection as error:
            self.parked.fail(error)
        else:
            self.parked.complete(answer)

    def on_failure(self, error: Exception) -> None:
        """Pass on that deciding broke."""
        if self.parked is not None:
            self.parked.fail(error)
