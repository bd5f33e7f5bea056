"""Tailrace's client beside confluent-kafka, aiokafka and kafka-python, in one run on one broker.

    python -m bench.client [--rounds N] [--broker tailrace|kafka] [--only NAME,NAME] [--quick]

Prints CPU microseconds a record (the whole client process: all threads, and the kernel's work for it) and records a
second, for values of 100 B and 1 KB, and says whether what is required holds. Each measurement has a process of its
own, and the clients take turns, so that what the machine does meanwhile strikes all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.client_producers import PRODUCERS, Cost, Task
from bench.figures import Server, make_topic
from tailrace.testing.apache_kafka import ApacheKafka
from tailrace.testing.broker_process import BrokerProcess

SIZES = {"100 B": 100, "1 KB": 1_000}
SHAPES = {"16 KB batches": (16_384, 5), "128 KB batches": (131_072, 5)}
BYTES = 120_000_000
MEASUREMENTS = {"produce": PRODUCERS}

REQUIRED = [
    ("tailrace send", "aiokafka", 1.0),
    ("tailrace send_arrow", "confluent-kafka", 1 / 3),
]
"""Who may cost at most so many times what another costs."""

Figures = dict[tuple[str, str, str], list[Cost]]


def measure_apart(name: str, task: Task) -> Cost:
    """Measure in a new process."""
    command = [sys.executable, "-m", "bench.client", "--measure", name, json.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def measure_all(server: Server, names: list[str], rounds: int, scale: float, say: Any) -> Figures:
    """Let each client take its turn, in every size and shape, `rounds` times."""
    figures: Figures = defaultdict(list)
    for number in range(rounds):
        for size, value_bytes in SIZES.items():
            for shape, (batch_bytes, linger_ms) in SHAPES.items():
                for name in names:
                    say(f"round {number + 1} of {rounds}: {size}, {shape}, {name}")
                    count = int(min(BYTES / value_bytes, 300_000) * scale)
                    task = Task(
                        server.bootstrap_servers,
                        make_topic(server),
                        count,
                        value_bytes,
                        count // 2,
                        batch_bytes,
                        linger_ms,
                    )
                    figures[name, size, shape].append(measure_apart(name, task))
    return figures


def table_of(figures: Figures, names: list[str], size: str) -> Table:
    table = Table("client", *(f"{shape}: µs/record" for shape in SHAPES), *(f"{shape}: records/s" for shape in SHAPES))
    table.title = f"produce, {size}"
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
        if ours not in names or theirs not in names:
            continue
        for size in SIZES:
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
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broker", choices=["tailrace", "kafka"], default="tailrace")
    parser.add_argument("--only", help="names of clients, separated by commas")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to try the benchmark itself")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "TASK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, task = options.measure
        print(json.dumps(asdict(PRODUCERS[name](Task(**json.loads(task))))))
        return 0
    names = options.only.split(",") if options.only else list(PRODUCERS)
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
