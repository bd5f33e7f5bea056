"""Which batches of a log belong to aborted transactions, and which markers have nothing left to mark.

The cleaner tells it every batch in the order of offsets. Records of aborted transactions go at once; a marker stays
until a pass over the log meets no batch of its transaction any more, and then for `delete.retention.ms` on top. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tailrace.protocol.records.batch_header import BatchHeader
from tailrace.protocol.records.control import ControlType
from tailrace.storage.transaction_index import AbortedTransaction


class CleanedTransactions:
    """The transactions of a log during one pass over it."""

    __slots__ = ("_committed", "_ongoing", "_seen", "_waiting", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._ongoing: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        """Producers of whose aborted transaction a batch was met."""
        self._committed: set[int] = set()
        """Producers of whose transaction, which is not known to be aborted, a batch was met."""
        self.kept: list[AbortedTransaction] = []
        """Aborted transactions whose marker stays: the new segment's transaction index. The caller takes them."""

    def discards_data(self, header: BatchHeader) -> bool:
        """Whether the records of this batch were aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def discards_marker(self, header: BatchHeader, control_type: ControlType | None) -> bool:
        """Whether this control batch has nothing left to mark; it has no type where its record is gone already."""
        self._begin_up_to(header.last_offset)
        if control_type is None:
            return True
        producer_id = header.producer_id
        if control_type is ControlType.ABORT:
            aborted = self._ongoing.pop(producer_id, None)
            if aborted is None or producer_id not in self._seen:
                return True
            self._seen.discard(producer_id)
            self.kept.append(aborted)
            return False
        if control_type is ControlType.COMMIT:
            if producer_id not in self._committed:
                return True
            self._committed.discard(producer_id)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._waiting and self._waiting[0].first_offset <= offset:
            aborted = self._waiting.popleft()
            self._ongoing.setdefault(aborted.producer_id, aborted)
