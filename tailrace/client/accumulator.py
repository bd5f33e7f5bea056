"""The batches that a producer fills, by partition: which takes the next record, which is ready, which has to wait.

Pure but for the memory it waits for: time is an argument, and what is sent when is the sender's business. A batch is
ready when it is full, has lingered, or must not linger: somebody flushes, closes, or waits for its memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Final, TypeAlias

from tailrace.client.buffer_memory import BufferMemory
from tailrace.client.metadata import TopicMetadata
from tailrace.client.partitioner import choose_partition
from tailrace.client.producer_batch import ProducerBatch
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.record import RecordHeader
from tailrace.protocol.records.writer import BatchBuilder
from tailrace.protocol.topic_partition import TopicPartition

TryAppend: TypeAlias = Callable[[int, bytes | None, bytes | None, Sequence[RecordHeader]], int]

TIMER_MARGIN_S: Final = 0.0005
"""A timer may fire this much early: what waited for it counts as ready, or the timer would be set for no time."""


class PartitionQueue:
    """One partition's batches that are not on their way, in order.

    `open` is the last one while it takes records, by `try_append`, which is kept here because it is called so often.
    """

    __slots__ = ("batches", "on_wire_count", "open", "topic_partition", "try_append")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.batches: deque[ProducerBatch] = deque()
        self.open: ProducerBatch | None = None
        self.try_append: TryAppend | None = None
        self.on_wire_count = 0

    def put_back(self, batch: ProducerBatch) -> None:
        """Queue a batch again before what comes behind it: by its sequence number where it has one, else first."""
        if not batch.has_sequence:
            self.batches.appendleft(batch)
            return
        position = 0
        for queued in self.batches:
            if not queued.has_sequence or _is_behind(queued, batch):
                break
            position += 1
        self.batches.insert(position, batch)


class TopicQueues:
    """A topic's partitions as a producer sees them.

    Records without a key go to the `sticky` partition, until a batch's worth of bytes has gone there.
    """

    __slots__ = ("name", "partitions", "partitions_count", "sticky", "sticky_bytes", "version")

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = -1
        self.partitions: dict[int, PartitionQueue] = {}
        self.partitions_count = 0
        self.sticky: PartitionQueue | None = None
        self.sticky_bytes = 0

    def update(self, topic: TopicMetadata, version: int) -> None:
        """Take what metadata says now; partitions only ever become more, unless the topic was created anew."""
        self.version = version
        self.partitions_count = len(topic.partitions)
        for number in topic.partitions:
            if number not in self.partitions:
                self.partitions[number] = PartitionQueue(TopicPartition(self.name, number))


class Accumulator:
    """All batches of one producer that are not settled."""

    def __init__(
        self,
        memory: BufferMemory,
        *,
        batch_bytes: int,
        linger_s: float,
        compression: Compression,
        level: int | None,
        random: Random,
        is_adaptive: bool,
    ) -> None:
        self.memory = memory
        self.topics: dict[str, TopicQueues] = {}
        self.active: dict[TopicPartition, PartitionQueue] = {}
        """The queues that have batches."""
        self.incomplete: dict[ProducerBatch, None] = {}
        """What is not settled, oldest first: queued and on its way."""
        self.compression = compression
        self.level = level
        self._batch_bytes = batch_bytes
        self._linger_s = linger_s
        self._random = random
        self._is_adaptive = is_adaptive
        self._flushes: list[tuple[set[ProducerBatch], asyncio.Future[None]]] = []

    @property
    def batch_bytes(self) -> int:
        """Bytes up to which a batch is filled."""
        return self._batch_bytes

    def begin_batch(self, queue: PartitionQueue, *, now: float, reserved_bytes: int) -> ProducerBatch:
        """Begin a batch behind the partition's others; the one before it takes no more records."""
        builder = BatchBuilder(compression=self.compression, level=self.level, bytes_max=self._batch_bytes)
        batch = ProducerBatch(queue.topic_partition, created_at=now, reserved_bytes=reserved_bytes, builder=builder)
        self.add(queue, batch)
        queue.open = batch
        queue.try_append = builder.try_append
        return batch

    def end_batch(self, queue: PartitionQueue) -> None:
        """Let the open batch of a partition take no more records."""
        batch, queue.open, queue.try_append = queue.open, None, None
        topic = self.topics.get(queue.topic_partition.topic)
        if batch is not None and topic is not None and topic.sticky is queue:
            topic.sticky_bytes += batch.size

    def add(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Queue a batch behind the others of its partition."""
        if queue.open is not None:
            self.end_batch(queue)
        queue.batches.append(batch)
        self.active[queue.topic_partition] = queue
        self.incomplete[batch] = None

    def sticky_queue(self, topic: TopicQueues, available: Callable[[TopicQueues], Iterable[int]]) -> PartitionQueue:
        """Give the partition for records without a key; another one once a batch's worth of bytes went to the last.

        `available` gives the partitions that can be written to now; all are possible where there are none.
        """
        sticky = topic.sticky
        if sticky is None or topic.sticky_bytes >= self._batch_bytes:
            numbers = list(available(topic)) or list(topic.partitions)
            waiting_counts = {number: len(topic.partitions[number].batches) for number in numbers}
            chosen = choose_partition(waiting_counts, self._random, is_adaptive=self._is_adaptive)
            sticky = topic.sticky = topic.partitions[chosen]
            topic.sticky_bytes = 0
        return sticky

    def ready_at(self, queue: PartitionQueue) -> float:
        """Say when the first batch of a queue may go."""
        batch = queue.batches[0]
        may_linger = batch is queue.open and not (self._flushes or self.memory.is_waited_for)
        return max(batch.created_at + self._linger_s, batch.not_before) if may_linger else batch.not_before

    def take(self, queue: PartitionQueue) -> ProducerBatch:
        """Take the first batch of a queue on its way."""
        batch = queue.batches.popleft()
        if batch is queue.open:
            self.end_batch(queue)
        if not queue.batches:
            self.active.pop(queue.topic_partition, None)
        return batch

    def put_back(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Queue a batch again that is to be tried again."""
        queue.put_back(batch)
        self.active[queue.topic_partition] = queue

    def replace(self, queue: PartitionQueue, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Queue the parts of a batch that was taken, in its place."""
        self.incomplete.pop(batch, None)
        for part in reversed(parts):
            self.incomplete[part] = None
            self.put_back(queue, part)
        for waited_for, _ in self._flushes:
            if batch in waited_for:
                waited_for.discard(batch)
                waited_for.update(parts)

    def settle(self, batch: ProducerBatch) -> None:
        """Forget a batch that is settled, and give its memory back."""
        if batch not in self.incomplete:
            return
        del self.incomplete[batch]
        self.memory.release(batch.reserved_bytes)
        for waited_for, is_flushed in self._flushes:
            waited_for.discard(batch)
            if not waited_for and not is_flushed.done():
                is_flushed.set_result(None)

    def queue_of(self, topic_partition: TopicPartition) -> PartitionQueue:
        """Give a partition's queue."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None:
            topic = self.topics[topic_partition.topic] = TopicQueues(topic_partition.topic)
        queue = topic.partitions.get(topic_partition.partition)
        if queue is None:
            queue = topic.partitions[topic_partition.partition] = PartitionQueue(topic_partition)
        return queue

    async def flushed(self) -> None:
        """Let nothing linger, and wait until all that is here now is settled."""
        if not self.incomplete:
            return
        entry = (set(self.incomplete), asyncio.get_running_loop().create_future())
        self._flushes.append(entry)
        try:
            await entry[1]
        finally:
            self._flushes.remove(entry)

    def drop_unsent(self) -> Iterator[ProducerBatch]:
        """Take every batch out of its queue that was never sent; what is to be sent again stays."""
        for queue in list(self.active.values()):
            queue.open = queue.try_append = None
            yield from [batch for batch in queue.batches if not batch.attempts_count]
            queue.batches = deque(batch for batch in queue.batches if batch.attempts_count)
            if not queue.batches:
                del self.active[queue.topic_partition]

    def drop_all(self) -> None:
        """Take every batch out of its queue."""
        for queue in self.active.values():
            queue.open = queue.try_append = None
            queue.batches.clear()
        self.active.clear()


def _is_behind(queued: ProducerBatch, batch: ProducerBatch) -> bool:
    return 0 < (queued.base_sequence - batch.base_sequence) & 0x7FFFFFFF < 1 << 30
