"""What the producers of four clients cost: each function sends so many records once and waits for all of them.

Every client runs with its own defaults but for what the comparison fixes: acks=all, batch size and linger, and the
system's own size for the socket's buffer, which is the others' default. The record's value is a new object each time,
as a program would make it; no key, no headers, no compression.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

BULK_RECORDS = 20_000
"""How many records are given at a time to who takes many."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be sent: `warm_up` records first, which are not measured, then `count`."""

    bootstrap_servers: str
    topic: str
    count: int
    value_bytes: int
    warm_up: int
    batch_bytes: int
    linger_ms: int


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU of the whole process, all its threads and the kernel's work for it, and the time on the wall."""

    cpu_us_a_record: float
    records_s: float


Send = Callable[[int], Awaitable[None]]


async def _measure_async(task: Task, send: Send) -> Cost:
    await send(task.warm_up)
    cpu, wall = time.process_time(), time.perf_counter()
    await send(task.count)
    return _cost(task, time.process_time() - cpu, time.perf_counter() - wall)


def _cost(task: Task, cpu: float, wall: float) -> Cost:
    return Cost(cpu / task.count * 1e6, task.count / wall)


def _run(main: Callable[[], Awaitable[Cost]]) -> Cost:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())  # type: ignore[arg-type]


def _tailrace(task: Task, make_send: Callable[[Any], Send]) -> Cost:
    from tailrace.client import Producer

    async def main() -> Cost:
        async with Producer(
            bootstrap_servers=task.bootstrap_servers,
            batch_size=task.batch_bytes,
            linger_ms=task.linger_ms,
            send_buffer_bytes=-1,
        ) as producer:
            return await _measure_async(task, make_send(producer))

    return _run(main)


def tailrace_send(task: Task) -> Cost:
    filler = b"x" * (task.value_bytes - 10)

    def make_send(producer: Any) -> Send:
        async def send(count: int) -> None:
            for number in range(count):
                delivery = await producer.send(task.topic, b"%010d" % number + filler)
            await producer.flush()
            delivery.result()

        return send

    return _tailrace(task, make_send)


def tailrace_send_batch(task: Task) -> Cost:
    filler = b"x" * (task.value_bytes - 10)

    def make_send(producer: Any) -> Send:
        async def send(count: int) -> None:
            deliveries = []
            for first in range(0, count, BULK_RECORDS):
                numbers = range(first, min(first + BULK_RECORDS, count))
                values = [b"%010d" % number + filler for number in numbers]
                deliveries.append(await producer.send_batch(task.topic, values))
            for delivery in deliveries:
                await delivery

        return send

    return _tailrace(task, make_send)


def tailrace_send_arrow(task: Task) -> Cost:
    """The table is there before: who has columns did not make them for this."""
    import pyarrow

    filler = b"x" * (task.value_bytes - 10)
    table = pyarrow.table({"value": [b"%010d" % number + filler for number in range(task.count)]})

    def make_send(producer: Any) -> Send:
        async def send(count: int) -> None:
            deliveries = []
            for first in range(0, count, BULK_RECORDS):
                rows = table.slice(first, min(BULK_RECORDS, count - first))
                deliveries.append(await producer.send_arrow(task.topic, rows))
            for delivery in deliveries:
                await delivery

        return send

    return _tailrace(task, make_send)


def confluent_produce(task: Task) -> Cost:
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": task.bootstrap_servers,
            "acks": "all",
            "batch.size": task.batch_bytes,
            "linger.ms": task.linger_ms,
            "queue.buffering.max.messages": 10_000_000,
            "queue.buffering.max.kbytes": 32 * 1024,
        }
    )
    filler = b"x" * (task.value_bytes - 10)

    def send(count: int) -> None:
        for number in range(count):
            while True:
                try:
                    producer.produce(task.topic, b"%010d" % number + filler)
                    break
                except BufferError:
                    producer.poll(0.01)
            if number % 1000 == 0:
                producer.poll(0)
        assert producer.flush(120) == 0

    send(task.warm_up)
    cpu, wall = time.process_time(), time.perf_counter()
    send(task.count)
    return _cost(task, time.process_time() - cpu, time.perf_counter() - wall)


def aiokafka_send(task: Task) -> Cost:
    import aiokafka

    filler = b"x" * (task.value_bytes - 10)

    async def main() -> Cost:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=task.bootstrap_servers,
            acks="all",
            max_batch_size=task.batch_bytes,
            linger_ms=task.linger_ms,
        )
        await producer.start()

        async def send(count: int) -> None:
            for number in range(count):
                await producer.send(task.topic, b"%010d" % number + filler)
            await producer.flush()

        try:
            return await _measure_async(task, send)
        finally:
            await producer.stop()

    return _run(main)


def kafka_python_send(task: Task) -> Cost:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=task.bootstrap_servers,
        acks="all",
        batch_size=task.batch_bytes,
        linger_ms=task.linger_ms,
    )
    filler = b"x" * (task.value_bytes - 10)

    def send(count: int) -> None:
        for number in range(count):
            producer.send(task.topic, b"%010d" % number + filler)
        producer.flush()

    send(task.warm_up)
    cpu, wall = time.process_time(), time.perf_counter()
    send(task.count)
    cost = _cost(task, time.process_time() - cpu, time.perf_counter() - wall)
    producer.close()
    return cost


PRODUCERS: dict[str, Callable[[Task], Cost]] = {
    "confluent-kafka": confluent_produce,
    "aiokafka": aiokafka_send,
    "kafka-python": kafka_python_send,
    "tailrace send": tailrace_send,
    "tailrace send_batch": tailrace_send_batch,
    "tailrace send_arrow": tailrace_send_arrow,
}
