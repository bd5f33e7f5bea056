"""A DeleteRecords request that waits until every replica's log begins at the offset that was asked for.

With one replica nobody waits: the leader's own log start offset is the low watermark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tailrace.broker.partition import Partition
from tailrace.broker.purgatory import DelayedOperation
from tailrace.broker.request import Answer, Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_records import DeleteRecordsPartitionResult

INVALID_LOW_WATERMARK = -1


class PendingDeletion(NamedTuple):
    """A deletion the leader has done: where, what is answered about it, and the low watermark it waits for."""

    partition: Partition
    answer: DeleteRecordsPartitionResult
    required_offset: int


class DelayedDeleteRecords(DelayedOperation):
    """Waits for the low watermarks of its partitions."""

    __slots__ = ("_make_answer", "_pending", "parked")

    def __init__(self, timeout_ms: float, pending: list[PendingDeletion], make_answer: Callable[[], Answer]) -> None:
        super().__init__(timeout_ms)
        self._pending = pending
        self._make_answer = make_answer
        self.parked = Parked()

    @property
    def keys(self) -> list[Partition]:
        """The partitions whose low watermark decides."""
        return [entry.partition for entry in self._pending]

    def try_complete(self) -> bool:
        """Complete when no partition is undecided any more."""
        self._pending = [entry for entry in self._pending if not _is_decided(entry)]
        return False if self._pending else self.force_complete()

    def on_complete(self) -> None:
        """Answer; whatever is undecided now has timed out."""
        for entry in self._pending:
            entry.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.parked.complete(self._make_answer())

    def on_failure(self, error: Exception) -> None:
        """Pass on that deciding broke."""
        self.parked.fail(error)


def _is_decided(entry: PendingDeletion) -> bool:
    code = entry.partition.availability()
    if code:
        entry.answer.error_code = code
        entry.answer.low_watermark = INVALID_LOW_WATERMARK
        return True
    low_watermark = entry.partition.low_watermark()
    if low_watermark < entry.required_offset:
        return False
    entry.answer.error_code = ErrorCode.NONE
    entry.answer.low_watermark = low_watermark
    return True
