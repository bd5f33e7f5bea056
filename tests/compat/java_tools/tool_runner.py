"""Kafka's command line tools in one JVM: `ToolRunner` starts it, and each call is a tool with its arguments.

Starting a JVM takes a second, and a tool is done in a few milliseconds. A tool that ends the JVM or hangs costs a new
one, and says so in its status.
"""

from __future__ import annotations

import base64
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tailrace.testing.apache_kafka import classpath

SOURCE = Path(__file__).with_name("ToolRunner.java")
QUIET = Path(__file__).with_name("log4j2.properties")


@dataclass(slots=True, frozen=True)
class Ran:
    """What became of one tool: its exit status, or `timeout`, or `ended` where it took the JVM with it."""

    status: str
    out: str
    err: str


class ToolRunner:
    """A JVM that runs tools; a context manager that ends it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, tool: str, *arguments: str, stdin: str = "", timeout_s: int = 30) -> Ran:
        """Run the main method of a class with these arguments, and wait for its end."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        fields = [_encoded(field) for field in (tool, stdin, str(timeout_s), *arguments)]
        process.stdin.write(" ".join(fields) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().split()
        if len(answer) != 3:
            self.stop()
            return Ran("ended", "", "")
        ran = Ran(answer[0], _decoded(answer[1]), _decoded(answer[2]))
        if ran.status == "timeout":
            self.stop()
        return ran

    def stop(self) -> None:
        """End the JVM; the next tool starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> ToolRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = ["java", "-Xmx512m", f"-Dlog4j2.configurationFile={QUIET}", "-cp", classpath(), str(SOURCE)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self._process


def _encoded(field: str) -> str:
    return base64.b64encode(field.encode()).decode() or "-"


def _decoded(field: str) -> str:
    return "" if field == "-" else base64.b64decode(field).decode(errors="replace")
