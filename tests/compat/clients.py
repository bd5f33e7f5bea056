"""One face over confluent-kafka, kafka-python and aiokafka, so that one test asks the same of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiokafka
import confluent_kafka
import kafka

DEADLINE_S = 30


@dataclass(frozen=True)
class Sent:
    """A record to produce."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0


@dataclass(frozen=True)
class Received:
    """A record as a consumer got it."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = field(default=0, compare=False)


class ConfluentKafka:
    """librdkafka behind confluent-kafka."""

    name = "confluent-kafka"

    def produce(self, servers: str, topic: str, records: Sequence[Sent], **options: Any) -> list[int]:
        offsets: list[int] = []
        errors: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error:
                errors.append(error)
            else:
                offsets.append(message.offset())

        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 5, **options})
        for record in records:
            extra = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=delivered,
                **extra,
            )
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0, "not everything was delivered"
        if errors:
            raise confluent_kafka.KafkaException(errors[0])
        return offsets

    def consume(self, servers: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "compat",
                "enable.auto.commit": False,
                "fetch.message.max.bytes": 20_000_000,
                "check.crcs": True,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            received: list[Received] = []
            while len(received) < count:
                messages = consumer.consume(count - len(received), timeout=DEADLINE_S)
                assert messages, f"{len(received)} of {count} records came"
                for message in messages:
                    assert message.error() is None, message.error()
                    received.append(
                        Received(
                            message.offset(),
                            message.value(),
                            message.key(),
                            tuple(message.headers() or ()),
                            message.timestamp()[1],
                        )
                    )
            return received
        finally:
            consumer.close()


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def produce(self, servers: str, topic: str, records: Sequence[Sent], **options: Any) -> list[int]:
        codec = options.pop("compression.type", None)
        options = {key.replace(".", "_"): value for key, value in options.items()}
        producer = kafka.KafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec in (None, "none") else codec,
            linger_ms=5,
            **options,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            return [future.get(DEADLINE_S).offset for future in futures]
        finally:
            producer.close()

    def consume(self, servers: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=servers,
            group_id=None,
            max_partition_fetch_bytes=20_000_000,
            consumer_timeout_ms=DEADLINE_S * 1000,
        )
        try:
            assigned = kafka.TopicPartition(topic, partition)
            consumer.assign([assigned])
            consumer.seek(assigned, offset)
            received: list[Received] = []
            for message in consumer:
                headers = tuple(message.headers)
                received.append(Received(message.offset, message.value, message.key, headers, message.timestamp))
                if len(received) == count:
                    return received
            raise AssertionError(f"{len(received)} of {count} records came")
        finally:
            consumer.close()


class AioKafka:
    """aiokafka."""

    name = "aiokafka"

    def produce(self, servers: str, topic: str, records: Sequence[Sent], **options: Any) -> list[int]:
        return asyncio.run(asyncio.wait_for(self._produce(servers, topic, records, options), DEADLINE_S))

    async def _produce(self, servers: str, topic: str, records: Sequence[Sent], options: dict[str, Any]) -> list[int]:
        codec = options.pop("compression.type", None)
        options = {key.replace(".", "_"): value for key, value in options.items()}
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec in (None, "none") else codec,
            linger_ms=5,
            **options,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in records
            ]
            return [(await future).offset for future in futures]
        finally:
            await producer.stop()

    def consume(self, servers: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        return asyncio.run(asyncio.wait_for(self._consume(servers, topic, count, partition, offset), DEADLINE_S))

    async def _consume(self, servers: str, topic: str, count: int, partition: int, offset: int) -> list[Received]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=servers, group_id=None, max_partition_fetch_bytes=20_000_000
        )
        await consumer.start()
        try:
            assigned = aiokafka.TopicPartition(topic, partition)
            consumer.assign([assigned])
            consumer.seek(assigned, offset)
            received: list[Received] = []
            while len(received) < count:
                message = await consumer.getone()
                headers = tuple(message.headers)
                received.append(Received(message.offset, message.value, message.key, headers, message.timestamp))
            return received
        finally:
            await consumer.stop()


Client = ConfluentKafka | KafkaPython | AioKafka
CLIENTS: tuple[Client, ...] = (ConfluentKafka(), KafkaPython(), AioKafka())
