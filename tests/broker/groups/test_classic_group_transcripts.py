"""The classic protocol by transcripts: what a group answers to each request and timer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.groups.classic_script import perform
from tests.transcript import check, transcripts


@pytest.mark.parametrize("path", transcripts("classic_group"), ids=lambda path: path.stem)
def test_transcript(path: Path, regenerate_transcripts: bool) -> None:
    check(path, perform, regenerate=regenerate_transcripts)


def test_the_transcripts_are_there() -> None:
    assert len(transcripts("classic_group")) >= 6
