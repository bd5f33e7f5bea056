"""A consumer that is killed with -9 and started again fifty times: it leaves nothing out, and in transactions nothing
comes twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tailrace.client import Admin, Consumer, Producer, TopicPartition
from tailrace.client.admin import NewTopic
from tailrace.testing.broker_process import BrokerProcess
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

KILLS = 50
RECORDS = 4_000
RECORDS_READ = 30_000
"""Reading goes faster than copying, and must not be done before the last kill."""
PARTITIONS = 2
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("restarts"), SETTINGS) as broker:
        yield broker.bootstrap_servers


class Life:
    """One run of the member's process, and what it said; as a context manager it is killed at the end."""

    def __init__(self, arguments: list[str], errors: Path) -> None:
        command = [sys.executable, "-m", "tests.faults.consuming_member", *arguments]
        with errors.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.lines.append(line.strip())

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> list[str]:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.lines


async def fill(servers: str, count: int, *topics: str) -> None:
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics])
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            await producer.send(topics[0], b"%d" % number, partition=number % PARTITIONS)


def live_and_die(arguments: list[str], errors: Path, random: Random) -> list[str]:
    """Kill the member at a random moment, fifty times; give everything that it said."""
    said: list[str] = []
    for number in range(KILLS):
        with Life(arguments, errors) as life:
            steps = random.randint(0, 4)
            wait_for(lambda life=life, steps=steps: len(life.lines) > steps, f"step {steps} of life {number}")  # type: ignore[misc]
        said += life.lines
    return said


async def test_every_record_is_read_at_least_once(servers: str, tmp_path: Path) -> None:
    await fill(servers, RECORDS_READ, "read-source")
    arguments = ["read", servers, "read-source", "readers"]
    said = live_and_die([*arguments, "5"], tmp_path / "errors", Random(1))
    values = {int(word) for line in said for word in line.split()}
    assert len(values) < RECORDS_READ, "the kills came too late to say anything"
    with Life([*arguments, "500"], tmp_path / "errors") as last:

        def everything() -> bool:
            return len(values | {int(word) for line in list(last.lines) for word in line.split()}) == RECORDS_READ

        wait_for(everything, "every record", 60)
    assert "Traceback" not in (tmp_path / "errors").read_text()


async def test_in_transactions_every_record_is_copied_exactly_once(servers: str, tmp_path: Path) -> None:
    await fill(servers, RECORDS, "copy-source", "copy-target")
    arguments = ["copy", servers, "copy-source", "copiers", "copy-target"]
    said = live_and_die(arguments, tmp_path / "errors", Random(2))
    assert sum(line.startswith("copied") for line in said) < RECORDS / 20
    found: Counter[int] = Counter()
    async with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        reader.assign([TopicPartition("copy-target", number) for number in range(PARTITIONS)])
        with Life(arguments, tmp_path / "errors"):
            while len(found) < RECORDS:
                records = await reader.poll(30_000)
                assert records, f"{len(found)} of {RECORDS} copied: {(tmp_path / 'errors').read_text()[-2000:]}"
                found.update(int(record.value or b"-1") for record in records)
        found.update(int(record.value or b"-1") for record in await reader.poll(500))
    assert set(found) == set(range(RECORDS))
    assert set(found.values()) == {1}
