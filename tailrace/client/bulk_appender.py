"""How many records that are given at once find their batches: by partition, and as large as max.request.size allows.

Large input is gone through a window at a time, so that what is copied for grouping stays within the buffer's size. Each
batch waits for its own memory, at most max.block.ms. What was taken when the rest could not be is on its way, and the
error says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from tailrace.client.accumulator import Accumulator, PartitionQueue, TopicQueues
from tailrace.client.appender import RecordAppender
from tailrace.client.bulk import BulkDelivery, BulkInterrupted, Range
from tailrace.client.bulk_rows import NO_PARTITION, BulkRecords, PartitionOf, Split
from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientError, RecordTooLarge
from tailrace.client.partitioner import KeyHashes, Partitioner
from tailrace.client.producer_batch import ProducerBatch
from tailrace.client.sender import Sender
from tailrace.protocol.records.batch_header import HEADER_SIZE
from tailrace.settings.client_config import ProducerConfig

_PORTION_BATCHES: Final = 8
_PORTIONS_IN_BUFFER: Final = 4
"""So many batches are made at once, if so many of such portions have room in the buffer: each waits for all its memory,
and a few of them keep the connections busy."""


class BulkAppender:
    """Puts bulks into batches of one accumulator; metadata, limits and refusals are `appender`'s."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        sender: Sender,
        config: ProducerConfig,
        hashes: KeyHashes,
        partitioner: Partitioner | None,
        appender: RecordAppender,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._memory = accumulator.memory
        self._sender = sender
        self._config = config
        self._hashes = hashes
        self._partitioner = partitioner
        self._appender = appender
        self._bytes_max = min(config.max_request_size, config.buffer_memory)

    async def append(self, topic: str, bulks: Sequence[BulkRecords], partition: int | None) -> BulkDelivery:
        """Put records into batches.

        RecordTooLarge before any is taken; BulkInterrupted, or the error itself, where it went wrong on the way.
        """
        self._appender.check()
        for bulk in bulks:
            self._check_sizes(bulk)
        queues = await self._appender.topic(topic, self._config.max_block_ms)
        taken: list[Range] = []
        left = [window for bulk in bulks for window in self._windows(queues, bulk, partition)]
        left.reverse()
        try:
            while left:
                await self._take_window(queues, left, partition, taken)
        except (ClientError, asyncio.CancelledError) as error:
            if not taken or isinstance(error, asyncio.CancelledError):
                raise
            rows = sorted(int(row) for row in chain.from_iterable(bulk.rows for bulk in left))
            raise BulkInterrupted(f"{len(rows)} records were not taken: {error}", BulkDelivery(taken), rows) from error
        return BulkDelivery(taken)

    def _windows(self, queues: TopicQueues, bulk: BulkRecords, partition: int | None) -> Iterator[BulkRecords]:
        """Divide what has to be grouped, which copies it: a window has about a batch for each partition."""
        if partition is not None or not (bulk.has_keys or self._partitioner):
            if len(bulk):
                yield bulk
            return
        bytes_max = max(self._bytes_max, min(self._bytes_max * queues.partitions_count, self._memory.total_bytes // 2))
        for start, end, _ in bulk.split(bytes_max):
            yield bulk.slice(start, end)

    async def _take_window(
        self, queues: TopicQueues, left: list[BulkRecords], partition: int | None, taken: list[Range]
    ) -> None:
        """Take the last of `left`; what is not taken of it is put back there."""
        groups = list(self._groups(queues, left.pop(), partition))
        for index, (number, group) in enumerate(groups):
            start = 0
            try:
                for first, last, splits in self._portions(group):
                    taken += await self._take(queues, number, group.slice(first, last), splits)
                    start = last
            except BaseException:
                left += [group.slice(start, len(group)), *(other for _, other in groups[index + 1 :])]
                raise

    def _portions(self, records: BulkRecords) -> Iterator[tuple[int, int, list[Split]]]:
        """Divide records into what is taken at once: some batches, as far as a part of the buffer holds them."""
        bytes_max = min(self._bytes_max * _PORTION_BATCHES, self._memory.total_bytes // _PORTIONS_IN_BUFFER)
        portion: list[Split] = []
        first = size = 0
        for start, end, batch_size in records.split(self._bytes_max):
            if portion and size + batch_size > bytes_max:
                yield first, start, portion
                portion, first, size = [], start, 0
            portion.append((start - first, end - first, batch_size))
            size += batch_size
        if portion:
            yield first, len(records), portion

    def _groups(
        self, queues: TopicQueues, window: BulkRecords, partition: int | None
    ) -> Sequence[tuple[int, BulkRecords]]:
        if partition is not None:
            return [(partition, window)]
        return list(window.by_partition(self._hashes, queues.partitions_count, self._partition_of(queues)))

    def _partition_of(self, queues: TopicQueues) -> PartitionOf | None:
        partitioner, topic, count = self._partitioner, queues.name, queues.partitions_count
        if partitioner is not None:
            return lambda key, value: partitioner(topic, key, value, count)
        return (lambda key, value: NO_PARTITION) if self._config.partitioner_ignore_keys else None

    async def _take(
        self, queues: TopicQueues, number: int, records: BulkRecords, splits: Sequence[Split]
    ) -> list[Range]:
        """Make batches of records and queue them, waiting for their memory."""
        queue = await self._queue(queues, number)
        size = min(sum(batch_size for _, _, batch_size in splits), self._memory.total_bytes)
        if not self._memory.try_reserve(size):
            self._sender.wake()
            await self._memory.reserve(size, self._config.max_block_ms)
        try:
            self._appender.check()
            builders = records.builders(splits, self._accumulator.compression, self._accumulator.level)
        except BaseException:
            self._memory.release(size)
            raise
        now = self._cluster.clock.monotonic()
        taken: list[Range] = []
        for builder in builders:
            # They may share their memory, so it is given back with the last one, which is settled last.
            reserved = size if builder is builders[-1] else 0
            batch = ProducerBatch(queue.topic_partition, created_at=now, reserved_bytes=reserved, builder=builder)
            self._accumulator.add(queue, batch)
            taken.append((batch, 0, builder.records_count))
        self._appender.begun(queue)
        if queues.sticky is queue:
            queues.sticky_bytes += size
        await asyncio.sleep(0)  # so much work at once: others have a turn, and the batches can leave
        return taken

    async def _queue(self, queues: TopicQueues, number: int) -> PartitionQueue:
        if number == NO_PARTITION:
            return self._appender.next_queue(queues)
        queue = queues.partitions.get(number)
        if queue is None:
            queue = await self._appender.queue_of(queues.name, number)
        return queue

    def _check_sizes(self, bulk: BulkRecords) -> None:
        if not len(bulk):
            return
        place, size = bulk.largest()
        if size + HEADER_SIZE > self._bytes_max:
            name = "max.request.size" if self._bytes_max == self._config.max_request_size else "buffer.memory"
            raise RecordTooLarge(
                f"record {bulk.rows[place]}, of {size} bytes, is larger than {name} allows, {self._bytes_max}"
            )
