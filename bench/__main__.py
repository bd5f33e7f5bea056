"""Tailrace beside Apache Kafka 4.1 in one run: `python -m bench`.

Both brokers are up; every measurement is made on one and then on the other, several rounds after a warm-up, and the
medians are compared as ratios, because absolute figures move from machine to machine. Without Java, Tailrace alone.
The exit status is 1 where a figure misses what DESIGN requires.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.figures import MEASUREMENTS, Scale, Server, end_to_end, synchronous_produce
from bench.groups import commit_offsets, join_members
from bench.process_figures import resident_total_mb
from tailrace.testing.apache_kafka import ApacheKafka, unavailable
from tailrace.testing.broker_process import BrokerProcess


@dataclass(frozen=True, slots=True)
class Requirement:
    """A line of the table: a figure, its words, and the bound on Tailrace's ratio to Kafka (or on its own value).

    Without a bound it is only shown.
    """

    figure: str
    words: str
    bound: float | None
    is_ratio: bool = True
    larger_is_better: bool = False

    def holds(self, value: float) -> bool:
        if self.bound is None:
            return True
        return value >= self.bound if self.larger_is_better else value <= self.bound

    def __str__(self) -> str:
        if self.bound is None:
            return ""
        sign = "at least" if self.larger_is_better else "at most"
        return f"{sign} {self.bound:g}{'x Kafka' if self.is_ratio else ''}"


REQUIREMENTS = (
    Requirement("cpu_us_a_request", "CPU a one-record produce request, µs", 0.4),
    Requirement("requests_s", "one-record requests/s, pipelined", 2, larger_is_better=True),
    Requirement("synchronous_p50_ms", "synchronous produce, p50, ms", 0.7),
    Requirement("end_to_end_p50_ms", "end to end, p50, ms", 0.5),
    Requirement("produce_cpu_s_a_gb", "produce 1 KB records, broker CPU, s/GB", 0.8),
    Requirement("produce_mb_s", "produce 1 KB records, MB/s", 1, larger_is_better=True),
    Requirement("consume_cpu_s_a_gb", "consume 1 KB records, broker CPU, s/GB", 0.8),
    Requirement("consume_mb_s", "consume 1 KB records, MB/s", 1, larger_is_better=True),
    Requirement("commit_1000_p50_ms", "commit of 1,000 partitions, p50, ms", None),
    Requirement("commit_1000_cpu_ms", "commit of 1,000 partitions, broker CPU, ms", None),
    Requirement("rebalance_200_ms", "rebalance of 200 members, ms", None),
    Requirement("join_200_cpu_ms", "200 members join and rebalance, broker CPU, ms", None),
    Requirement("start_s", "start to first answer, s", 0.3, is_ratio=False),
    Requirement("resident_mb", "resident memory, idle, MB", 70, is_ratio=False),
)


TURNS = {synchronous_produce: 6, end_to_end: 6}
"""How often the servers take turns in one round; latencies change with what else the machine does, by the second."""


def measure(
    servers: dict[str, Server], rounds: int, scale: Scale, say: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Give the median of each figure for each server; the first round warms both up and is not counted.

    The servers take turns at who is first: the second one finds a machine that still tidies up after the first.
    """
    samples: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in servers}
    for round_number in range(rounds + 1):
        for measurement in (*MEASUREMENTS, commit_offsets, join_members):
            for turn in range(TURNS.get(measurement, 1)):
                names = list(servers) if (round_number + turn) % 2 else list(reversed(servers))
                for name in names:
                    say(f"round {round_number} of {rounds}: {measurement.__name__} on {name}")
                    for figure, value in measurement(servers[name], scale).items():
                        if round_number > 0:
                            samples[name][figure].append(value)
    return {
        name: {figure: statistics.median(values) for figure, values in figures.items()}
        for name, figures in samples.items()
    }


def table_of(medians: dict[str, dict[str, float]]) -> tuple[Table, bool]:
    """Lay the figures out, and say whether every requirement holds."""
    ours, theirs = medians["Tailrace"], medians.get("Apache Kafka")
    table = Table("figure", "Apache Kafka 4.1", "Tailrace", "ratio", "required", "")
    everything_holds = True
    for requirement in REQUIREMENTS:
        value = ours[requirement.figure]
        kafka = theirs[requirement.figure] if theirs else None
        ratio = value / kafka if kafka else None
        judged = ratio if requirement.is_ratio else value
        holds = None if judged is None else requirement.holds(judged)
        everything_holds &= holds is not False
        table.add_row(
            requirement.words,
            "" if kafka is None else f"{kafka:.4g}",
            f"{value:.4g}",
            "" if ratio is None else f"{ratio:.2f}",
            str(requirement),
            "" if requirement.bound is None else {True: "holds", False: "MISSED", None: ""}[holds],
        )
    return table, everything_holds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds after the warm-up (default 3)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: to try the benchmark itself")
    parser.add_argument("--alone", action="store_true", help="Tailrace alone, without Apache Kafka")
    options = parser.parse_args()
    scale = Scale(6_000, 100, 50, 30, 20) if options.quick else Scale()
    console = Console()
    reason = "asked for alone" if options.alone else unavailable()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers: dict[str, Server] = {"Tailrace": BrokerProcess(Path(folder) / "tailrace")}
        if reason:
            console.print(f"Tailrace alone: {reason}")
        else:
            servers["Apache Kafka"] = ApacheKafka(Path(folder) / "kafka")
        idle: dict[str, dict[str, float]] = {}
        for name, server in servers.items():
            stack.enter_context(server)
            idle[name] = {"start_s": server.start_seconds, "resident_mb": resident_total_mb(server.pid)}
        with console.status("starting") as status:
            medians = measure(servers, options.rounds, scale, status.update)
    for name, figures in idle.items():
        medians[name].update(figures)
    table, everything_holds = table_of(medians)
    console.print(table)
    return 0 if everything_holds else 1


if __name__ == "__main__":
    sys.exit(main())
