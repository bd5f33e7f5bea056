"""Random operations on a log, with crashes and failing disks, against a plain model. The seed is in the test's name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation.compacted_simulation import CompactedSimulation
from tests.simulation.log_simulation import LogSimulation

STEPS = 5_000
MEMORY = Path("/dev/shm")


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory in memory where there is one: the loss of power is simulated, a real disk would only be slower."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as path:
        yield Path(path)


def run(root: Path, seed: int, steps: int, kind: type[LogSimulation] = LogSimulation) -> LogSimulation:
    simulation = kind(root, seed)
    for step in range(steps):
        try:
            simulation.step()
        except BaseException as error:
            error.add_note(f"seed {seed}, step {step}: {simulation.log!r}")
            raise
    simulation.check_all()
    return simulation


@pytest.mark.parametrize("seed", range(20))
def test_log_is_as_the_model_says(root: Path, seed: int) -> None:
    simulation = run(root, seed, STEPS)
    assert set(simulation.counts) >= {"append", "read", "truncate", "kill", "interrupt", "fault", "power"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_log_is_as_the_model_says_for_long(root: Path, seed: int) -> None:
    simulation = run(root, seed, 50_000)
    assert simulation.counts["append"] > 10_000


@pytest.mark.parametrize("seed", range(2000, 2006))
def test_compacted_log_is_as_the_model_says(root: Path, seed: int) -> None:
    simulation = run(root, seed, 2_000, CompactedSimulation)
    assert set(simulation.counts) >= {"append", "read", "compact", "truncate"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3000, 3020))
def test_compacted_log_is_as_the_model_says_for_long(root: Path, seed: int) -> None:
    simulation = run(root, seed, 20_000, CompactedSimulation)
    assert simulation.counts["compact"] > 100
