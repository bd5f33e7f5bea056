"""A produce request that waits: acks=all for the in-sync replicas, or any acks for a group commit that is due.

It is complete when each of its partitions has an answer: its records are acknowledged, or an error says they can't be.
Partitions that have none when the time is over are answered REQUEST_TIMED_OUT; their records stay in the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tailrace.broker.partition import Partition
from tailrace.broker.purgatory import DelayedOperation
from tailrace.broker.request import Answer, CloseConnection, Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.produce import PartitionProduceResponse


class PendingAck(NamedTuple):
    """Records that were appended: where, what is answered about them, and the offset behind the last of them."""

    partition: Partition
    answer: PartitionProduceResponse
    required_offset: int


class DelayedProduce(DelayedOperation):
    """Waits until every append in `pending` is acknowledged; then `make_answer` is told whether any of them failed."""

    __slots__ = ("_acks", "_has_errors", "_make_answer", "_pending", "parked")

    def __init__(
        self, timeout_ms: float, *, acks: int, pending: list[PendingAck], make_answer: Callable[[bool], Answer]
    ) -> None:
        super().__init__(timeout_ms)
        self._acks = acks
        self._pending = pending
        self._has_errors = False
        self._make_answer = make_answer
        self.parked = Parked()

    @property
    def keys(self) -> list[Partition]:
        """The partitions whose high watermark decides."""
        return [entry.partition for entry in self._pending]

    def try_complete(self) -> bool:
        """Complete when no partition is undecided any more."""
        undecided: list[PendingAck] = []
        for entry in self._pending:
            code = entry.partition.acknowledgement(entry.required_offset, self._acks)
            if code is None:
                undecided.append(entry)
            elif code:
                self._fail(entry, code)
        self._pending = undecided
        return False if undecided else self.force_complete()

    def on_complete(self) -> None:
        """Answer; whatever is undecided now has timed out."""
        for entry in self._pending:
            self._fail(entry, ErrorCode.REQUEST_TIMED_OUT)
        try:
            response = self._make_answer(self._has_errors)
        except CloseConnection as error:
            self.parked.fail(error)
        else:
            self.parked.complete(response)

    def on_failure(self, error: Exception) -> None:
        """Pass on that deciding broke."""
        self.parked.fail(error)

    def _fail(self, entry: PendingAck, code: ErrorCode) -> None:
        entry.answer.error_code = code
        self._has_errors = True
