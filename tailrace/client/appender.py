"""How a record finds its batch when there is none open for it: metadata, a partition, memory, a new batch.

`Producer.send` looks for an open batch first, and comes here about once a batch; so here there is time to ask whether
the topic is known, which partition is next, and whether the buffer has room. Waiting ends after max.block.ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tailrace.client.accumulator import Accumulator, PartitionQueue, TopicQueues
from tailrace.client.cluster import Cluster
from tailrace.client.delivery import Delivery
from tailrace.client.errors import ClientError, RecordTooLarge, broker_error
from tailrace.client.metadata import TopicMetadata
from tailrace.client.partitioner import KeyHashes, Partitioner
from tailrace.client.sender import Sender
from tailrace.client.transactions import Transactions
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.records.batch_header import HEADER_SIZE
from tailrace.protocol.records.record import RecordHeader
from tailrace.protocol.records.writer import record_size_bound
from tailrace.settings.client_config import ProducerConfig

_TURN_BYTES: Final = 64 * 1024
"""So much is put into batches before the loop gets a turn."""


class RecordAppender:
    """Puts records into the batches of one accumulator."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        sender: Sender,
        config: ProducerConfig,
        hashes: KeyHashes,
        partitioner: Partitioner | None,
    ) -> None:
        self.refusal: ClientError | None = None
        """Why no records are taken: the producer is closed, or broken, or has no transaction at the moment."""
        self.transactions: Transactions | None = None
        self._cluster = cluster
        self._accumulator = accumulator
        self._memory = accumulator.memory
        self._sender = sender
        self._config = config
        self._hashes = hashes
        self._partitioner = partitioner
        self._begun_bytes = 0

    async def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[RecordHeader],
        partition: int | None,
        timestamp: int,
    ) -> Delivery:
        """Put a record into a batch, beginning one where none is open."""
        deadline = self._cluster.clock.monotonic() + self._config.max_block_ms / 1000
        size = self._checked_size(key, value, headers)
        while True:
            queue = await self._find_queue(topic, value, key, partition, deadline)
            if queue.open is not None and queue.try_append is not None:
                index = queue.try_append(timestamp, key, value, headers)
                if index >= 0:
                    return Delivery(queue.open, index, timestamp)
                self._accumulator.end_batch(queue)  # it is full, and another partition may be next
                self._sender.wake()
            elif await self._reserve(queue, size, deadline):
                delivery = self._begin(queue, self._reservation(size), timestamp, key, value, headers)
                if self.is_turn_due():
                    await asyncio.sleep(0)
                return delivery

    def append_now(
        self,
        topic: TopicQueues,
        queue: PartitionQueue,
        is_keyless: bool,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader],
    ) -> Delivery | None:
        """Begin a batch with a record, if that needs no waiting; None where `append` has to be gone through."""
        if topic.version != self._cluster.version:
            return None
        accumulator = self._accumulator
        if queue.open is not None:
            accumulator.end_batch(queue)
            if is_keyless:
                queue = self.next_queue(topic)
                if queue.open is not None:
                    return None
        wanted = accumulator.batch_bytes
        size = HEADER_SIZE + record_size_bound(key, value, headers)
        if size > wanted or not self._memory.try_reserve(wanted):
            return None
        return self._begin(queue, wanted, timestamp, key, value, headers)

    def is_turn_due(self) -> bool:
        """Whether it is time to let the loop send what is full: a caller that only ever sends would starve it."""
        if self._begun_bytes < _TURN_BYTES:
            return False
        self._begun_bytes = 0
        return True

    def _begin(
        self,
        queue: PartitionQueue,
        reserved_bytes: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader],
    ) -> Delivery:
        now = self._cluster.clock.monotonic()
        batch = self._accumulator.begin_batch(queue, now=now, reserved_bytes=reserved_bytes)
        assert queue.try_append is not None, "a batch that was just begun is open"
        queue.try_append(timestamp, key, value, headers)
        self._begun_bytes += reserved_bytes
        self.begun(queue)
        return Delivery(batch, 0, timestamp)

    def begun(self, queue: PartitionQueue) -> None:
        """Take notice that a partition has a new batch."""
        if self.transactions is not None:
            self.transactions.joined(queue.topic_partition)
        self._sender.wake()

    async def topic(self, name: str, timeout_ms: float) -> TopicQueues:
        """Give a topic's queues as metadata has them now, waiting for metadata where there is none."""
        queues = self._accumulator.topics.get(name)
        if queues is None or not queues.partitions_count:
            self._cluster.watch(name, allow_auto_topic_creation=True)
            found = await self._cluster.retrying(
                f"looking for topic {name}",
                lambda: self._cluster.topic(name, allow_auto_topic_creation=True),
                timeout_ms=int(timeout_ms),
            )
            queues = self._accumulator.topics.get(name)
            if queues is None:
                queues = self._accumulator.topics[name] = TopicQueues(name)
            queues.update(found, self._cluster.version)
        elif queues.version != self._cluster.version:
            known = self._cluster.known.topics.get(name)
            if known is not None and not known.error_code:
                queues.update(known, self._cluster.version)
        return queues

    def check(self) -> None:
        """Raise where no more records are taken."""
        if self.refusal is not None:
            raise self.refusal

    def next_queue(self, topic: TopicQueues) -> PartitionQueue:
        """Give the partition that records without a key go to now."""
        return self._accumulator.sticky_queue(topic, self._available)

    async def _find_queue(
        self, topic: str, value: bytes | None, key: bytes | None, partition: int | None, deadline: float
    ) -> PartitionQueue:
        self.check()
        queues = await self.topic(topic, self._left_ms(deadline))
        self.check()
        if partition is None:
            if self._partitioner is not None:
                partition = self._partitioner(topic, key, value, queues.partitions_count)
            elif key is None or self._config.partitioner_ignore_keys:
                return self.next_queue(queues)
            else:
                partition = self._hashes.partition_of(key, queues.partitions_count)
        return queues.partitions.get(partition) or await self._new_queue(topic, partition, deadline)

    async def queue_of(self, topic: str, partition: int) -> PartitionQueue:
        """Give a partition's queue, waiting max.block.ms for it to be known; BrokerError where it stays unknown."""
        deadline = self._cluster.clock.monotonic() + self._config.max_block_ms / 1000
        return await self._new_queue(topic, partition, deadline)

    async def _new_queue(self, topic: str, partition: int, deadline: float) -> PartitionQueue:
        await self._wait_for_partition(topic, partition, self._left_ms(deadline))
        return (await self.topic(topic, self._left_ms(deadline))).partitions[partition]

    async def _wait_for_partition(self, topic: str, partition: int, timeout_ms: float) -> None:
        """Wait until the topic has a partition: it may have been added a moment ago."""

        async def attempt() -> TopicMetadata:
            self._cluster.expire_metadata()
            found = await self._cluster.topic(topic)
            if partition not in found.partitions:
                raise broker_error(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic} has partitions 0 to {len(found.partitions) - 1}, not {partition}",
                )
            return found

        await self._cluster.retrying(f"looking for partition {topic}-{partition}", attempt, timeout_ms=int(timeout_ms))

    def _available(self, topic: TopicQueues) -> list[int]:
        """Give the partitions that can be written to now, as far as is known."""
        known = self._cluster.known.topics.get(topic.name)
        if known is None:
            return []
        limit_ms = self._config.partitioner_availability_timeout_ms
        oldest = self._cluster.clock.monotonic() - limit_ms / 1000
        available: list[int] = []
        for number, partition in known.partitions.items():
            queue = topic.partitions.get(number)
            if queue is None or partition.leader_id < 0:
                continue
            if limit_ms and queue.batches and queue.batches[0].created_at < oldest:
                continue
            available.append(number)
        return available

    async def _reserve(self, queue: PartitionQueue, size: int, deadline: float) -> bool:
        """Take memory for a batch; say whether it is to be begun: another task may have done that meanwhile."""
        wanted = self._reservation(size)
        if self._memory.try_reserve(wanted):
            return True
        self._sender.wake()
        await self._memory.reserve(wanted, self._left_ms(deadline))
        if self.refusal is None and queue.open is None:
            return True
        self._memory.release(wanted)
        return False

    def _reservation(self, size: int) -> int:
        """Say how much of the buffer a batch takes that begins with a record of `size`."""
        return min(max(self._accumulator.batch_bytes, size), self._memory.total_bytes)

    def _checked_size(self, key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader]) -> int:
        size = HEADER_SIZE + record_size_bound(key, value, headers)
        for limit, name in (
            (self._config.max_request_size, "max.request.size"),
            (self._memory.total_bytes, "buffer.memory"),
        ):
            if size > limit:
                raise RecordTooLarge(f"a record of {size} bytes is larger than {name}, {limit}")
        return size

    def _left_ms(self, deadline: float) -> float:
        return max((deadline - self._cluster.clock.monotonic()) * 1000, 0.0)
