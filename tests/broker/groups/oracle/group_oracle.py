"""Apache Kafka's own group coordinator, run by Java on virtual time: events in, records and answers out.

`GroupOracle.java` beside this file is compiled once a run. A list of events goes to it as one line of JSON, and the
list of what each one did comes back: `{"records": [...], "response": ..., "answers": [...], "error": ...}`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tailrace.testing.apache_kafka import classpath, unavailable

SOURCE = Path(__file__).with_name("GroupOracle.java")
Event = dict[str, Any]
Outcome = dict[str, Any]


def missing() -> str | None:
    """Say why the oracle cannot be asked here, or None where it can."""
    return unavailable() or (None if shutil.which("javac") else "javac is not installed")


class GroupOracle:
    """A running oracle; a context manager that ends it."""

    def __init__(self, folder: Path) -> None:
        jars = classpath()
        subprocess.run(["javac", "-d", str(folder), "-cp", jars, str(SOURCE)], check=True)
        command = ["java", "-Xmx512m", "-cp", f"{folder}:{jars}", "org.apache.kafka.coordinator.group.GroupOracle"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, events: Sequence[Event]) -> list[Outcome]:
        """Perform the events and give what each did."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(events)) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert isinstance(answer, list), answer
        return answer

    def __enter__(self) -> GroupOracle:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
