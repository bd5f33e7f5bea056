"""The state machine by transcripts: what it writes, answers and tells for each event."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.transactions.machine_script import perform
from tests.transcript import check, transcripts


@pytest.mark.parametrize("path", transcripts("transaction"), ids=lambda path: path.stem)
def test_transcript(path: Path, regenerate_transcripts: bool) -> None:
    check(path, perform, regenerate=regenerate_transcripts)


def test_the_transcripts_are_there() -> None:
    assert len(transcripts("transaction")) >= 8
