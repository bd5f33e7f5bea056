"""One member of a consumer group, as a process of its own that a test can end with -9.

It prints a line of JSON for each thing that happens to it: an assignment with its generation, the records that it was
given. Commits follow the processing, so that a record may come twice and is never left out.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Collection
from typing import Any

import aiokafka
from aiokafka.errors import KafkaError


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Tells which partitions come and go, and in which generation."""

    def __init__(self) -> None:
        self.consumer: Any = None

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        say(event="revoked", partitions=[p.partition for p in revoked])

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        generation = self.consumer._coordinator.generation
        say(event="assigned", generation=generation, partitions=[p.partition for p in assigned])


async def run(servers: str, topic: str, group: str) -> None:
    listener = Listener()
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=3000,
        heartbeat_interval_ms=300,
        retry_backoff_ms=50,
    )
    listener.consumer = consumer
    consumer.subscribe([topic], listener=listener)
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    await consumer.start()
    try:
        while not ending.is_set():
            batches = await consumer.getmany(timeout_ms=200, max_records=500)
            for partition, messages in batches.items():
                records = [(message.offset, int(message.value)) for message in messages]
                say(event="polled", partition=partition.partition, records=records)
            if batches:
                try:
                    await consumer.commit()
                except KafkaError as error:  # a rebalance took the partitions away: their next owner reads again
                    say(event="not committed", error=type(error).__name__)
    finally:
        await consumer.stop()
        say(event="left")


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:4]))
