"""What a log ought to hold: a list of batches, and everything else worked out from it the slow, plain way."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from tailrace.protocol.records.batch_header import BatchHeader, iterate_batch_headers
from tailrace.protocol.records.control import ControlType, read_control_batch


@dataclass(slots=True)
class ModelBatch:
    header: BatchHeader
    data: bytes

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        return self.header.last_offset


@dataclass(slots=True)
class Aborted:
    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class LogModel:
    """Every batch since the log began, those below the log start offset included, and what follows from them."""

    log_start_offset: int = 0
    log_end_offset: int = 0
    batches: list[ModelBatch] = field(default_factory=list[ModelBatch])
    open_transactions: dict[int, int] = field(default_factory=dict[int, int])
    aborted: list[Aborted] = field(default_factory=list[Aborted])

    @classmethod
    def of(cls, data: bytes, *, log_start_offset: int, log_end_offset: int) -> LogModel:
        """Make the model of what a log holds."""
        model = cls(log_start_offset)
        model.append(data)
        model.log_end_offset = log_end_offset
        return model

    def append(self, data: bytes) -> None:
        for position, header in iterate_batch_headers(data):
            batch = ModelBatch(header, data[position : position + header.size])
            self.batches.append(batch)
            self._note_transaction(batch)
            self.log_end_offset = header.next_offset

    def _note_transaction(self, batch: ModelBatch) -> None:
        header = batch.header
        if header.is_control:
            marker = read_control_batch(batch.data, 0, header)
            first = self.open_transactions.pop(header.producer_id, None)
            if marker is not None and marker.control_type is ControlType.ABORT and first is not None:
                self.aborted.append(Aborted(header.producer_id, first, header.base_offset))
        elif header.is_transactional:
            self.open_transactions.setdefault(header.producer_id, header.base_offset)

    def slot(self, offset: int) -> int:
        """Give the slot of the batch that holds `offset`, or of the next one."""
        return bisect_left(self.batches, offset, key=lambda batch: batch.last_offset)

    def truncate_to(self, offset: int, *, first_base_offset: int) -> None:
        """Remove the batch that holds `offset` and all behind it; the first segment begins at `first_base_offset`."""
        if offset >= self.log_end_offset:
            return
        kept = self.batches[: self.slot(offset)]
        is_empty = not kept or kept[-1].base_offset < first_base_offset
        end = min(first_base_offset, offset) if is_empty else kept[-1].header.next_offset
        self.log_start_offset = min(self.log_start_offset, end)
        self.batches, self.open_transactions, self.aborted = [], {}, []
        for batch in kept:
            self.batches.append(batch)
            self._note_transaction(batch)
        self.log_end_offset = end

    def bytes_from(self, offset: int, upper_offset: int) -> bytes:
        """Give what a fetch may give: whole batches from the one that holds `offset`, all below `upper_offset`."""
        parts: list[bytes] = []
        for slot in range(self.slot(offset), len(self.batches)):
            if self.batches[slot].last_offset >= upper_offset:
                break
            parts.append(self.batches[slot].data)
        return b"".join(parts)

    def epochs(self) -> list[tuple[int, int]]:
        """Give the leader epochs of the records from the log start offset on, and where each begins."""
        found: list[tuple[int, int]] = []
        for slot in range(self.slot(self.log_start_offset), len(self.batches)):
            header = self.batches[slot].header
            if not found or found[-1][0] != header.partition_leader_epoch:
                found.append((header.partition_leader_epoch, max(header.base_offset, self.log_start_offset)))
        return found

    def aborted_between(self, first_offset: int, upper_offset: int) -> list[Aborted]:
        """Give the aborted transactions that overlap the range."""
        return [
            aborted
            for aborted in self.aborted
            if aborted.last_offset >= first_offset and aborted.first_offset < upper_offset
        ]

    def last_batches(self) -> dict[int, ModelBatch]:
        """Give the last data batch of each producer."""
        return {
            batch.header.producer_id: batch
            for batch in self.batches
            if batch.header.has_producer_id and not batch.header.is_control
        }
