"""What every test may ask for: transcripts that write themselves anew."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-transcripts",
        action="store_true",
        help="write the answers of state machines into tests/transcripts instead of comparing them; read the diff",
    )


@pytest.fixture
def regenerate_transcripts(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--regenerate-transcripts"))
