"""Reads partitions to their end with confluent-kafka: what a producer wrote is judged by somebody else's client."""

from __future__ import annotations

import asyncio

import confluent_kafka

DEADLINE_S = 30.0


async def read_partitions(
    servers: str, topic: str, partitions: int = 1, *, isolation: str = "read_committed"
) -> list[list[bytes]]:
    """Give the values of each partition, up to its end as it is now."""
    return await asyncio.to_thread(_read, servers, topic, partitions, isolation)


async def committed_offset(servers: str, group: str, topic: str, partition: int = 0) -> int:
    """Give what a group has committed; below 0 where that is nothing."""

    def ask() -> int:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
        try:
            (found,) = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], DEADLINE_S)
            assert found.error is None
            return int(found.offset)
        finally:
            consumer.close()

    return await asyncio.to_thread(ask)


def _read(servers: str, topic: str, partitions: int, isolation: str) -> list[list[bytes]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "other-reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
        }
    )
    values: list[list[bytes]] = [[] for _ in range(partitions)]
    left = set(range(partitions))
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in left])
        while left:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "neither a record nor the end came"
            error = message.error()
            if error is None:
                values[message.partition()].append(message.value())
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                left.discard(message.partition())
        return values
    finally:
        consumer.close()
