"""Tailrace's Spark connector beside Spark's own, on one broker in one run: `python -m bench.spark`.

Needs pyspark, and the official connector's jars, which come from Maven Central. Each case reads or writes the same
topic with each connector in turn, some rounds after a warm-up; medians are compared. CPU is that of Spark's whole
process tree, Java and Python, and of its planning processes; the broker is not in it. `tuned` is the official connector
with fetches as large as ours.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tailrace.client import Admin, Producer
from tailrace.client.admin.topics import NewTopic
from tailrace.spark import session
from tailrace.testing.broker_process import BrokerProcess
from tailrace.testing.spark_connector import jars

PARTITIONS = 4
BATCHES = 20
TUNED = {
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "20000",
}
JSON_FIELDS = "id long, carrier string, origin string, delay double, cancelled boolean, tail string, hour int"
READERS: dict[str, tuple[str, dict[str, str]]] = {
    "kafka": ("kafka", {}),
    "kafka tuned": ("kafka", TUNED),
    "tailrace": ("tailrace", {}),
}
WRITERS: dict[str, tuple[str, dict[str, str]]] = {
    "kafka": ("kafka", {}),
    "kafka tuned": ("kafka", {"kafka.linger.ms": "20", "kafka.batch.size": str(256 << 10)}),
    "tailrace": ("tailrace", {}),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """What one query took."""

    rows_s: float
    rows_a_cpu_s: float
    batch_ms: float = 0.0


class Bench:
    """One Spark session and one broker."""

    def __init__(self, spark: Any, servers: str, folder: Path) -> None:
        self.spark, self.servers, self.folder = spark, servers, folder
        self.java_pid: int = spark.sparkContext._gateway.proc.pid
        self.runs = 0

    def fill(self, topic: str, count: int, size: int, codec: str) -> None:
        """Write records of `size` bytes with keys of 8, half of each random."""
        asyncio.run(_fill(self.servers, topic, count, size, codec))

    def fill_json(self, topic: str, count: int) -> None:
        """Write JSON of about 190 bytes."""
        asyncio.run(_fill_json(self.servers, topic, count))

    def read(self, topic: str, count: int, reader: str) -> Figure:
        """Read all columns of a topic into nothing."""
        name, options = READERS[reader]
        frame = self.spark.read.format(name).options(**self._options(topic), **options).load()
        return self._measure(count, lambda: frame.write.format("noop").mode("overwrite").save())

    def read_json(self, topic: str, count: int, reader: str) -> Figure:
        """Read a topic of JSON into typed columns: with from_json, or decoded by the source."""
        name, options = READERS[reader]
        if name == "tailrace":
            options = {"format": "json", "valueSchema": JSON_FIELDS}
        source = self.spark.read.format(name).options(**self._options(topic), **options)
        if name == "tailrace":
            values = source.schema(f"value struct<{JSON_FIELDS}>").load().select("value.*")
        else:
            values = source.load().selectExpr(f"from_json(string(value), '{JSON_FIELDS}') as value").select("value.*")
        return self._measure(count, lambda: values.write.format("noop").mode("overwrite").save())

    def stream(self, topic: str, count: int, reader: str) -> Figure:
        """Read a topic in micro-batches into nothing; the first of them are warm-up."""
        name, options = READERS[reader]
        limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(count // BATCHES)}
        frame = self.spark.readStream.format(name).options(**self._options(topic), **options, **limits).load()
        self.runs += 1
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        times: list[float] = []

        def run() -> None:
            query = writer.option("checkpointLocation", str(self.folder / f"checkpoint{self.runs}")).start()
            query.awaitTermination()
            times.extend(p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows)

        figure = self._measure(count, run)
        return Figure(figure.rows_s, figure.rows_a_cpu_s, statistics.median(times[2:] or times))

    def write(self, frame: Any, count: int, writer: str) -> Figure:
        """Write rows that are in memory to a new topic."""
        self.runs += 1
        topic = f"sink{self.runs}"
        asyncio.run(_create(self.servers, topic))
        name, options = WRITERS[writer]
        query = frame.write.format(name).mode("append").options(**self._options(None), topic=topic, **options)
        return self._measure(count, query.save)

    def _options(self, topic: str | None) -> dict[str, str]:
        server = {"kafka.bootstrap.servers": self.servers}
        return server if topic is None else {**server, "subscribe": topic}

    def _measure(self, count: int, work: Callable[[], object]) -> Figure:
        cpu, wall = tree_cpu_seconds(self.java_pid), time.perf_counter()
        work()
        wall = time.perf_counter() - wall
        cpu = tree_cpu_seconds(self.java_pid) - cpu
        return Figure(count / wall, count / cpu)


async def _create(servers: str, topic: str) -> None:
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(topic, PARTITIONS)])


async def _fill_json(servers: str, topic: str, count: int) -> None:
    await _create(servers, topic)
    row = (
        '{"id":%d,"carrier":"UA","origin":"EWR","dest":"IAH","delay":%d.5,"cancelled":false,"tail":"N%05d",'
        '"note":"scheduled, boarded, left the gate, in the air, landed, at the gate, closed","hour":%d}'
    )
    async with Producer(bootstrap_servers=servers) as producer:
        for first in range(0, count, 50_000):
            numbers = range(first, min(first + 50_000, count))
            values = [row % (n, n % 90, n % 10**5, n % 24) for n in numbers]
            await producer.send_arrow(topic, pa.table({"value": values}))


async def _fill(servers: str, topic: str, count: int, size: int, codec: str) -> None:
    await _create(servers, topic)
    pattern = b"".join(b"%08d" % (n * 7919 % 10**8) for n in range(size // 8 + 1))
    async with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        for first in range(0, count, 50_000):
            numbers = range(first, min(first + 50_000, count))
            values = [(b"%08d" % n + os.urandom(size // 2) + pattern)[:size] for n in numbers]
            keys = [b"%08d" % n for n in numbers]
            await producer.send_arrow(topic, pa.table({"key": keys, "value": values}))


def tree_cpu_seconds(root: int) -> float:
    """User and system time of a process and of all that came from it, also of those that have ended."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                fields = (place / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended meanwhile, and is in its parent's count
            parents[int(place.name)] = int(fields[1])
            ticks[int(place.name)] = sum(int(field) for field in fields[11:15])
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(ticks.get(pid, 0) for pid in tree) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Case:
    """One line of comparison: what has to be there first, and what is measured with each connector."""

    name: str
    prepare: Callable[[], object]
    measure: Callable[[str], Figure]
    connectors: dict[str, tuple[str, dict[str, str]]]


def rounds_of(rounds: int, case: Case, say: Callable[[str], None]) -> dict[str, Figure]:
    """Measure each connector in turn, the first round being warm-up; give medians."""
    taken: dict[str, list[Figure]] = defaultdict(list)
    for number in range(rounds + 1):
        for name in case.connectors:
            say(f"{case.name}: round {number} of {rounds}, {name}")
            figure = case.measure(name)
            if number:
                taken[name].append(figure)
    return {
        name: Figure(
            statistics.median(f.rows_s for f in figures),
            statistics.median(f.rows_a_cpu_s for f in figures),
            statistics.median(f.batch_ms for f in figures),
        )
        for name, figures in taken.items()
    }


def add_rows(table: Table, case: str, figures: dict[str, Figure]) -> None:
    tuned = figures["kafka tuned"]
    for name, figure in figures.items():
        table.add_row(
            case,
            name,
            f"{figure.rows_s / 1e3:,.0f} k",
            f"{figure.rows_a_cpu_s / 1e3:,.0f} k",
            f"{figure.batch_ms:,.0f}" if figure.batch_ms else "",
            f"{figure.rows_s / tuned.rows_s:.2f}",
            f"{tuned.rows_a_cpu_s / figure.rows_a_cpu_s:.2f}",
        )


def cases_of(bench: Bench, megabytes: int) -> list[Case]:
    """Give all cases: reading by size and codec, JSON, a stream, and the sink."""
    cases: list[Case] = []
    for size in (100, 200, 1000):
        for codec in ("none", "lz4"):
            topic, count = f"bench-{size}-{codec}", megabytes * 1_000_000 // size
            fill = partial(bench.fill, topic, count, size, codec)
            cases.append(Case(f"batch, {size} B, {codec}", fill, partial(bench.read, topic, count), READERS))
    count = megabytes * 1_000_000 // 200
    fill_json = partial(bench.fill_json, "bench-json", count)
    cases.append(Case("JSON to 7 columns, 190 B", fill_json, partial(bench.read_json, "bench-json", count), READERS))
    fill = partial(bench.fill, "bench-stream", count, 200, "none")
    cases.append(Case("stream, 200 B, 20 batches", fill, partial(bench.stream, "bench-stream", count), READERS))
    rows = bench.spark.range(count).selectExpr("string(id) as key", "repeat('x', 200) as value").cache()
    cases.append(Case("sink, 200 B", rows.count, partial(bench.write, rows, count), WRITERS))
    return cases


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200, help="how much each topic holds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", default="", help="only cases that have this in their name: batch, 1000 B, JSON, sink")
    arguments = parser.parse_args()
    found = ",".join(str(jar) for jar in jars())
    if not found:
        raise SystemExit("the official connector's jars cannot be fetched: Maven is missing, or has no network")
    console = Console()
    columns = ("case", "connector", "rows/s", "rows a CPU s", "median batch, ms", "rows/s to tuned", "CPU to tuned")
    table = Table(*columns, title="Spark: Tailrace's connector beside the official one")
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder) / "broker") as broker:
        config = {
            "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.ui.showConsoleProgress": "false",
            "spark.jars": found,
        }
        spark = session("bench", master="local[2]", config=config)
        bench = Bench(spark, broker.bootstrap_servers, Path(folder))
        with console.status("starting") as status:
            for case in cases_of(bench, arguments.megabytes):
                if arguments.case in case.name:
                    status.update(f"{case.name}: preparing")
                    case.prepare()
                    add_rows(table, case.name, rounds_of(arguments.rounds, case, status.update))
        spark.stop()
    console.print(table)


if __name__ == "__main__":
    main()
