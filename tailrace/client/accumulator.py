"""The batches that a producer fills, by partition: which is ready to be sent, and which has to wait.

Pure: time is an argument, and what is sent when is the sender's business. A partition has one batch on its way at a
time, so that order and sequence numbers hold through every retry.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.record import RecordHeader
from tailrace.protocol.records.writer import BatchBuilder, record_size_bound
from tailrace.protocol.topic_partition import TopicPartition

_TIMER_MARGIN_S = 0.0005
"""A timer may fire this much early: what waited for it counts as ready, or the timer would be set for no time."""


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a record is now; offset -1 where the broker does not tell (acks=0, or a duplicate it has forgotten)."""

    topic: str
    partition: int
    offset: int
    timestamp: int


Delivery = asyncio.Future[RecordMetadata]


@dataclass(slots=True)
class ProducerBatch:
    """Records of one partition that travel together. `data` is there once it is closed."""

    topic_partition: TopicPartition
    builder: BatchBuilder
    created_at: float
    deliveries: list[tuple[Delivery, int]] = field(default_factory=list[tuple[Delivery, int]])
    data: bytearray | None = None
    attempts: int = 0
    not_before: float = 0.0
    reserved_bytes: int = 0

    def succeed(self, base_offset: int, log_append_time_ms: int) -> None:
        """Tell every sender where its record is."""
        topic, partition = self.topic_partition
        for index, (delivery, timestamp) in enumerate(self.deliveries):
            if not delivery.done():
                offset = base_offset + index if base_offset >= 0 else -1
                written = timestamp if log_append_time_ms == -1 else log_append_time_ms
                delivery.set_result(RecordMetadata(topic, partition, offset, written))

    def fail(self, error: Exception) -> None:
        """Tell every sender that its record was not written, as far as is known."""
        for delivery, _ in self.deliveries:
            if not delivery.done():
                delivery.set_exception(error)


class Accumulator:
    """All batches of one producer that are not answered yet."""

    def __init__(self, *, batch_bytes: int, linger_s: float, compression: Compression, level: int | None) -> None:
        self._batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._compression = compression
        self._level = level
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._in_flight: dict[TopicPartition, ProducerBatch] = {}
        self.buffered_bytes = 0
        self.flushes_count = 0

    def batches(self) -> Iterator[ProducerBatch]:
        """Go through all batches, those on their way first."""
        yield from self._in_flight.values()
        for queue in self._queues.values():
            yield from queue

    def append(
        self,
        topic_partition: TopicPartition,
        *,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader],
        delivery: Delivery,
        now: float,
    ) -> tuple[bool, bool]:
        """Put a record into its partition's last batch; say whether that began a batch, and whether one got full."""
        size = record_size_bound(key, value, headers)
        queue = self._queues.setdefault(topic_partition, deque())
        batch = queue[-1] if queue else None
        is_full = batch is not None and (batch.data is not None or batch.builder.size + size > self._batch_bytes)
        is_new = batch is None or is_full
        if batch is None or is_full:
            builder = BatchBuilder(compression=self._compression, level=self._level)
            batch = ProducerBatch(topic_partition, builder, now)
            queue.append(batch)
        batch.builder.append(timestamp, key, value, headers)
        batch.deliveries.append((delivery, timestamp))
        batch.reserved_bytes += size
        self.buffered_bytes += size
        return is_new, is_full or batch.builder.size >= self._batch_bytes

    def ready(self, now: float) -> tuple[list[TopicPartition], float | None]:
        """Give the partitions whose first batch can go now, and when to ask again for the others."""
        ready: list[TopicPartition] = []
        next_at: float | None = None
        for topic_partition, queue in self._queues.items():
            if topic_partition in self._in_flight:
                continue
            ready_at = self._ready_at(queue)
            if ready_at <= now + _TIMER_MARGIN_S:
                ready.append(topic_partition)
            elif next_at is None or ready_at < next_at:
                next_at = ready_at
        return ready, next_at

    def _ready_at(self, queue: deque[ProducerBatch]) -> float:
        batch = queue[0]
        if batch.attempts:
            return batch.not_before
        if self.flushes_count or len(queue) > 1 or batch.builder.size >= self._batch_bytes:
            return batch.not_before
        return max(batch.created_at + self._linger_s, batch.not_before)

    def first(self, topic_partition: TopicPartition) -> ProducerBatch:
        """Look at the batch that goes next."""
        return self._queues[topic_partition][0]

    def take(self, topic_partition: TopicPartition) -> ProducerBatch:
        """Take the first batch of a partition on its way; nothing of the partition follows until it is settled."""
        queue = self._queues[topic_partition]
        batch = self._in_flight[topic_partition] = queue.popleft()
        if not queue:
            del self._queues[topic_partition]
        return batch

    def put_back(self, batch: ProducerBatch, *, not_before: float) -> None:
        """Have a batch that is on its way tried again, before anything else of its partition."""
        del self._in_flight[batch.topic_partition]
        batch.not_before = not_before
        self._queues.setdefault(batch.topic_partition, deque()).appendleft(batch)

    def settle(self, batch: ProducerBatch) -> None:
        """Forget a batch that is on its way: it was answered, or given up."""
        del self._in_flight[batch.topic_partition]
        self.buffered_bytes -= batch.reserved_bytes

    def drop(self, topic_partition: TopicPartition) -> ProducerBatch:
        """Forget the first batch of a partition, which is not on its way."""
        batch = self.take(topic_partition)
        self.settle(batch)
        return batch

    def drop_all(self) -> Iterator[ProducerBatch]:
        """Forget every batch."""
        for batch in list(self._in_flight.values()):
            self.settle(batch)
            yield batch
        for topic_partition in list(self._queues):
            while topic_partition in self._queues:
                yield self.drop(topic_partition)
