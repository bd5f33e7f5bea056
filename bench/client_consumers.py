"""What the consumers of four clients cost, in one run on one broker.

    python -m bench.client_consumers [--rounds N] [--broker tailrace|kafka] [--only NAME,NAME] [--quick]

Each function reads so many records of one partition, which are there already, with its client's own defaults. What is
read is looked at as far as a program always does: the values' lengths are added up, and the sum has to be right. The
figures are those of `bench.client`: CPU microseconds a record of the whole process, and records a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import confluent_kafka
from rich.console import Console
from rich.table import Table

from bench.client_producers import Cost, Task
from bench.figures import Server, make_topic
from tailrace.testing.apache_kafka import ApacheKafka
from tailrace.testing.broker_process import BrokerProcess

SIZES = {"100 B": 100, "1 KB": 1_000}
SHAPES = {"16 KB batches": 16_384, "128 KB batches": 131_072}
BYTES = 100_000_000


def _run(main: Callable[[], Awaitable[Cost]]) -> Cost:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())  # type: ignore[arg-type]


def _measure(task: Task, read: Callable[[int], Awaitable[int]]) -> Cost:
    """Read with a consumer of its own once to warm up, then with another one from its making to its end.

    A client that fetches ahead would else have done part of the work before the measurement begins.
    """

    async def main() -> Cost:
        await read(task.warm_up)
        cpu, wall = time.process_time(), time.perf_counter()
        size = await read(task.count)
        cost = Cost((time.process_time() - cpu) / task.count * 1e6, task.count / (time.perf_counter() - wall))
        assert size >= task.count * task.value_bytes, "values are missing or cut off"
        return cost

    return _run(main)


def tailrace_poll(task: Task) -> Cost:
    from tailrace.client import Consumer, TopicPartition

    async def read(count: int) -> int:
        size = 0
        async with Consumer(bootstrap_servers=task.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(task.topic, 0)])
            while count > 0:
                records = await consumer.poll(10_000)
                assert records, "nothing came for ten seconds"
                for record in records:
                    size += len(record.value or b"")
                count -= len(records)
        return size

    return _measure(task, read)


def tailrace_poll_arrow(task: Task) -> Cost:
    import pyarrow.compute as pc

    from tailrace.client import Consumer, TopicPartition

    async def read(count: int) -> int:
        size = 0
        async with Consumer(bootstrap_servers=task.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(task.topic, 0)])
            while count > 0:
                batch = await consumer.poll_arrow(10_000)
                assert batch.num_rows, "nothing came for ten seconds"
                lengths: Any = pc.binary_length(batch.column("value"))  # type: ignore[attr-defined]
                size += pc.sum(lengths).as_py()  # type: ignore[attr-defined]
                count -= batch.num_rows
        return size

    return _measure(task, read)


def confluent_consume(task: Task) -> Cost:
    async def read(count: int) -> int:
        size = 0
        settings = {"bootstrap.servers": task.bootstrap_servers, "group.id": "bench", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer(settings)
        consumer.assign([confluent_kafka.TopicPartition(task.topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        while count > 0:
            messages = consumer.consume(500, 10)
            assert messages, "nothing came for ten seconds"
            for message in messages:
                size += len(message.value() or b"")
            count -= len(messages)
        consumer.close()
        return size

    return _measure(task, read)


def aiokafka_getmany(task: Task) -> Cost:
    import aiokafka

    async def read(count: int) -> int:
        size = 0
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=task.bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False
        )
        consumer.assign([aiokafka.TopicPartition(task.topic, 0)])
        await consumer.start()
        while count > 0:
            for records in (await consumer.getmany(timeout_ms=10_000, max_records=500)).values():
                for record in records:
                    size += len(record.value or b"")
                count -= len(records)
        await consumer.stop()
        return size

    return _measure(task, read)


def kafka_python_poll(task: Task) -> Cost:
    import kafka

    async def read(count: int) -> int:
        size = 0
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=task.bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False
        )
        consumer.assign([kafka.TopicPartition(task.topic, 0)])
        while count > 0:
            for records in consumer.poll(10_000, max_records=500).values():
                for record in records:
                    size += len(record.value or b"")
                count -= len(records)
        consumer.close()
        return size

    return _measure(task, read)


CONSUMERS: dict[str, Callable[[Task], Cost]] = {
    "confluent-kafka": confluent_consume,
    "aiokafka": aiokafka_getmany,
    "kafka-python": kafka_python_poll,
    "tailrace poll": tailrace_poll,
    "tailrace poll_arrow": tailrace_poll_arrow,
}

REQUIRED = [
    ("tailrace poll", "aiokafka", 1.0),
    ("tailrace poll_arrow", "confluent-kafka", 1 / 3),
]
"""Who may cost at most so many times what another costs."""

Figures = dict[tuple[str, str, str], list[Cost]]


def fill(server: Server, count: int, value_bytes: int, batch_bytes: int) -> str:
    """Make a topic with so many records in batches of one size."""
    topic = make_topic(server)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "batch.size": batch_bytes,
            "batch.num.messages": 1_000_000,
            "linger.ms": 100,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    filler = b"x" * (value_bytes - 10)
    for number in range(count):
        producer.produce(topic, b"%010d" % number + filler)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    return topic


def measure_apart(name: str, task: Task) -> Cost:
    """Measure in a new process."""
    command = [sys.executable, "-m", "bench.client_consumers", "--measure", name, json.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def measure_all(server: Server, names: list[str], rounds: int, scale: float, say: Any) -> Figures:
    """Let each client read the same topics in its turn, `rounds` times."""
    figures: Figures = defaultdict(list)
    for size, value_bytes in SIZES.items():
        for shape, batch_bytes in SHAPES.items():
            count = int(min(BYTES / value_bytes, 600_000) * scale)
            say(f"{size}, {shape}: producing")
            topic = fill(server, count + count // 10, value_bytes, batch_bytes)
            task = Task(server.bootstrap_servers, topic, count, value_bytes, count // 10, batch_bytes, 0)
            for number in range(rounds):
                for name in names:
                    say(f"{size}, {shape}, round {number + 1} of {rounds}: {name}")
                    figures[name, size, shape].append(measure_apart(name, task))
    return figures


def table_of(figures: Figures, names: list[str], size: str) -> Table:
    table = Table("client", *(f"{shape}: µs/record" for shape in SHAPES), *(f"{shape}: records/s" for shape in SHAPES))
    table.title = f"consume, {size}"
    for name in names:
        costs = [figures[name, size, shape] for shape in SHAPES]
        cpu = [f"{statistics.median(c.cpu_us_a_record for c in cost):.2f}" for cost in costs]
        rate = [f"{statistics.median(c.records_s for c in cost):,.0f}" for cost in costs]
        table.add_row(name, *cpu, *rate)
    return table


def judge(figures: Figures, names: list[str], console: Console) -> bool:
    """Say of each requirement whether it holds."""
    everything_holds = True
    for ours, theirs, bound in REQUIRED:
        for size in SIZES if ours in names and theirs in names else ():
            for shape in SHAPES:
                mine, other = (
                    statistics.median(cost.cpu_us_a_record for cost in figures[name, size, shape])
                    for name in (ours, theirs)
                )
                holds = mine <= other * bound
                everything_holds &= holds
                word = "holds" if holds else "MISSED"
                console.print(f"{ours} / {theirs}, {size}, {shape}: {mine / other:.2f}, at most {bound:.2f}: {word}")
    return everything_holds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.client_consumers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broker", choices=["tailrace", "kafka"], default="tailrace")
    parser.add_argument("--only", help="names of clients, separated by commas")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to try the benchmark itself")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "TASK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, task = options.measure
        print(json.dumps(asdict(CONSUMERS[name](Task(**json.loads(task))))))
        return 0
    names = options.only.split(",") if options.only else list(CONSUMERS)
    console = Console(width=160)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        kind = BrokerProcess if options.broker == "tailrace" else ApacheKafka
        server = stack.enter_context(kind(Path(folder) / "broker"))
        with console.status("starting") as status:
            scale = 0.1 if options.quick else 1.0
            figures = measure_all(server, names, options.rounds, scale, status.update)
    for size in SIZES:
        console.print(table_of(figures, names, size))
    return 0 if judge(figures, names, console) else 1


if __name__ == "__main__":
    sys.exit(main())
