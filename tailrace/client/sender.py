"""How a producer's batches travel: to which broker, in which request, when, and how often.

Everything happens in `run`, which is called soon after something has changed: a batch is full, an answer came, a timer
rang. It decides what can go and sends it, without waiting for anything. Answers are settled one batch at a time: what
may succeed later is queued again until its delivery timeout, what is too large is split, the rest fails. Which numbers
a batch carries is `sequences`', which partitions a transaction has is `transactions`'.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from tailrace.client.accumulator import TIMER_MARGIN_S, Accumulator, PartitionQueue
from tailrace.client.cluster import Cluster
from tailrace.client.connection import Connection
from tailrace.client.deadline import JITTER
from tailrace.client.errors import (
    BrokerError,
    ClientClosed,
    ClientError,
    ConnectionLost,
    FatalError,
    OperationTimedOut,
    SerializationFailed,
    calls_for_metadata,
    is_retriable,
)
from tailrace.client.metadata import Leader
from tailrace.client.produce_request import Sent, error_in, find_answers, make_request, nodes_in, record_errors_in
from tailrace.client.producer_batch import ProducerBatch
from tailrace.client.sequences import Sequences
from tailrace.clock import TimerHandle
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ProducerConfig

if TYPE_CHECKING:
    from tailrace.client.producer_metrics import ProducerMetrics

_DOUBLINGS_MAX: Final = 20

_log = logging.getLogger("tailrace.client")


class TransactionGate(Protocol):
    """What a sender asks of the transaction that its batches belong to."""

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is in the transaction, so that batches for it can go."""
        ...

    def produce_version_max(self, version_max: int | None) -> int | None:
        """Say which version a request may have at most, given what it may have without a transaction."""
        ...

    def batch_failed(self, error: ClientError) -> None:
        """Take notice that records of the transaction were not written."""
        ...


class Sender:
    """Sends the batches of one accumulator.

    `sequences` is None where the producer is not idempotent, `gate` where it is not transactional. `needs_id` is called
    when a producer id has to be asked for, `failed` when the producer can't go on at all.
    """

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        config: ProducerConfig,
        *,
        sequences: Sequences | None,
        gate: TransactionGate | None,
        needs_id: Callable[[], None],
        failed: Callable[[FatalError], None],
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._accumulator = accumulator
        self._config = config
        self._acks = config.required_acks
        self._in_flight_max = config.max_in_flight_requests_per_connection
        self._delivery_timeout_s = config.delivery_timeout_ms / 1000
        self._sequences = sequences
        self._gate = gate
        self._needs_id = needs_id
        self._failed = failed
        self._on_wire: dict[ProducerBatch, None] = {}
        self._requests_count: dict[int, int] = defaultdict(int)
        self._next_expiry = float("inf")
        self._is_scheduled = False
        self._is_closed = False
        self._timer: TimerHandle | None = None
        self._timer_at = 0.0
        self._writes: set[asyncio.Task[None]] = set()
        self._metrics: ProducerMetrics | None = None

    def count_in(self, metrics: ProducerMetrics) -> None:
        """Count from now on what is sent and answered."""
        self._metrics = metrics
        metrics.in_flight = self._requests_count

    def wake(self) -> None:
        """Have a look soon at what can be sent."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self.run)

    def run(self) -> None:
        """Send what can be sent now, and set the timer for what cannot."""
        self._is_scheduled = False
        if self._is_closed:
            return
        if self._sequences is not None and self._sequences.settle():
            self._needs_id()
        now = self._clock.monotonic()
        if self._next_expiry <= now + TIMER_MARGIN_S:
            self._give_up_expired(now + TIMER_MARGIN_S)
        by_node, next_at = self._plan(now)
        for node_id, targets in by_node.items():
            next_at = min(next_at, self._send_to(node_id, targets, now))
        if self._timer is None or next_at < self._timer_at or self._timer_at <= now:
            self._set_timer(next_at, now)

    def _plan(self, now: float) -> tuple[dict[int, list[tuple[PartitionQueue, Leader]]], float]:
        """Find what can be sent to whom now, and when to look again for the rest."""
        next_at = float("inf")
        by_node: dict[int, list[tuple[PartitionQueue, Leader]]] = {}
        for queue in self._accumulator.active.values():
            ready_at = self._accumulator.ready_at(queue)
            if ready_at > now + TIMER_MARGIN_S:
                next_at = min(next_at, ready_at)
            elif self._may_send(queue):
                leader = self._cluster.known.leader_of(queue.topic_partition)
                if leader is None:
                    self._cluster.expire_metadata()
                else:
                    by_node.setdefault(leader.node_id, []).append((queue, leader))
            expiry = queue.batches[0].created_at + self._delivery_timeout_s
            if expiry < self._next_expiry:
                self._next_expiry = expiry
        return by_node, min(next_at, self._next_expiry)

    def abort_unsent(self, error: ClientError) -> None:
        """Fail what was never on its way: its transaction is aborted, or there is no producer any more."""
        for batch in list(self._accumulator.drop_unsent()):
            self._fail(batch, error)

    def abort_all(self, error: ClientError) -> None:
        """Fail everything, whatever may have been written: the producer can do nothing more."""
        self._accumulator.drop_all()
        for batch in list(self._accumulator.incomplete):
            self._fail(batch, error)

    def close(self) -> None:
        """Stop; what is left fails with ClientClosed."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._writes:
            task.cancel()
        error = ClientClosed("the producer was closed before the record was acknowledged")
        for batch in list(self._accumulator.incomplete):
            self._fail(batch, error)

    def _may_send(self, queue: PartitionQueue) -> bool:
        """Whether the first batch of a queue can be sent, as far as order, numbers and transaction allow it."""
        if self._in_flight_max == 1 and queue.on_wire_count:
            return False
        if self._gate is not None and not self._gate.may_send(queue.topic_partition):
            return False
        return self._sequences is None or self._sequences.may_send(queue.batches[0])

    def _send_to(self, node_id: int, targets: list[tuple[PartitionQueue, Leader]], now: float) -> float:
        """Send requests to a broker while it takes some; say when to look again."""
        if self._requests_count[node_id] >= self._in_flight_max:
            return float("inf")  # an answer wakes us
        connection = self._cluster.open_connection(node_id)
        if connection is None:
            return float("inf")  # so does a connection that is made or fails
        throttled_ms = connection.throttled_ms
        if throttled_ms:
            return now + throttled_ms / 1000
        while targets and self._requests_count[node_id] < self._in_flight_max:
            sent: list[Sent] = []
            left: list[tuple[PartitionQueue, Leader]] = []
            size = 0
            for queue, leader in targets:
                size += queue.batches[0].size
                if sent and size > self._config.max_request_size:
                    left.append((queue, leader))
                    continue
                batch = self._take(queue)
                if batch is not None:
                    sent.append((batch, leader))
                if queue.batches and self._accumulator.ready_at(queue) <= now and self._may_send(queue):
                    left.append((queue, leader))
            if sent:
                self._send(node_id, connection, sent)
            # In turn: those that did not fit come first in the next request.
            targets = left
        return float("inf")

    def _take(self, queue: PartitionQueue) -> ProducerBatch | None:
        """Take a batch on its way; None where its bytes cannot be made, which fails it and nothing else."""
        batch = self._accumulator.take(queue)
        try:
            if self._sequences is not None:
                self._sequences.assign(batch)
            else:
                batch.close()
        except Exception as error:  # noqa: BLE001 - a codec, or Arrow, may raise anything
            _log.exception("%s: a batch for %s could not be made", self._cluster.client_id, batch.topic_partition)
            failure = SerializationFailed(f"a batch for {batch.topic_partition} could not be made: {error}")
            failure.__cause__ = error
            self._fail(batch, failure)
            return None
        batch.sent_as = (batch.producer, batch.base_sequence)
        batch.attempts_count += 1
        queue.on_wire_count += 1
        self._on_wire[batch] = None
        if self._metrics is not None:
            self._metrics.sent(batch, self._clock.monotonic())
        return batch

    def _send(self, node_id: int, connection: Connection, sent: Sequence[Sent]) -> None:
        request, version_max = make_request(
            sent,
            acks=self._acks,
            timeout_ms=self._config.request_timeout_ms,
            transactional_id=self._config.transactional_id,
        )
        if self._gate is not None:
            version_max = self._gate.produce_version_max(version_max)
        self._requests_count[node_id] += 1
        if self._acks == 0:
            connection.submit_without_answer(request, version_max=version_max)
            task = asyncio.create_task(connection.writable())
            self._writes.add(task)
            task.add_done_callback(partial(self._written, node_id, sent))
            return
        try:
            timeout_ms = self._config.request_timeout_ms
            answer = connection.submit(request, ProduceResponse, timeout_ms=timeout_ms, version_max=version_max)
        except ClientError as error:
            self._requests_count[node_id] -= 1
            for batch, _ in sent:
                self._settle(batch, None, error)
            return
        answer.add_done_callback(partial(self._answered, node_id, sent))
        if self._metrics is not None:
            answer.add_done_callback(partial(self._observe, self._metrics, node_id, self._clock.monotonic()))

    def _written(self, node_id: int, sent: Sequence[Sent], task: asyncio.Task[None]) -> None:
        """With acks=0, what is written counts as delivered."""
        self._writes.discard(task)
        self._requests_count[node_id] -= 1
        error = None if task.cancelled() else task.exception()
        for batch, _ in sent:
            if isinstance(error, ClientError):
                self._settle(batch, None, error)
            else:
                self._succeed(batch, -1, -1)
        self.wake()

    def _answered(self, node_id: int, sent: Sequence[Sent], answer: asyncio.Future[ProduceResponse]) -> None:
        """Settle each batch of a request by its answer."""
        self._requests_count[node_id] -= 1
        if answer.cancelled():
            return
        failure = answer.exception()
        if failure is not None:
            error = failure if isinstance(failure, ClientError) else ConnectionLost(str(failure))
            _log.info("%s: a produce request to broker %d failed: %s", self._cluster.client_id, node_id, error)
            for batch, _ in sent:
                self._settle(batch, None, error)
        else:
            response = answer.result()
            for (batch, _), found in zip(sent, find_answers(response, sent), strict=True):
                refusal = error_in(found, batch)
                if found is None or refusal is not None:
                    self._refused(batch, found, response, refusal)
                else:
                    self._succeed(batch, -1 if found.error_code else found.base_offset, found.log_append_time_ms)
        self.wake()

    def _observe(
        self, metrics: ProducerMetrics, node_id: int, sent_at: float, answer: asyncio.Future[ProduceResponse]
    ) -> None:
        if not answer.cancelled() and answer.exception() is None:
            metrics.request_seconds[node_id].observe(self._clock.monotonic() - sent_at)

    def _refused(
        self,
        batch: ProducerBatch,
        answer: PartitionProduceResponse | None,
        response: ProduceResponse,
        error: BrokerError | None,
    ) -> None:
        """Settle a batch that was answered with an error, taking the leader from the answer where it is told."""
        assert error is not None, "a batch without an answer has an error"
        is_moved = False
        if answer is not None and answer.current_leader.leader_id >= 0:
            leader = answer.current_leader
            is_moved = self._cluster.learn_leader(
                batch.topic_partition, leader.leader_id, leader.leader_epoch, nodes_in(response)
            )
        self._settle(batch, answer, error, is_moved=is_moved)

    def _off_wire(self, batch: ProducerBatch) -> PartitionQueue:
        queue = self._accumulator.queue_of(batch.topic_partition)
        if batch in self._on_wire:
            del self._on_wire[batch]
            queue.on_wire_count -= 1
        return queue

    def _succeed(self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int) -> None:
        self._off_wire(batch)
        if self._sequences is not None:
            self._sequences.acknowledged(batch, base_offset)
        if not batch.is_settled:
            self._accumulator.settle(batch)
            if self._metrics is not None:
                self._metrics.written(batch)
            batch.succeed(base_offset, log_append_time_ms)

    def _settle(
        self,
        batch: ProducerBatch,
        answer: PartitionProduceResponse | None,
        error: ClientError,
        *,
        is_moved: bool = False,
    ) -> None:
        """Have a batch that failed tried again, or split, or give it up."""
        queue = self._off_wire(batch)
        if batch.is_settled:
            return  # given up before, by its delivery timeout; its number stays unresolved
        if calls_for_metadata(error) and not is_moved:
            self._cluster.expire_metadata()
        code = error.code if isinstance(error, BrokerError) else None
        now = self._clock.monotonic()
        if code is ErrorCode.MESSAGE_TOO_LARGE and batch.records_count > 1 and not self._is_closed:
            self._split(queue, batch)
            return
        is_in_time = now < batch.created_at + self._delivery_timeout_s and not self._is_closed
        may_retry = is_in_time and batch.attempts_count <= self._config.retries
        log_start_offset = -1 if answer is None else answer.log_start_offset
        if may_retry and self._can_retry(batch, error, code, log_start_offset):
            batch.not_before = now if is_moved else now + self._pause_s(batch)
            self._accumulator.put_back(queue, batch)
            return
        if self._sequences is not None:
            if may_retry or not is_retriable(error):
                self._sequences.refused(batch, code)
            else:
                self._sequences.expired(batch)
        self._fail(batch, error if may_retry else self._timed_out(batch, error), record_errors_in(answer))

    def _can_retry(
        self, batch: ProducerBatch, error: ClientError, code: ErrorCode | None, log_start_offset: int
    ) -> bool:
        if self._sequences is None or code is None:
            return is_retriable(error)
        return self._sequences.can_retry(batch, code, log_start_offset)

    def _split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        bytes_max = min(self._accumulator.batch_bytes, batch.size // 2)
        parts = batch.split(bytes_max, self._accumulator.compression, self._accumulator.level)
        _log.warning(
            "%s: a batch of %d records for %s was too large for the broker; sent in %d batches now",
            self._cluster.client_id,
            batch.records_count,
            batch.topic_partition,
            len(parts),
        )
        if self._sequences is not None:
            self._sequences.replaced(batch, parts)
        self._accumulator.replace(queue, batch, parts)

    def _fail(self, batch: ProducerBatch, error: ClientError, record_errors: dict[int, str] | None = None) -> None:
        """Give a batch up."""
        self._off_wire(batch)
        if batch.is_settled:
            return
        if not batch.waiters and not isinstance(error, ClientClosed):
            _log.error("%s: records for %s were not written: %s", self._cluster.client_id, batch.topic_partition, error)
        self._accumulator.settle(batch)
        if self._metrics is not None:
            self._metrics.given_up(batch)
        batch.fail(error, record_errors)
        if self._gate is not None:
            self._gate.batch_failed(error)
        elif self._sequences is not None and _is_fatal(error):
            fatal = FatalError(f"the producer cannot go on: {error}")
            fatal.__cause__ = error
            self._failed(fatal)

    def _give_up_expired(self, now: float) -> None:
        """Give up what is older than its delivery timeout, on its way or not."""
        timeout_s = self._delivery_timeout_s
        self._next_expiry = float("inf")
        for queue in list(self._accumulator.active.values()):
            while queue.batches and queue.batches[0].created_at + timeout_s <= now:
                batch = self._accumulator.take(queue)
                if self._sequences is not None:
                    self._sequences.expired(batch)
                self._fail(batch, self._timed_out(batch, None))
        for batch in list(self._on_wire):
            if batch.created_at + timeout_s > now:
                self._next_expiry = min(self._next_expiry, batch.created_at + timeout_s)
                continue
            if self._sequences is not None:
                self._sequences.expired(batch)
            self._fail(batch, self._timed_out(batch, None))

    def _timed_out(self, batch: ProducerBatch, error: ClientError | None) -> OperationTimedOut:
        reason = f": {error}" if error is not None else ""
        timed_out = OperationTimedOut(
            f"{batch.records_count} records for {batch.topic_partition} were not acknowledged in "
            f"{self._config.delivery_timeout_ms} ms, {batch.attempts_count} attempts{reason}"
        )
        timed_out.__cause__ = error
        return timed_out

    def _pause_s(self, batch: ProducerBatch) -> float:
        config = self._config
        doubled: int = config.retry_backoff_ms * 2 ** min(batch.attempts_count - 1, _DOUBLINGS_MAX)
        pause_ms = min(doubled, config.retry_backoff_max_ms) * self._cluster.random.uniform(1 - JITTER, 1 + JITTER)
        return pause_ms / 1000

    def _set_timer(self, next_at: float, now: float) -> None:
        """Look again at `next_at`; a timer that rings before is as good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_at < float("inf"):
            self._timer_at = next_at
            self._timer = self._clock.call_later(max(next_at - now, 0) * 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.run()


def _is_fatal(error: ClientError) -> bool:
    """Whether a producer that numbers its batches can do nothing more after this."""
    return isinstance(error, BrokerError) and error.code in _FATAL


_FATAL: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
