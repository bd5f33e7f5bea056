"""Transcripts: a file of events in words, each followed by what a state machine answered, indented by four.

`make transcripts` writes the answers anew; one reads the diff and commits what one understands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent / "transcripts"
Perform = Callable[[list[str]], Iterable[list[str]]]


def is_event(line: str) -> bool:
    """Whether the line is neither an answer, nor a comment, nor empty."""
    return bool(line.strip()) and line[0] not in " #"


def transcripts(name: str) -> list[Path]:
    """Give the transcripts of one state machine."""
    return sorted((ROOT / name).glob("*.txt"))


def check(path: Path, perform: Perform, *, regenerate: bool) -> None:
    """Hold the machine against the transcript, or write the transcript anew."""
    lines = path.read_text().splitlines()
    actual = list(_answered(lines, perform))
    if regenerate:
        path.write_text("\n".join(actual) + "\n")
    assert actual == path.read_text().splitlines()


def _answered(lines: list[str], perform: Perform) -> Iterator[str]:
    answers = iter(perform([line for line in lines if is_event(line)]))
    for line in lines:
        if not line.startswith("    "):
            yield line
            if is_event(line):
                yield from (f"    {answer}" for answer in next(answers))
