"""A member of a group in a process of its own, made of our consumer and producer, that a test ends with -9.

    read SERVERS SOURCE GROUP MAX      prints the values of the records that it was given, at most MAX at a time, and
                                       commits then
    copy SERVERS SOURCE GROUP TARGET   copies them in transactions that hold the group's offsets, and says how far it is

What it has done it says before the next step, so that it can be killed between any two.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tailrace.client import Consumer, ConsumerRecord, OffsetAndMetadata, Producer, TopicPartition

RECORDS_MAX = 20


def member(
    servers: str, source: str, group: str, *, records_max: int = RECORDS_MAX, **options: Any
) -> Consumer[bytes, bytes]:
    consumer = Consumer(
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=1_000,
        heartbeat_interval_ms=100,
        max_poll_records=records_max,
        **options,
    )
    consumer.subscribe([source])
    return consumer


def say(words: object) -> None:
    print(words, flush=True)


async def read(servers: str, source: str, group: str, records_max: str) -> None:
    async with member(servers, source, group, records_max=int(records_max)) as consumer:
        while True:
            records = await consumer.poll(1_000)
            if records:
                say(" ".join((record.value or b"").decode() for record in records))
                await consumer.commit()


async def copy(servers: str, source: str, group: str, target: str) -> None:
    consumer = member(servers, source, group, group_instance_id="copier", isolation_level="read_committed")
    async with consumer, Producer(bootstrap_servers=servers, transactional_id=group, linger_ms=0) as producer:
        await producer.init_transactions()
        while True:
            records = await consumer.poll(1_000)
            if records:
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, record.value, partition=record.partition)
                    say("sent")
                    await producer.send_offsets_to_transaction(next_offsets(records), consumer.group_metadata())
                    say("added")
                say(f"copied {len(records)}")


def next_offsets(records: list[ConsumerRecord[bytes, bytes]]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {r.topic_partition: OffsetAndMetadata(r.offset + 1, leader_epoch=r.leader_epoch) for r in records}


if __name__ == "__main__":
    modes = {"read": read, "copy": copy}
    asyncio.run(modes[sys.argv[1]](*sys.argv[2:]))
