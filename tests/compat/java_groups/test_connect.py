"""Kafka Connect's distributed workers: their group, their compacted topics, and two connectors that copy a file."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tailrace.testing.apache_kafka import unavailable
from tailrace.testing.broker_process import BrokerProcess
from tailrace.testing.ports import free_port
from tests.compat.java_groups.conftest import SETTINGS
from tests.compat.java_groups.java_process import JavaProcess, wait_until

CONNECT_FILE = "connect-file"
reason = unavailable(CONNECT_FILE)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(reason is not None, reason=str(reason))]

WORKER_SETTINGS = """
group.id=connect
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=5
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
exactly.once.source.support=enabled
offset.flush.interval.ms=500
scheduled.rebalance.max.delay.ms=0
session.timeout.ms=6000
heartbeat.interval.ms=500
plugin.discovery=service_load
"""


class Worker:
    """One worker and its REST interface."""

    def __init__(self, folder: Path, servers: str) -> None:
        self._url = f"http://127.0.0.1:{(port := free_port())}"
        folder.mkdir(parents=True)
        settings = folder / "worker.properties"
        settings.write_text(f"bootstrap.servers={servers}\nlisteners=http://127.0.0.1:{port}\n{WORKER_SETTINGS}")
        program = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.process = JavaProcess(folder, program, str(settings), artifacts=(CONNECT_FILE,))

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Give the answer, or None while the worker does not serve that yet."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def put(self, name: str, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        wait_until([self.process], lambda: self.ask("PUT", f"/connectors/{name}/config", settings))


def test_a_file_goes_through_a_topic_into_another_file_though_worker_and_broker_are_killed(tmp_path: Path) -> None:
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    lines: list[str] = []

    def write(count: int) -> None:
        more = [f"line {len(lines) + number}" for number in range(count)]
        lines.extend(more)
        with source.open("a") as file:
            file.writelines(f"{line}\n" for line in more)

    def has_arrived() -> bool:
        return target.exists() and set(target.read_text().splitlines()) == set(lines)

    write(200)
    with BrokerProcess(tmp_path / "broker", SETTINGS) as broker:
        first = Worker(tmp_path / "first", broker.bootstrap_servers)
        with first.process:
            package = "org.apache.kafka.connect.file.FileStream"
            first.put("from", connector_class=f"{package}SourceConnector", file=str(source), topic="lines")
            first.put("to", connector_class=f"{package}SinkConnector", file=str(target), topics="lines")
            wait_until([first.process], has_arrived)
            broker.kill()
            broker.start()
            write(200)
            wait_until([first.process], has_arrived)
        write(200)
        second = Worker(tmp_path / "second", broker.bootstrap_servers)
        with second.process:
            wait_until([second.process], lambda: sorted(second.ask("GET", "/connectors") or ()) == ["from", "to"])
            wait_until([second.process], has_arrived)
            read = second.ask("GET", "/connectors/from/offsets")
            assert read["offsets"][0]["partition"] == {"filename": str(source)}
            assert second.process.stop() in (0, 143)
