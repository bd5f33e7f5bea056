"""A producer: takes records, fills batches, and says where each record went.

    async with Producer(cluster, ProducerSettings(compression=Compression.LZ4)) as producer:
        delivery = await producer.send("flights", b"value", key=b"key")
        metadata = await delivery

`send` returns once the record is in a batch, and waits while the buffer is full; the future it gives is done when the
brokers have answered. Records of one partition stay in order. Idempotent by default: a retry never writes a record
twice. How batches travel is `sender`'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tailrace.client.accumulator import Accumulator, Delivery, RecordMetadata
from tailrace.client.cluster import Cluster
from tailrace.client.errors import ClientClosed, RecordTooLarge
from tailrace.client.partitioner import Partitioner
from tailrace.client.sender import Sender
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.record import RecordHeader
from tailrace.protocol.records.writer import record_size_bound
from tailrace.protocol.topic_partition import TopicPartition

__all__ = ["Producer", "ProducerSettings", "RecordMetadata"]

ACKS_ALL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """What a producer is told, with the defaults of Kafka 4.1's Java producer."""

    acks: int = ACKS_ALL
    enable_idempotence: bool = True
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    batch_size: int = 16_384
    linger_ms: float = 5
    max_request_size: int = 1_048_576
    buffer_memory: int = 32 * 1024 * 1024
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    max_in_flight_requests_per_connection: int = 5

    def __post_init__(self) -> None:
        if self.acks not in (-1, 0, 1):
            raise ValueError(f"acks is -1 (all), 0 or 1, not {self.acks}")
        if self.enable_idempotence and self.acks != ACKS_ALL:
            raise ValueError(f"idempotence needs acks=all, not acks={self.acks}")


class Producer:
    """Writes records to the cluster that `cluster` is connected to."""

    def __init__(
        self, cluster: Cluster, settings: ProducerSettings | None = None, *, random: Random | None = None
    ) -> None:
        self._cluster = cluster
        self._settings = settings = ProducerSettings() if settings is None else settings
        self._accumulator = Accumulator(
            batch_bytes=settings.batch_size,
            linger_s=settings.linger_ms / 1000,
            compression=settings.compression,
            level=settings.compression_level,
        )
        self._partitioner = Partitioner(Random() if random is None else random)  # spreads load, nothing secret
        self._sender = Sender(
            cluster,
            self._accumulator,
            acks=settings.acks,
            is_idempotent=settings.enable_idempotence,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            request_bytes_max=settings.max_request_size,
            in_flight_max=settings.max_in_flight_requests_per_connection,
        )
        self._is_closed = False

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        await self.close(flush=error_type is None)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[RecordHeader] = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Put a record into a batch; the future is done when it is written, or why it is not."""
        size = record_size_bound(key, value, headers)
        if size > self._settings.max_request_size:
            raise RecordTooLarge(
                f"a record of {size} bytes is larger than max.request.size, {self._settings.max_request_size}"
            )
        if not self._cluster.is_fresh(topic):
            await self._cluster.retrying(
                f"looking for topic {topic}",
                lambda: self._cluster.topic(topic, allow_auto_topic_creation=True),
                timeout_ms=self._settings.max_block_ms,
            )
        chosen = self._choose_partition(topic, partition, key)
        while self._accumulator.buffered_bytes + size > self._settings.buffer_memory and not self._is_closed:
            await self._sender.room()
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        delivery: Delivery = asyncio.get_running_loop().create_future()
        is_new, is_full = self._accumulator.append(
            chosen,
            timestamp=self._cluster.clock.time_ms() if timestamp_ms is None else timestamp_ms,
            key=key,
            value=value,
            headers=headers,
            delivery=delivery,
            now=self._cluster.clock.monotonic(),
        )
        if is_full and key is None and partition is None:
            self._partitioner.batch_filled(topic, chosen.partition)
        if is_new or is_full:
            self._sender.wake()
        return delivery

    async def flush(self) -> None:
        """Send everything now, and wait until it is answered or given up."""
        await self._sender.flush()

    async def close(self, *, flush: bool = True) -> None:
        """Flush, unless told not to, and stop; records that were not sent fail with ClientClosed."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if flush:
                await self._sender.flush()
        finally:
            await self._sender.close()

    def _choose_partition(self, topic: str, partition: int | None, key: bytes | None) -> TopicPartition:
        partitions = self._cluster.known.topics[topic].partitions
        if partition is None:
            available = [number for number, known in partitions.items() if known.leader_id >= 0]
            partition = self._partitioner.choose(topic, key, len(partitions), available)
        elif partition not in partitions:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {topic} has partitions 0 to {len(partitions) - 1}, not {partition}",
            )
        return TopicPartition(topic, partition)
