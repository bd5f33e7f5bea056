"""The transaction coordinator: finds the state machine of a transactional id and puts events to it.

Answers go to a `Reply`, once for each request, within the call or later. What keeps an id from being served at all
(NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS) is a reply too. Two sweeps turn by the clock: transactions that take
longer than their producer said are aborted, and ids that nobody used for `transactional.id.expiration.ms` forgotten.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from tailrace.broker.coordinator_log import CoordinatorLog
from tailrace.broker.coordinator_topic import CoordinatorTopic
from tailrace.broker.producer_ids import ProducerIds
from tailrace.broker.replica_manager import ReplicaManager
from tailrace.broker.topic_names import TRANSACTION_STATE_TOPIC
from tailrace.broker.transactions.effects import Effect, TakeProducerId
from tailrace.broker.transactions.first_sequences import FirstSequences
from tailrace.broker.transactions.marker_append import OffsetPartitions
from tailrace.broker.transactions.marker_writer import MarkerWriter
from tailrace.broker.transactions.metadata import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionStatus,
)
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch, Transaction
from tailrace.broker.transactions.transaction_shard import TransactionShard
from tailrace.clock import TimerHandle
from tailrace.protocol.coordinator.record_codec import TRANSACTION_RECORDS
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition

EXPIRED_A_TURN = 500
"""How many ids the sweep looks at before it lets others run."""

Reply: TypeAlias = Callable[[ErrorCode, int, int], object]
"""Takes the code, and the producer id and epoch where there are any."""
Event: TypeAlias = Callable[[int | None], list[Effect]]
"""Puts an event to a machine, with a new producer id once it has asked for one."""


class TransactionCoordinator:
    """See the module's docstring."""

    def __init__(self, replica_manager: ReplicaManager, producer_ids: ProducerIds, offsets: OffsetPartitions) -> None:
        self._replicas = replica_manager
        self._clock = replica_manager.clock
        self._producer_ids = producer_ids
        self.offsets = offsets
        self._markers = MarkerWriter(replica_manager, offsets)
        self.first_sequences = FirstSequences()
        config = replica_manager.config
        self.topic: CoordinatorTopic[TransactionShard] = CoordinatorTopic(
            TRANSACTION_STATE_TOPIC,
            table=TRANSACTION_RECORDS,
            replica_manager=replica_manager,
            make_shard=self._make_shard,
            default_partitions=config.transaction_state_log_num_partitions,
            timeout_ms=config.request_timeout_ms,
        )
        self._abort_timer: TimerHandle | None = None
        self._expiry_timer: TimerHandle | None = None
        self._expiring: asyncio.Task[None] | None = None

    # Life

    def start(self) -> None:
        """Load what is coordinated here; call it when the replica manager has started."""
        self.topic.start()
        self._schedule_abort()
        self._schedule_expiry()

    async def stop(self) -> None:
        """Answer all who wait and let go; what is decided is told to the partitions by whoever starts next."""
        for timer in (self._abort_timer, self._expiry_timer):
            if timer is not None:
                timer.cancel()
        self._markers.stop()
        if self._expiring is not None:
            self._expiring.cancel()
            await asyncio.wait([self._expiring])
        await self.topic.stop()

    def _make_shard(self, log: CoordinatorLog) -> TransactionShard:
        return TransactionShard(log, markers=self._markers, clock=self._clock)

    # Requests

    def init_producer_id(
        self, transactional_id: str, *, timeout_ms: int, expected: ProducerIdAndEpoch | None, reply: Reply
    ) -> None:
        """Give a producer its id and epoch, and fence whoever used the transactional id before."""
        try:
            shard = self.topic.shard(transactional_id)
            transaction = shard.transactions.get(transactional_id)
            if transaction is None:
                metadata = TransactionMetadata(
                    producer_id=self._producer_ids.next_producer_id(),
                    timeout_ms=timeout_ms,
                    last_update_ms=self._clock.time_ms(),
                )
                transaction = shard.take_up(transactional_id, metadata)
        except ApiError as error:
            reply(error.code, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            return

        def event(new_producer_id: int | None) -> list[Effect]:
            return transaction.init_producer_id(
                reply,
                timeout_ms=timeout_ms,
                now_ms=self._clock.time_ms(),
                expected=expected,
                new_producer_id=new_producer_id,
            )

        self._put(shard, transaction, event, reply)

    def add_partitions(
        self,
        transactional_id: str,
        *,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_version: int,
        reply: Reply,
    ) -> None:
        """Let a transaction reach more partitions."""
        try:
            shard, transaction = self._find(transactional_id)
        except ApiError as error:
            reply(error.code, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            return
        effects = transaction.add_partitions(
            reply,
            producer=producer,
            partitions=frozenset(partitions),
            client_version=client_version,
            now_ms=self._clock.time_ms(),
        )
        shard.perform(transaction, effects)

    def verify(self, transactional_id: str, *, producer: ProducerIdAndEpoch, partition: TopicPartition) -> ErrorCode:
        """Say whether a producer may write to a partition now: NONE, or why not."""
        try:
            _, transaction = self._find(transactional_id)
        except ApiError as error:
            return error.code
        return transaction.verify(producer, partition)

    def end(
        self,
        transactional_id: str,
        *,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        client_version: int,
        reply: Reply,
    ) -> None:
        """Commit or abort."""
        try:
            shard, transaction = self._find(transactional_id)
        except ApiError as error:
            reply(error.code, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            return

        def event(new_producer_id: int | None) -> list[Effect]:
            return transaction.end(
                reply,
                producer=producer,
                is_commit=is_commit,
                client_version=client_version,
                now_ms=self._clock.time_ms(),
                new_producer_id=new_producer_id,
            )

        self._put(shard, transaction, event, reply)

    def _find(self, transactional_id: str) -> tuple[TransactionShard, Transaction]:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        shard = self.topic.shard(transactional_id)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"nobody has initialised {transactional_id!r}")
        return shard, transaction

    def _put(self, shard: TransactionShard, transaction: Transaction, event: Event, reply: Reply | None) -> None:
        """Put an event, taking a producer id for it where the machine needs one."""
        effects = event(None)
        if effects and isinstance(effects[0], TakeProducerId):
            try:
                producer_id = self._producer_ids.next_producer_id()
            except ApiError as error:
                if reply is not None:
                    reply(error.code, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
                return
            effects = event(producer_id)
        shard.perform(transaction, effects)

    # Looking

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """Give what holds of an id, or raise why nobody can say."""
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        transaction = self.topic.shard(transactional_id).transactions.get(transactional_id)
        if transaction is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return transaction.metadata

    def transactions(self) -> Iterator[Transaction]:
        """Give every transactional id that is coordinated here; COORDINATOR_LOAD_IN_PROGRESS while some are unknown."""
        if self.topic.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return (transaction for shard in self.topic.shards() for transaction in shard.transactions.values())

    def count_by_status(self) -> Counter[TransactionStatus]:
        """Count what is loaded, for the metrics."""
        shards = self.topic.shards()
        return Counter(transaction.metadata.status for shard in shards for transaction in shard.transactions.values())

    # Sweeps

    def _schedule_abort(self) -> None:
        interval_ms = self._replicas.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        self._abort_timer = self._clock.call_later(interval_ms, self._abort_overdue)

    def _abort_overdue(self) -> None:
        """Abort transactions that are open for too long."""
        self._schedule_abort()
        now_ms = self._clock.time_ms()
        for shard in self.topic.shards():
            for transaction in list(shard.open.values()):

                def event(new_id: int | None, transaction: Transaction = transaction) -> list[Effect]:
                    return transaction.time_out(now_ms, new_id)

                self._put(shard, transaction, event, None)

    def _schedule_expiry(self) -> None:
        interval_ms = self._replicas.config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._expiry_timer = self._clock.call_later(interval_ms, self._begin_expiry)

    def _begin_expiry(self) -> None:
        self._schedule_expiry()
        if self._expiring is None or self._expiring.done():
            self._expiring = asyncio.get_running_loop().create_task(self._expire())

    async def _expire(self) -> None:
        """Forget ids that nobody uses, some at a time."""
        expiration_ms = self._replicas.config.transactional_id_expiration_ms
        for shard in self.topic.shards():
            for count, transaction in enumerate(list(shard.transactions.values())):
                if count % EXPIRED_A_TURN == EXPIRED_A_TURN - 1:
                    await self._clock.sleep(0)
                shard.perform(transaction, transaction.expire(self._clock.time_ms(), expiration_ms))
