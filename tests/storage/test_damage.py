"""Random damage in every kind of file of a log: what is served is right, what is damaged is said, good bytes stay.

A log of several segments, with transactions and leader epochs, is made once; each case damages a copy of it.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.batch_header import iterate_batch_headers
from tailrace.storage.log import Log
from tests.simulation.log_model import LogModel
from tests.simulation.log_simulation import LogSimulation
from tests.storage.log_workshop import context, open_log

KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")
DAMAGES = ("flip", "cut", "zero", "extend", "remove")
CASES = [(kind, how) for kind in KINDS for how in DAMAGES if (kind, how) != (".log", "remove")]
"""A `.log` that is gone leaves a gap like compaction's: nothing tells them apart."""
CASES_EACH = 12


@dataclass(slots=True)
class Made:
    directory: Path
    simulation: LogSimulation
    recovery_point: int

    @property
    def model(self) -> LogModel:
        return self.simulation.model


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    simulation = LogSimulation(tmp_path_factory.mktemp("damage"), 7)
    while len(simulation.log.segments) < 6 or not simulation.model.aborted:
        simulation.chance.choice(
            (simulation.do_append, simulation.do_append, simulation.do_append, simulation.do_mark)
        )()
    point = simulation.log.segments[3].base_offset
    simulation.log.close()
    return Made(simulation.directory, simulation, point)


def damage(path: Path, how: str, chance: random.Random) -> None:
    """Damage a file of at least one byte."""
    data = bytearray(path.read_bytes())
    position = chance.randrange(len(data))
    while path.suffix == ".log" and position in unnoticed(bytes(data), how):
        position = chance.randrange(len(data))
    if how == "flip":
        data[position] ^= 1 << chance.randrange(8)
    elif how == "cut":
        del data[position:]
    elif how == "zero":
        data[position : position + 64] = bytes(len(data[position : position + 64]))
    elif how == "extend":
        data += chance.randbytes(chance.randrange(1, 100))
    path.write_bytes(data)
    if how == "remove":
        path.unlink()


def unnoticed(data: bytes, how: str) -> set[int]:
    """Give the positions where damage of a `.log` can't be told from what compaction leaves.

    No checksum covers base offset and leader epoch, and a segment cut between two batches has a gap behind it; the
    first bytes of the next batch are zeros, as behind any segment that was in use.
    """
    starts = [position for position, _ in iterate_batch_headers(data)]
    if how == "flip":
        return {start + byte for start in starts for byte in (*range(8), *range(12, 16))}
    return {start + byte for start in starts for byte in range(8)} if how == "cut" else set()


def reopen(made: Made, directory: Path, *, was_clean_stop: bool) -> Log:
    return open_log(
        directory,
        settings=made.simulation.config,
        surroundings=context(made.simulation.clock),
        was_clean_stop=was_clean_stop,
        recovery_point=made.model.log_end_offset if was_clean_stop else made.recovery_point,
        high_watermark=made.model.log_end_offset,
    )


def read_everything(log: Log, model: LogModel) -> None:
    """Read the log from each batch on; raises ApiError where it is offline, AssertionError where it lies."""
    log.check_online()
    for batch in model.batches:
        if batch.last_offset >= log.log_end_offset:
            break
        result = log.read(batch.last_offset, max_bytes=300, upper_offset=log.log_end_offset, min_one_message=True)
        found = bytes(result.records)
        assert model.bytes_from(batch.base_offset, log.log_end_offset).startswith(found)
        assert len(found) >= min(batch.header.size, 300)


def check_transactions(log: Log, model: LogModel) -> None:
    found = [
        (aborted.producer_id, aborted.first_offset, aborted.last_offset)
        for aborted in log.collect_aborted_transactions(0, log.last_stable_offset)
    ]
    wanted = [
        (aborted.producer_id, aborted.first_offset, aborted.last_offset)
        for aborted in model.aborted_between(0, log.last_stable_offset)
    ]
    assert found == wanted


def stored_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log*")))


def check(made: Made, directory: Path, kind: str, how: str, *, was_clean_stop: bool) -> str:
    """Open a damaged copy and hold it against the model; say how it ended: as before, shorter, or offline."""
    model = made.model
    before = stored_bytes(directory)
    log = reopen(made, directory, was_clean_stop=was_clean_stop)
    try:
        read_everything(log, model)
        if kind != ".txnindex" or how not in ("remove", "cut", "flip", "zero"):
            check_transactions(log, model)
    except ApiError:
        assert log.failure
        assert kind in (".log", ".txnindex"), f"{kind} can be made again from the log: {log.failure}"
        assert stored_bytes(directory) == before, "nothing may be deleted"
        return "offline"
    finally:
        log.take_out_of_use()
    if log.log_end_offset == model.log_end_offset:
        return "as before"
    assert kind == ".log"
    assert log.log_end_offset >= made.recovery_point
    return "shorter"


@pytest.mark.parametrize("was_clean_stop", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize(("kind", "how"), CASES)
def test_damage_is_noticed_or_does_no_harm(
    made: Made, tmp_path: Path, kind: str, how: str, was_clean_stop: bool
) -> None:
    chance = random.Random(f"{kind} {how} {was_clean_stop}")
    ends: list[str] = []
    for case in range(CASES_EACH):
        directory = tmp_path / f"flights-{case}"
        shutil.copytree(made.directory, directory)
        files = [path for path in sorted(directory.iterdir()) if path.name.endswith(kind) and path.stat().st_size]
        damage(chance.choice(files), how, chance)
        ends.append(check(made, directory, kind, how, was_clean_stop=was_clean_stop))
    if kind == ".log" and how in ("flip", "zero"):
        assert "offline" in ends
    if kind not in (".log", ".txnindex"):
        assert set(ends) == {"as before"}
