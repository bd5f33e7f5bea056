"""What a log knows of one producer, and whether the producer's next batch may be appended.

Pure: no disk, no clock. `ProducerStateEntry` is the state of one producer id: its epoch, the last five batches, the
open transaction. `ProducerAppendInfo` takes the batches of one append, checks each against the state and collects
what changes, so that a refused append leaves no trace. `producer_state_manager` has all producers of a log.

    the batch's epoch is     the batch's first sequence must be
    below the known epoch    refused: INVALID_PRODUCER_EPOCH (checked before the sequence)
    equal to it              one after the last sequence, 0 after 2^31-1; 0 where the epoch has no batch yet
    above it                 0
    of an unknown producer   anything: the producer's earlier batches may have been deleted by retention
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.storage.append_origin import AppendOrigin

BATCHES_KEPT = 5
"""A producer has at most five requests in flight (max.in.flight.requests.per.connection), so may repeat any of five."""
SEQUENCE_MAX = 2**31 - 1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1


@dataclass(slots=True)
class BatchMetadata:
    """A batch that was appended: enough to recognise its repetition and to answer it. Nobody changes it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence number of the batch's first record; sequences go round from 2^31-1 to 0."""
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        """The offset of the batch's first record."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True)
class TransactionMetadata:
    """A transaction in a log: open while `last_offset` is None, else the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int | None = None


@dataclass(slots=True)
class CompletedTransaction:
    """What a marker ended: the transaction's first offset and the marker's own. Nobody changes it."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerStateEntry:
    """The state of one producer id in one log."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_transaction_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        current_transaction_first_offset: int | None = None,
        batch: BatchMetadata | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_transaction_first_offset = current_transaction_first_offset
        self.batches: list[BatchMetadata] = [] if batch is None else [batch]

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 where no batch of this epoch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the last record, -1 where no batch of this epoch is known."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        """The last batch's last offset less its first; 0 where no batch of this epoch is known."""
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, *, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Give the batch among the last five that these sequences repeat exactly; its offsets are the answer."""
        if epoch != self.producer_epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None

    def change_epoch(self, epoch: int) -> None:
        """Go on with another epoch: sequences begin anew, so batches of the old one are forgotten."""
        if epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = epoch

    def add_batch(self, batch: BatchMetadata) -> None:
        """Remember a batch, forgetting the oldest of five."""
        if len(self.batches) == BATCHES_KEPT:
            del self.batches[0]
        self.batches.append(batch)

    def update(self, later: ProducerStateEntry) -> None:
        """Take over what an append collected in `later`."""
        self.change_epoch(later.producer_epoch)
        for batch in later.batches:
            self.add_batch(batch)
        self.coordinator_epoch = later.coordinator_epoch
        self.last_timestamp = later.last_timestamp
        self.current_transaction_first_offset = later.current_transaction_first_offset

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in sorted(self.__slots__))
        return f"ProducerStateEntry({values})"


class ProducerAppendInfo:
    """The batches of one producer in one append: checked against `current`, collected in `updated`.

    Raises `ApiError` and is then thrown away. `log_name` and the values of the batch go into the messages.
    """

    __slots__ = ("current", "log_name", "origin", "started_transactions", "updated")

    def __init__(self, log_name: object, current: ProducerStateEntry, origin: AppendOrigin) -> None:
        self.log_name = log_name
        self.current = current
        self.origin = origin
        self.started_transactions: list[TransactionMetadata] = []
        self.updated = ProducerStateEntry(
            current.producer_id,
            current.producer_epoch,
            current.coordinator_epoch,
            current.last_timestamp,
            current.current_transaction_first_offset,
        )

    @property
    def producer_id(self) -> int:
        """The producer whose batches these are."""
        return self.current.producer_id

    def append_data_batch(
        self,
        *,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        first_offset: int,
        last_offset: int,
        last_timestamp: int,
        is_transactional: bool,
    ) -> None:
        """Check a batch of records and remember it."""
        updated = self.updated
        if epoch < updated.producer_epoch:
            self._refuse_old_epoch(epoch, first_offset)
        if self.origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, first_sequence, first_offset)
        updated.change_epoch(epoch)
        updated.add_batch(BatchMetadata(last_sequence, last_offset, last_offset - first_offset, last_timestamp))
        updated.last_timestamp = last_timestamp
        if updated.current_transaction_first_offset is not None:
            if not is_transactional:
                raise ApiError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"{self._who()} has a transaction open since offset {updated.current_transaction_first_offset}, "
                    f"but the batch at offset {first_offset} is not part of one",
                )
        elif is_transactional:
            updated.current_transaction_first_offset = first_offset
            self.started_transactions.append(TransactionMetadata(self.producer_id, first_offset))

    def append_end_marker(
        self, *, epoch: int, coordinator_epoch: int, is_aborted: bool, offset: int, timestamp: int
    ) -> CompletedTransaction | None:
        """Check a commit or abort marker and remember it; None where this log has no open transaction of the producer.

        That is no error: the coordinator may write a marker twice, or to a partition that got no records.
        """
        updated = self.updated
        if epoch < updated.producer_epoch:
            self._refuse_old_epoch(epoch, offset)
        if coordinator_epoch < updated.coordinator_epoch and self.origin is not AppendOrigin.REPLICATION:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"{self._who()}: the marker at offset {offset} is of coordinator epoch {coordinator_epoch}, "
                f"but {updated.coordinator_epoch} has written here",
            )
        first_offset = updated.current_transaction_first_offset
        updated.change_epoch(epoch)
        updated.current_transaction_first_offset = None
        updated.coordinator_epoch = coordinator_epoch
        updated.last_timestamp = timestamp
        if first_offset is None:
            return None
        return CompletedTransaction(self.producer_id, first_offset, offset, is_aborted)

    def _check_sequence(self, epoch: int, first_sequence: int, offset: int) -> None:
        updated = self.updated
        if epoch != updated.producer_epoch:
            if first_sequence != 0 and updated.producer_epoch != NO_PRODUCER_EPOCH:
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"{self._who()}: sequence {first_sequence} at offset {offset} begins epoch {epoch}, "
                    f"which must begin with 0; the epoch so far was {updated.producer_epoch}",
                )
            return
        if updated.batches:
            last_sequence = updated.batches[-1].last_sequence
        elif epoch == self.current.producer_epoch:
            last_sequence = self.current.last_sequence
        else:
            last_sequence = NO_SEQUENCE
        expected = (last_sequence + 1) & SEQUENCE_MAX
        if first_sequence != expected and self.current.producer_epoch != NO_PRODUCER_EPOCH:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"{self._who()}: sequence {first_sequence} at offset {offset} does not follow {last_sequence} "
                f"of epoch {epoch}",
            )

    def _refuse_old_epoch(self, epoch: int, offset: int) -> None:
        """Raise, unless the leader has accepted the batch already and this is its follower."""
        if self.origin is not AppendOrigin.REPLICATION:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"{self._who()}: epoch {epoch} at offset {offset} is older than {self.updated.producer_epoch}",
            )

    def _who(self) -> str:
        return f"producer {self.producer_id} in {self.log_name}"
