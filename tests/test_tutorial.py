"""The tutorial, run from its first line to its last against a broker: what it says was printed, is printed."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tailrace.cli.main import main
from tailrace.testing.broker_process import BrokerProcess

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"
ADDRESS = "localhost:9092"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}

_BLOCK = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Example:
    """Code or commands, the line they stand at, and what they print; None where the tutorial does not say."""

    kind: str
    text: str
    line: int
    printed: str | None = None


def examples() -> list[Example]:
    page, found = TUTORIAL.read_text(), list[Example]()
    for match in _BLOCK.finditer(page):
        line = page.count("\n", 0, match.start()) + 2
        if match["kind"] == "text":
            found[-1].printed = match["text"]
        else:
            found.append(Example(match["kind"], match["text"], line))
    return found


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, SETTINGS) as process:
        monkeypatch.setenv("TAILRACE_BOOTSTRAP_SERVER", process.bootstrap_servers)
        yield process


class Reader:
    """Somebody who types what the tutorial says."""

    def __init__(self, servers: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._servers = servers
        self._capsys = capsys
        self._names: dict[str, object] = {"__name__": "tutorial"}
        self._loop = asyncio.new_event_loop()

    def type_python(self, example: Example) -> str:
        source = "\n" * (example.line - 1) + example.text.replace(ADDRESS, self._servers)
        code = compile(source, str(TUTORIAL), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, self._names)
        if inspect.iscoroutine(result):
            self._loop.run_until_complete(result)
        return self._capsys.readouterr().out

    def type_commands(self, example: Example) -> tuple[str, str]:
        """Give what the commands print, and what the tutorial says that they do; columns count, not their widths."""
        printed: list[str] = []
        said: list[str] = []
        for line in example.text.splitlines():
            if line.startswith("$ "):
                program, *arguments = shlex.split(line[2:])
                assert program == "tailrace"
                assert main(arguments) == 0, self._capsys.readouterr().err
                printed += self._capsys.readouterr().out.splitlines()
            else:
                said.append(" ".join(line.split()))
        return "\n".join(" ".join(line.split()) for line in printed), "\n".join(said)

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


def test_every_example_prints_what_the_tutorial_says(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    reader = Reader(broker.bootstrap_servers, capsys)
    try:
        for example in examples():
            where = f"{TUTORIAL.name}, line {example.line}"
            if example.kind == "python":
                assert reader.type_python(example) == (example.printed or ""), where
            elif example.kind == "console":
                printed, said = reader.type_commands(example)
                assert printed == said, where
    finally:
        reader.close()


def test_no_example_is_left_out_by_mistake() -> None:
    kinds = [example.kind for example in examples()]
    assert set(kinds) == {"python", "console", "python no-run"}
    assert kinds.count("python no-run") == 1
