"""The transactional ids of one partition of `__transaction_state`, and the effects of their state machines performed.

Promises: what a machine wants written down is written before anything that follows from it happens. After a start, or
when the partition's leadership comes here, the decisions that are not told to every partition yet are told again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tailrace.broker.coordinator_log import CoordinatorLog
from tailrace.broker.transactions.effects import (
    Answer,
    CompleteLater,
    Effect,
    Forget,
    Persist,
    TakeProducerId,
    WriteMarkers,
)
from tailrace.broker.transactions.marker_append import Marker
from tailrace.broker.transactions.marker_writer import RETRY_BACKOFF_MS, MarkerWriter
from tailrace.broker.transactions.metadata import TransactionMetadata, TransactionStatus, metadata_of, record_of
from tailrace.broker.transactions.transaction import Transaction
from tailrace.clock import Clock
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.coordinator.transaction_log import TransactionLogKey, TransactionLogValue
from tailrace.protocol.error_codes import ErrorCode


class TransactionShard:
    """See the module's docstring. `open` are the transactions under way, for whoever looks after their timeouts."""

    def __init__(self, log: CoordinatorLog, *, markers: MarkerWriter, clock: Clock) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.open: dict[str, Transaction] = {}
        self._log = log
        self._markers = markers
        self._clock = clock
        self._is_resigned = False

    # Loading

    def replay(self, record: CoordinatorRecord, *, offset: int, producer_id: int) -> None:
        """Take up what was written down last of an id."""
        del offset, producer_id  # the order says enough, and no transaction writes here
        key, value = record
        assert isinstance(key, TransactionLogKey)
        transactional_id = key.transactional_id
        if value is None:
            self.transactions.pop(transactional_id, None)
            self.open.pop(transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        transaction = self.transactions[transactional_id] = Transaction(transactional_id, metadata_of(value))
        self._note(transaction)

    def replay_marker(self, *, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """Nothing in this topic belongs to a transaction itself."""

    def activate(self) -> None:
        """Tell the partitions what was decided before."""
        for transaction in list(self.transactions.values()):
            self.perform(transaction, transaction.resume())

    def resign(self) -> None:
        """Forget everything; those who waited have been answered by the log."""
        self._is_resigned = True
        self.transactions.clear()
        self.open.clear()

    # Performing

    def take_up(self, transactional_id: str, metadata: TransactionMetadata) -> Transaction:
        """Begin a transactional id that was not known."""
        transaction = self.transactions[transactional_id] = Transaction(transactional_id, metadata)
        return transaction

    def perform(self, transaction: Transaction, effects: Sequence[Effect]) -> None:
        """Do what the machine asks for, in its order."""
        for effect in effects:
            match effect:
                case Answer(reply, code, producer_id, producer_epoch):
                    reply(code, producer_id, producer_epoch)
                case Persist(metadata):
                    self._persist(transaction, metadata)
                case WriteMarkers():
                    self._write_markers(transaction, effect)
                case CompleteLater():
                    self._clock.call_later(RETRY_BACKOFF_MS, partial(self._markers_written, transaction))
                case Forget():
                    del self.transactions[transaction.transactional_id]
                case TakeProducerId():
                    raise AssertionError("whoever puts the event takes the producer id")

    def _persist(self, transaction: Transaction, metadata: TransactionMetadata | None) -> None:
        is_appending = True

        def failed(code: ErrorCode) -> None:
            if code:
                effects = transaction.refused(code) if is_appending else transaction.overdue(code)
                self.perform(transaction, effects)

        record = record_of(transaction.transactional_id, metadata)
        self._log.append([record], on_commit=partial(self._stored, transaction), on_done=failed)
        is_appending = False

    def _stored(self, transaction: Transaction) -> None:
        if not self._is_resigned:
            effects = transaction.stored()
            self._note(transaction)
            self.perform(transaction, effects)

    def _note(self, transaction: Transaction) -> None:
        if transaction.metadata.status is TransactionStatus.ONGOING:
            self.open[transaction.transactional_id] = transaction
        else:
            self.open.pop(transaction.transactional_id, None)

    def _write_markers(self, transaction: Transaction, effect: WriteMarkers) -> None:
        epoch = self._log.partition.leader_epoch
        marker = Marker(effect.producer_id, effect.producer_epoch, effect.is_commit, coordinator_epoch=epoch)
        self._markers.write(marker, effect.partitions, partial(self._markers_written, transaction))

    def _markers_written(self, transaction: Transaction) -> None:
        if not self._is_resigned:
            self.perform(transaction, transaction.markers_written(self._clock.time_ms()))
