"""Transcripts of producer state: what happens, what is answered, what is known afterwards.

`make transcripts` writes the answers anew; the slow tests hold them, and random events, against Apache Kafka's classes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tailrace.testing.apache_kafka import classpath, unavailable
from tests.storage.producer_state_events import random_events
from tests.storage.producer_state_script import perform

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "transcripts" / "producer_state").glob("*.txt"))
ORACLE = Path(__file__).parent / "kafka" / "ProducerStateOracle.java"
with_kafka = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


def is_event(line: str) -> bool:
    return bool(line.strip()) and line[0] not in " #"


def answered(lines: list[str], root: Path) -> list[str]:
    """Give a transcript with its answers, indented, behind each event."""
    answers = perform([line for line in lines if is_event(line)], root)
    written: list[str] = []
    for line in lines:
        if not line.startswith("    "):
            written.append(line)
            if is_event(line):
                written.extend(f"    {answer}" for answer in next(answers))
    return written


def ask_kafka(events: list[str], root: Path) -> list[str]:
    command = ["java", "-cp", classpath(), str(ORACLE), str(root)]
    found = subprocess.run(command, input="\n".join(events), capture_output=True, text=True, timeout=120, check=True)
    return found.stdout.splitlines()


def test_the_transcripts_are_there() -> None:
    assert len(TRANSCRIPTS) >= 7


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, tmp_path: Path, regenerate_transcripts: bool) -> None:
    lines = path.read_text().splitlines()
    actual = answered(lines, tmp_path)
    if regenerate_transcripts:
        path.write_text("\n".join(actual) + "\n")
    assert actual == path.read_text().splitlines()


@pytest.mark.slow
@with_kafka
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_kafka_gives_the_answers_of_the_transcript(path: Path, tmp_path: Path) -> None:
    lines = path.read_text().splitlines()
    answers = [line[4:] for line in lines if line.startswith("    ")]
    assert ask_kafka([line for line in lines if is_event(line)], tmp_path) == answers


@pytest.mark.slow
@with_kafka
def test_kafka_gives_the_same_answers_to_random_events(tmp_path: Path) -> None:
    runs = [random_events(seed, 200) for seed in range(200)]
    theirs = iter(ask_kafka([event for run in runs for event in run], tmp_path / "kafka"))
    for seed, run in enumerate(runs):
        for event, ours in zip(run, perform(run, tmp_path / str(seed)), strict=True):
            assert ours == [next(theirs) for _ in ours], f"seed {seed}, {event}"
    assert next(theirs, None) is None
