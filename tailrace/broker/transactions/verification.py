"""May these records be appended? What a request with records of a transaction asks the coordinator (KIP-890).

A partition whose log has the transaction open already needs no question: nearly every batch. For the others a client of
transactions v2 has them added to the transaction by this very request (Produce v12+, TxnOffsetCommit v5+); an older one
has to have added them, and the coordinator is only asked whether it did.

    the coordinator says        the client is told
    PRODUCER_FENCED             INVALID_PRODUCER_EPOCH
    TRANSACTION_ABORTABLE       the same where it knows that code, else INVALID_TXN_STATE
    CONCURRENT_TRANSACTIONS     the same; a produce request tries again for a while before
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from tailrace.broker.transactions.metadata import EPOCH_BUMP_VERSION
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch
from tailrace.broker.transactions.transaction_coordinator import TransactionCoordinator
from tailrace.clock import Clock
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.broker_config import BrokerConfig
from tailrace.storage.log import Log


class Verification:
    """See the module's docstring; one for each request with records of a transaction.

    `adds` says that the request adds its partitions, `knows_abortable` which code its client knows.
    """

    __slots__ = (
        "_clock",
        "_config",
        "_coordinator",
        "_is_asked",
        "_knows_abortable",
        "_producer",
        "_transactional_id",
        "adds",
    )

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        *,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        adds: bool,
        knows_abortable: bool,
        config: BrokerConfig,
        clock: Clock,
    ) -> None:
        self.adds = adds
        self._coordinator = coordinator
        self._transactional_id = transactional_id
        self._producer = producer
        self._knows_abortable = knows_abortable
        self._is_asked = adds or config.transaction_partition_verification_enable
        self._config = config
        self._clock = clock

    def is_open_in(self, log: Log) -> bool:
        """Whether a log needs no question: it has the transaction open, or nobody is to be asked."""
        if not self._is_asked:
            return True
        entry = log.producer_state.active_producers.get(self._producer.producer_id)
        return (
            entry is not None
            and entry.producer_epoch == self._producer.producer_epoch
            and entry.current_transaction_first_offset is not None
        )

    def is_fenced_in(self, log: Log) -> bool:
        """Whether a log knows of a later epoch: then there is nothing to ask, whatever the transaction's state."""
        entry = log.producer_state.active_producers.get(self._producer.producer_id)
        return entry is not None and entry.producer_epoch > self._producer.producer_epoch

    def tried(self, partition: TopicPartition, sequence: int) -> None:
        """Note that a batch is about to begin the transaction in a partition."""
        self._coordinator.first_sequences.tried(partition, self._producer, sequence, must_be_zero=self.adds)

    def check_sequence(self, log: Log, sequence: int) -> None:
        """Raise where an earlier batch has to be appended first."""
        producer_id = self._producer.producer_id
        self._coordinator.first_sequences.check(
            log.topic_partition,
            producer_id,
            sequence,
            is_known_to_log=producer_id in log.producer_state.active_producers,
        )

    def appended(self, partition: TopicPartition) -> None:
        """Note that records were appended: the log knows from now on."""
        self._coordinator.first_sequences.appended(partition, self._producer.producer_id)

    def check(self, partition: TopicPartition) -> ErrorCode:
        """Say whether the partition belongs to the transaction now: NONE, or what the client is told."""
        code = self._coordinator.verify(self._transactional_id, producer=self._producer, partition=partition)
        return self._told(code)

    def add(
        self, partitions: Sequence[TopicPartition], *, is_patient: bool
    ) -> ErrorCode | Coroutine[Any, Any, ErrorCode]:
        """Add partitions to the transaction; a coroutine where that takes time.

        What was added has to have its `check` as well, right before the append. `is_patient` asks again for a while
        where the previous transaction is still being completed.
        """
        answer = self._ask(partitions)
        is_busy = is_patient and answer.done() and answer.result() is ErrorCode.CONCURRENT_TRANSACTIONS
        if answer.done() and not is_busy:
            return self._told(answer.result())
        return self._added(partitions, answer, is_patient=is_patient)

    async def _added(
        self, partitions: Sequence[TopicPartition], answer: asyncio.Future[ErrorCode], *, is_patient: bool
    ) -> ErrorCode:
        config, clock = self._config, self._clock
        patience_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
        give_up_at = clock.monotonic() + (patience_ms / 1000 if is_patient else 0)
        while True:
            code = await answer
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS or clock.monotonic() >= give_up_at:
                return self._told(code)
            await clock.sleep(config.add_partitions_to_txn_retry_backoff_ms)
            answer = self._ask(partitions)

    def _ask(self, partitions: Sequence[TopicPartition]) -> asyncio.Future[ErrorCode]:
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def reply(code: ErrorCode, producer_id: int, producer_epoch: int) -> None:
            del producer_id, producer_epoch
            if not answer.done():  # the connection may be gone, and its coroutine with it
                answer.set_result(code)

        self._coordinator.add_partitions(
            self._transactional_id,
            producer=self._producer,
            partitions=partitions,
            client_version=EPOCH_BUMP_VERSION,
            reply=reply,
        )
        return answer

    def _told(self, code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if code is ErrorCode.TRANSACTION_ABORTABLE and not self._knows_abortable:
            return ErrorCode.INVALID_TXN_STATE
        return code
