"""The consumer protocol by transcripts: what a group answers to each heartbeat, and what it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.groups.consumer_script import perform
from tests.transcript import check, transcripts


@pytest.mark.parametrize("path", transcripts("consumer_group"), ids=lambda path: path.stem)
def test_transcript(path: Path, regenerate_transcripts: bool) -> None:
    check(path, perform, regenerate=regenerate_transcripts)
    assert path.read_text().count("\n    ") > 10


def test_the_transcripts_are_there() -> None:
    assert len(transcripts("consumer_group")) >= 8
