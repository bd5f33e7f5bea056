"""A producer's transactions: begun, filled, committed or aborted, and what goes wrong between.

The coordinator is asked by `transaction_coordinator`, what an error means is `transaction_state`'s. Here is the order
of things: partitions join before they are written to (version 1; in version 2 the leader adds them itself,
KIP-890), everything is acknowledged before a transaction ends, and each transaction of version 2, or one that was
aborted with records in doubt, has an epoch of its own after it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tailrace.client.accumulator import Accumulator
from tailrace.client.cluster import Cluster
from tailrace.client.deadline import within
from tailrace.client.errors import (
    AbortableError,
    ClientClosed,
    ClientError,
    FatalError,
    InvalidState,
    OperationTimedOut,
    TransactionAborted,
)
from tailrace.client.group_metadata import ConsumerGroupMetadata, OffsetToCommit
from tailrace.client.produce_request import TRANSACTIONS_V1_VERSION_MAX
from tailrace.client.sequences import Sequences
from tailrace.client.transaction_coordinator import TransactionCoordinator
from tailrace.client.transaction_state import State, Step, TransactionState, may_begin_again, verdict
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ProducerConfig

_log = logging.getLogger("tailrace.client")


class Transactions:
    """The transactions of one producer: one at a time.

    `changed` is called when the state has changed, `wake` when something can be sent, `drop_unsent` with the error for
    records of a transaction that is aborted.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        sequences: Sequences,
        accumulator: Accumulator,
        *,
        wake: Callable[[], None],
        drop_unsent: Callable[[ClientError], None],
        changed: Callable[[], None],
    ) -> None:
        assert config.transactional_id is not None, "transactions have a transactional.id"
        self.state = TransactionState()
        self._clock = cluster.clock
        self._config = config
        self._sequences = sequences
        self._accumulator = accumulator
        self._coordinator = TransactionCoordinator(cluster, config.transactional_id)
        self._wake = wake
        self._drop_unsent = drop_unsent
        self._changed = changed
        self._is_v2 = False
        self._has_begun = False
        """Whether the coordinator may know of the transaction: it does once there is a partition or an offset in it."""
        self._needs_epoch = False
        self._partitions: set[TopicPartition] = set()
        self._joining: set[TopicPartition] = set()
        self._adding: asyncio.Task[None] | None = None
        self._work: asyncio.Task[None] | None = None
        self._work_name = ""
        self._spoilt: asyncio.Future[None] | None = None
        self._commits_count = 0
        self.ended_counts = {"committed": 0, "aborted": 0}

    async def init(self) -> None:
        """Get an id, and have the transaction ended that an earlier producer of this name left open."""
        if not self._is_under_way("init_transactions"):
            self.state.go(State.INITIALIZING)
        await self._wait_for("init_transactions", self._init)

    def begin(self) -> None:
        """Begin a transaction. The coordinator learns of it with the first record or offset."""
        self._is_under_way("begin_transaction")
        self.state.go(State.IN_TRANSACTION)
        self._is_v2 = self._coordinator.serves_v2
        self._changed()

    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a consumer's offsets with the transaction."""
        self._is_under_way("send_offsets_to_transaction")
        self.state.require(State.IN_TRANSACTION)
        if not offsets:
            return
        timeout_ms = self._config.max_block_ms
        timed_out = AbortableError(f"the offsets of group {group.group_id} were not committed in {timeout_ms} ms")
        self._commits_count += 1
        try:
            await within(self._clock, timeout_ms, self._commit_offsets(offsets, group), timed_out)
        except AbortableError as error:
            self._fail(error)
            raise
        finally:
            self._commits_count -= 1

    async def commit(self) -> None:
        """Wait until all records are acknowledged, and commit."""
        if not self._is_under_way("commit_transaction"):
            self.state.go(State.COMMITTING)
            self._changed()
        await self._wait_for("commit_transaction", lambda: self._end(is_commit=True))

    async def abort(self) -> None:
        """Give up what was not sent, and abort."""
        if not self._is_under_way("abort_transaction"):
            self.state.go(State.ABORTING)
            self._changed()
        await self._wait_for("abort_transaction", lambda: self._end(is_commit=False))

    async def close(self) -> None:
        """End what is being ended, and abort what is open, as far as that can be done."""
        try:
            if self.state.now in (State.COMMITTING, State.ABORTING) and self._is_under_way(self._work_name):
                await self._wait_for(self._work_name, self._init)
            elif self.state.now in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
                await self.abort()
        except ClientError as error:
            _log.warning("%s: the transaction was not ended: %s", self._coordinator.transactional_id, error)

    async def stop(self) -> None:
        """Ask nobody anything any more."""
        tasks = [task for task in (self._work, self._adding) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def joined(self, topic_partition: TopicPartition) -> None:
        """Take notice that there are records for a partition."""
        if topic_partition in self._partitions or topic_partition in self._joining:
            return
        self._has_begun = True
        if self._is_v2:
            self._partitions.add(topic_partition)
            return
        self._joining.add(topic_partition)
        if self._adding is None or self._adding.done():
            self._adding = asyncio.create_task(self._add_partitions())

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is in the transaction, so that batches for it can go."""
        return topic_partition in self._partitions and self.state.is_open

    def produce_version_max(self, version_max: int | None) -> int | None:
        """Say which version a request may have at most: the last one of transactions v1, where that is used."""
        if self._is_v2:
            return version_max
        return TRANSACTIONS_V1_VERSION_MAX if version_max is None else min(version_max, TRANSACTIONS_V1_VERSION_MAX)

    def batch_failed(self, error: ClientError) -> None:
        """Take notice that records of the transaction were not written."""
        if not isinstance(error, TransactionAborted | ClientClosed):
            self._needs_epoch = True
            self._fail(verdict(Step.PRODUCE, error, "records of the transaction were not written"))

    async def _init(self) -> None:
        try:
            producer = await self._coordinator.init(self._config.transaction_timeout_ms)
        except ClientError as error:
            if may_begin_again(error):
                self.state.go(State.UNINITIALIZED)
                raise
            raise self._fail(verdict(Step.INIT, error, "init_transactions failed")) from error
        self._sequences.set_producer(producer, restart=True)
        self.state.go(State.READY)
        self._changed()

    async def _add_partitions(self) -> None:
        """Add the partitions that want to join, until there are no more (version 1)."""
        while self._joining:
            partitions = sorted(self._joining)
            try:
                await self._coordinator.add_partitions(self._sequences.producer, partitions)
            except ClientError as error:
                self._fail(verdict(Step.ADD_PARTITIONS, error, "adding partitions to the transaction failed"))
                return
            self._joining.difference_update(partitions)
            self._partitions.update(partitions)
            self._wake()

    async def _commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], group: ConsumerGroupMetadata
    ) -> None:
        producer, is_v2 = self._sequences.producer, self._is_v2
        self._has_begun = True
        step = Step.ADD_OFFSETS
        try:
            if not is_v2:
                await self._coordinator.add_offsets(producer, group.group_id)
            step = Step.COMMIT_OFFSETS
            await self._coordinator.commit_offsets(producer, offsets, group, is_v2=is_v2)
        except ClientError as error:
            raise self._fail(verdict(step, error, f"committing offsets of group {group.group_id} failed")) from error

    async def _end(self, *, is_commit: bool) -> None:
        if not is_commit:
            self._joining.clear()
            self._drop_unsent(TransactionAborted("the transaction was aborted before the record was sent"))
        await self._acknowledged()
        if self._adding is not None and not self._adding.done() and not self.state.error:
            await asyncio.wait([self._adding])
        self.state.require(State.COMMITTING if is_commit else State.ABORTING)
        try:
            if self._has_begun:
                await self._ask_to_end(is_commit=is_commit)
        except ClientError as error:
            meaning = verdict(Step.END, error, f"{'committing' if is_commit else 'aborting'} the transaction failed")
            if not is_commit and isinstance(meaning, AbortableError):
                meaning = FatalError(str(meaning))
            raise self._fail(meaning) from error
        self._has_begun = self._needs_epoch = self._sequences.lost_sequences = False
        self._partitions.clear()
        self.ended_counts["committed" if is_commit else "aborted"] += 1
        self.state.go(State.READY)
        self._changed()

    async def _ask_to_end(self, *, is_commit: bool) -> None:
        sequences = self._sequences
        following = await self._coordinator.end(sequences.producer, is_commit=is_commit, is_v2=self._is_v2)
        if following is None and (self._needs_epoch or sequences.lost_sequences):
            # Brokers may have numbers that the producer will give to other records: they forget them with the epoch.
            following = await self._coordinator.init(self._config.transaction_timeout_ms, sequences.producer)
        if following is not None:
            sequences.set_producer(following, restart=True)

    async def _acknowledged(self) -> None:
        """Wait until every record is acknowledged or given up, or the commit is spoilt."""
        flushed = asyncio.ensure_future(self._accumulator.flushed())
        self._spoilt = asyncio.get_running_loop().create_future()
        self._wake()
        try:
            await asyncio.wait({flushed, self._spoilt}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            flushed.cancel()
            self._spoilt.cancel()
            self._spoilt = None

    def _fail(self, error: AbortableError | FatalError) -> AbortableError | FatalError:
        """Take an error, and give it."""
        if self.state.fail(error):
            _log.warning("%s: %s", self._coordinator.transactional_id, error)
            if self._spoilt is not None and not self._spoilt.done():
                self._spoilt.set_result(None)
            self._changed()
        return error

    def _is_under_way(self, name: str) -> bool:
        """Whether this is being done, or was done when nobody waited any more; InvalidState where something else is."""
        if self._work is not None and self._work.done() and self._work_name != name:
            self._forget_work()
        if self._work is not None and self._work_name != name:
            raise InvalidState(f"{self._work_name} is not done yet; wait for it before {name}")
        if self._commits_count and name in ("commit_transaction", "abort_transaction"):
            raise InvalidState(f"send_offsets_to_transaction is not done yet; wait for it before {name}")
        return self._work is not None

    async def _wait_for(self, name: str, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin some work, or join it, and wait for max.block.ms; it goes on when nobody waits for it any more."""
        if self._work is None:
            self._work, self._work_name = asyncio.create_task(begin()), name
        work, timeout_ms = self._work, self._config.max_block_ms
        timed_out = OperationTimedOut(f"{name} was not done in {timeout_ms} ms; call it again to wait on")
        try:
            await within(self._clock, timeout_ms, asyncio.shield(work), timed_out)
        finally:
            if work.done() and work is self._work:
                self._forget_work()

    def _forget_work(self) -> None:
        work, self._work = self._work, None
        if work is not None and not work.cancelled():
            work.exception()  # whoever waited for it has gone; the state says what came of it
