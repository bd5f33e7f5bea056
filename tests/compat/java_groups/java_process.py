"""One of Kafka's long-running tools in a JVM of its own, which says in a line of JSON what happens to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailrace.testing.apache_kafka import classpath
from tests.waiting import wait_for

DEADLINE_S = 90.0
"""JVMs start slowly where several do at once on few cores."""

Event = dict[str, Any]


class JavaProcess:
    """A running tool and the events that it has printed; a context manager that kills it.

    Its output goes to a file, so that it never waits for somebody to read.
    """

    def __init__(self, folder: Path, program: str, *arguments: str, artifacts: tuple[str, ...] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.output = folder / f"{program.rpartition('.')[2]}-{len(list(folder.iterdir()))}.out"
        self.complaints = self.output.with_suffix(".err")
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        command = ["java", *options, "-cp", classpath(*artifacts), program, *arguments]
        with self.output.open("wb") as output, self.complaints.open("wb") as complaints:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=complaints)

    @property
    def events(self) -> list[Event]:
        """Every whole line of JSON that was printed until now."""
        lines = self.output.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for_event(self, name: str, count: int = 1) -> Event:
        """Wait until an event of this name was printed so many times, and give the last of them."""
        wait_until([self], lambda: len(self.named(name)) >= count)
        return self.named(name)[count - 1]

    def named(self, name: str) -> list[Event]:
        return [event for event in self.events if name in (event.get("name"), event.get("stage"))]

    def wait(self) -> int:
        """Wait for its end, and give its exit status."""
        return self._process.wait(DEADLINE_S)

    def kill(self) -> None:
        """End it with -9."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """End it as SIGTERM does, so that it closes what it has open."""
        self._process.terminate()
        return self.wait()

    def __enter__(self) -> JavaProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def __repr__(self) -> str:
        return f"{self.output.name}: {self.output.read_text()[-1500:]} {self.complaints.read_text()[-1500:]}"


def wait_until(processes: list[JavaProcess], condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Ask again until the condition holds; fail with what the processes printed when the deadline passes."""
    try:
        wait_for(condition, deadline_s=deadline_s)
    except AssertionError as error:
        raise AssertionError(f"{error}: {processes}") from None
