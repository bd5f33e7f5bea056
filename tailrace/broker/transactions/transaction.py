"""One transactional id as a pure state machine: an event comes in, effects go out.

    EMPTY ──add──► ONGOING ──end──► PREPARE_COMMIT | PREPARE_ABORT ──markers written──► COMPLETE_COMMIT | COMPLETE_ABORT
      ▲               ▲                                                                     │
      └──init─────────┴──add────────────────────────────────────────────────────────────────┘

A step makes the next metadata and asks for it to be written down; it holds from `stored()` on, and until then, or while
markers are being written, whoever comes is told CONCURRENT_TRANSACTIONS and tries again. That a decision is written
down before it is answered, and its markers after that, is all that a crash needs: `resume` goes on from PREPARE_*.

Two protocols meet here. In the old one a producer keeps its epoch from one transaction to the next. In the new one
(transaction.version 2, KIP-890) every end raises it, so that a delayed EndTxn can't decide the transaction after its
own. A transaction that takes too long, or whose producer was replaced, is aborted under a raised epoch in both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from tailrace.broker.transactions.effects import (
    Answer,
    CompleteLater,
    Effect,
    Forget,
    Persist,
    TakeProducerId,
    WriteMarkers,
)
from tailrace.broker.transactions.metadata import (
    EPOCH_BUMP_VERSION,
    EPOCH_EXHAUSTED,
    EPOCH_LAST,
    FINISHED,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    PREPARED,
    TransactionMetadata,
    TransactionStatus,
)
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition


class ProducerIdAndEpoch(NamedTuple):
    """Who a producer says it is."""

    producer_id: int
    producer_epoch: int


class _Waiting(NamedTuple):
    """The request that waits for what is being written down, and what it is told then."""

    reply: Any
    code: ErrorCode


class Transaction:
    """See the module's docstring. `metadata` is what holds; `_next` is being written down."""

    __slots__ = ("_is_writing", "_next", "_waiting", "metadata", "transactional_id")

    def __init__(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        self.transactional_id = transactional_id
        self.metadata = metadata
        self._next: TransactionMetadata | None = None
        self._is_writing = False
        self._waiting: _Waiting | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a step is under way: something is being written down, or markers are on their way."""
        return self._is_writing or self.metadata.status in PREPARED

    # Requests

    def init_producer_id(
        self,
        reply: Any,
        *,
        timeout_ms: int,
        now_ms: int,
        expected: ProducerIdAndEpoch | None = None,
        new_producer_id: int | None = None,
    ) -> list[Effect]:
        """Give a producer its id and an epoch that fences all before it; `expected` is what it had (KIP-360)."""
        present = self.metadata
        if self.is_pending:
            return [Answer(reply, ErrorCode.CONCURRENT_TRANSACTIONS)]
        if expected is not None and not self._may_go_on(expected):
            return [Answer(reply, ErrorCode.PRODUCER_FENCED)]
        if present.status is TransactionStatus.ONGOING:
            # Its producer is gone, or gives it up. The new one asks again until the abort is complete.
            return self._fence(_Waiting(reply, ErrorCode.CONCURRENT_TRANSACTIONS), now_ms, new_producer_id)
        ready = replace(
            present,
            previous_producer_id=present.producer_id,
            timeout_ms=timeout_ms,
            status=TransactionStatus.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIME,
            last_update_ms=now_ms,
        )
        if present.is_epoch_exhausted and (expected is None or expected.producer_epoch == present.producer_epoch):
            if new_producer_id is None:
                return [TakeProducerId()]
            last_epoch = NO_PRODUCER_EPOCH if expected is None else present.producer_epoch
            ready = replace(ready, producer_id=new_producer_id, producer_epoch=0, last_producer_epoch=last_epoch)
        elif expected is None:
            epoch = present.producer_epoch + 1
            ready = replace(ready, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
        elif present.producer_epoch in (NO_PRODUCER_EPOCH, expected.producer_epoch):
            epoch = present.producer_epoch + 1
            ready = replace(ready, producer_epoch=epoch, last_producer_epoch=present.producer_epoch)
        elif present.last_producer_epoch != expected.producer_epoch:
            return [Answer(reply, ErrorCode.PRODUCER_FENCED)]
        # else it has asked before and did not hear the answer: it gets the same one again.
        return self._write(ready, _Waiting(reply, ErrorCode.NONE))

    def _may_go_on(self, expected: ProducerIdAndEpoch) -> bool:
        """Whether a producer that names an id can be the present one; its epoch is looked at later."""
        present = self.metadata
        return (
            present.producer_epoch == NO_PRODUCER_EPOCH
            or expected.producer_id == present.producer_id
            or (expected.producer_id == present.previous_producer_id and expected.producer_epoch >= EPOCH_EXHAUSTED)
        )

    def add_partitions(
        self,
        reply: Any,
        *,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        client_version: int,
        now_ms: int,
    ) -> list[Effect]:
        """Let the transaction reach these partitions; the first ones begin it."""
        present = self.metadata
        if self.is_pending:
            return [Answer(reply, ErrorCode.CONCURRENT_TRANSACTIONS)]
        code = self._check_producer(producer)
        is_open = present.status is TransactionStatus.ONGOING
        if code or (is_open and partitions <= present.partitions):
            return [Answer(reply, code)]
        larger = replace(
            present,
            previous_producer_id=present.producer_id,
            status=TransactionStatus.ONGOING,
            partitions=present.partitions | partitions,
            start_ms=present.start_ms if is_open else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )
        return self._write(larger, _Waiting(reply, ErrorCode.NONE))

    def verify(self, producer: ProducerIdAndEpoch, partition: TopicPartition) -> ErrorCode:
        """Say whether the producer may write to a partition now: NONE, TRANSACTION_ABORTABLE where it was not added.

        A step under way does not matter: whoever appends next asks the log as well.
        """
        code = self._check_producer(producer)
        if code:
            return code
        if self.metadata.status in PREPARED:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.NONE if partition in self.metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE

    def _check_producer(self, producer: ProducerIdAndEpoch) -> ErrorCode:
        if producer.producer_id != self.metadata.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer.producer_epoch != self.metadata.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE

    def end(
        self,
        reply: Any,
        *,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        client_version: int,
        now_ms: int,
        new_producer_id: int | None = None,
    ) -> list[Effect]:
        """Commit or abort."""
        if client_version < EPOCH_BUMP_VERSION:
            code = self._check_end_with_kept_epoch(producer, is_commit=is_commit)
        else:
            code = self._check_end_with_raised_epoch(producer, is_commit=is_commit)
        if code is not None:
            present = self.metadata
            known = (present.producer_id, present.producer_epoch) if code is ErrorCode.NONE else ()
            return [Answer(reply, code, *known)]
        return self._prepare(
            _Waiting(reply, ErrorCode.NONE),
            is_commit=is_commit,
            raises_epoch=client_version >= EPOCH_BUMP_VERSION,
            new_producer_id=new_producer_id,
            now_ms=now_ms,
        )

    def _check_end_with_kept_epoch(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> ErrorCode | None:
        """Say what an EndTxn of the old protocol is told at once; None where it decides."""
        code = self._check_producer(producer)
        if code:
            return code
        if self.is_pending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        status = self.metadata.status
        if status is TransactionStatus.ONGOING:
            return None
        # The same decision again is a repetition whose answer was lost. That it might as well be meant for a later
        # transaction is the flaw of the old protocol.
        return ErrorCode.NONE if status is _complete(is_commit) else ErrorCode.INVALID_TXN_STATE

    def _check_end_with_raised_epoch(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> ErrorCode | None:
        """Say what an EndTxn of the new protocol is told at once; None where it decides.

        The epoch tells a repetition (one below the present, or the last one of the previous producer id) from the
        decision of the present transaction. A transaction without any partition can be aborted, not committed.
        """
        present = self.metadata
        if self.is_pending:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        follows_overflow = producer == (present.previous_producer_id, EPOCH_EXHAUSTED) and present.producer_epoch == 0
        if producer.producer_id != present.producer_id and not follows_overflow:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        is_finished = present.status in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)
        is_repeated = follows_overflow or producer.producer_epoch + 1 == present.producer_epoch
        if producer.producer_epoch != present.producer_epoch and not (is_finished and is_repeated):
            return ErrorCode.PRODUCER_FENCED
        if present.status is TransactionStatus.ONGOING:
            return None
        if is_repeated:
            return ErrorCode.NONE if present.status is _complete(is_commit) else ErrorCode.INVALID_TXN_STATE
        return ErrorCode.INVALID_TXN_STATE if is_commit else None

    # Time

    def time_out(self, now_ms: int, new_producer_id: int | None = None) -> list[Effect]:
        """Abort a transaction that is open for longer than its producer said; its epoch is raised."""
        present = self.metadata
        if (
            self.is_pending
            or present.status is not TransactionStatus.ONGOING
            or present.start_ms + present.timeout_ms >= now_ms
        ):
            return []
        return self._fence(None, now_ms, new_producer_id)

    def expire(self, now_ms: int, expiration_ms: int) -> list[Effect]:
        """Forget an id that nobody has used for so long."""
        present = self.metadata
        if self.is_pending or present.status not in FINISHED or present.last_update_ms > now_ms - expiration_ms:
            return []
        self._is_writing = True
        return [Persist(None)]

    # Steps

    def _fence(self, waiting: _Waiting | None, now_ms: int, new_producer_id: int | None) -> list[Effect]:
        """Abort under a raised epoch, so that whoever is still writing is refused from the marker on."""
        return self._prepare(
            waiting, is_commit=False, raises_epoch=True, new_producer_id=new_producer_id, now_ms=now_ms
        )

    def _prepare(
        self,
        waiting: _Waiting | None,
        *,
        is_commit: bool,
        raises_epoch: bool,
        new_producer_id: int | None,
        now_ms: int,
    ) -> list[Effect]:
        """Decide. Where the raised epoch is the last, the producer goes on with another id and epoch 0.

        Kafka gives a fenced producer no other id, and its epoch could overflow if that producer repeated its EndTxn.
        """
        present = self.metadata
        changes_id = raises_epoch and present.is_epoch_exhausted
        if changes_id and new_producer_id is None:
            return [TakeProducerId()]
        was_open = present.status is TransactionStatus.ONGOING
        prepared = replace(
            present,
            previous_producer_id=present.producer_id,
            next_producer_id=new_producer_id if changes_id and new_producer_id is not None else NO_PRODUCER_ID,
            producer_epoch=min(present.producer_epoch + 1, EPOCH_LAST) if raises_epoch else present.producer_epoch,
            last_producer_epoch=present.producer_epoch if raises_epoch else present.last_producer_epoch,
            status=TransactionStatus.PREPARE_COMMIT if is_commit else TransactionStatus.PREPARE_ABORT,
            start_ms=present.start_ms if was_open else now_ms,
            last_update_ms=now_ms,
            client_version=EPOCH_BUMP_VERSION if raises_epoch else 0,
        )
        return self._write(prepared, waiting)

    def _write(self, metadata: TransactionMetadata, waiting: _Waiting | None) -> list[Effect]:
        assert not self._is_writing, f"{self.transactional_id}: {self._next} is being written, now {metadata}"
        self._next = metadata
        self._is_writing = True
        self._waiting = waiting
        return [Persist(metadata)]

    # What became of it

    def stored(self) -> list[Effect]:
        """Go by what was to be written down: it is."""
        assert self._is_writing, f"{self.transactional_id}: nothing was being written"
        self._is_writing = False
        if self._next is None:
            return [Forget()]
        self.metadata, self._next = self._next, None
        present = self.metadata
        effects: list[Effect] = []
        if self._waiting is not None:
            producer_id, epoch = _as_completed(present)
            effects.append(_answer(self._waiting, self._waiting.code, producer_id, epoch))
            self._waiting = None
        if present.status in PREPARED:
            effects.append(self._markers())
        return effects

    def overdue(self, code: ErrorCode) -> list[Effect]:
        """Answer whoever waits: the writing takes too long. It may still succeed, and then counts."""
        waiting, self._waiting = self._waiting, None
        return [] if waiting is None else [_answer(waiting, code)]

    def refused(self, code: ErrorCode) -> list[Effect]:
        """Stay as it is: nothing was written down."""
        self._is_writing = False
        self._next = None
        effects = self.overdue(code)
        return [*effects, CompleteLater()] if self.metadata.status in PREPARED else effects

    def resume(self) -> list[Effect]:
        """Go on after loading: what was decided is told to the partitions, whether or not some were told before."""
        return [self._markers()] if self.metadata.status in PREPARED else []

    def markers_written(self, now_ms: int) -> list[Effect]:
        """Note that every partition knows."""
        present = self.metadata
        assert present.status in PREPARED, f"{self.transactional_id}: markers of {present}"
        producer_id, epoch = _as_completed(present)
        completed = replace(
            present,
            producer_id=producer_id,
            previous_producer_id=present.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=epoch,
            status=_complete(present.status is TransactionStatus.PREPARE_COMMIT),
            partitions=frozenset(),
            last_update_ms=now_ms,
        )
        return self._write(completed, None)

    def _markers(self) -> WriteMarkers:
        present = self.metadata
        return WriteMarkers(
            present.producer_id,
            present.producer_epoch,
            present.status is TransactionStatus.PREPARE_COMMIT,
            present.partitions,
        )


def _complete(is_commit: bool) -> TransactionStatus:
    return TransactionStatus.COMPLETE_COMMIT if is_commit else TransactionStatus.COMPLETE_ABORT


def _as_completed(metadata: TransactionMetadata) -> tuple[int, int]:
    """Give the id and epoch with which the producer goes on: a new id where its epochs are used up."""
    if metadata.bumps_epoch and metadata.next_producer_id != NO_PRODUCER_ID:
        return metadata.next_producer_id, 0
    return metadata.producer_id, metadata.producer_epoch


def _answer(
    waiting: _Waiting, code: ErrorCode, producer_id: int = NO_PRODUCER_ID, epoch: int = NO_PRODUCER_EPOCH
) -> Answer:
    return Answer(waiting.reply, code) if code else Answer(waiting.reply, code, producer_id, epoch)
