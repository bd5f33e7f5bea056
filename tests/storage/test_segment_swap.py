"""A process that dies, or a disk that fails or loses power, anywhere in a cleaning: old segments or new, never less."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tailrace.protocol.errors import ApiError
from tailrace.storage.disk import DiskError
from tailrace.storage.log import Log
from tailrace.testing.faulty_disk import FaultyDisk, ProcessKilled
from tailrace.testing.virtual_clock import VirtualClock
from tests.storage.compaction_workshop import committed, latest, put, records, roll_and_clean
from tests.storage.log_workshop import config, context, end_transaction, forget, open_log

SETTINGS = config(cleanup_policy="compact", segment_bytes=700, index_interval_bytes=100)
KEYS = 5


class Workshop:
    """A compacted log of several segments on a disk that fails on demand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "flights-0").mkdir()
        self.disk = FaultyDisk(root)
        self.clock = VirtualClock()
        self.log = self.open(is_clean=True)
        self.end = 0

    def open(self, *, is_clean: bool = False, recovery_point: int = 0) -> Log:
        surroundings = context(self.clock, self.disk)
        return open_log(
            self.root / "flights-0",
            settings=SETTINGS,
            surroundings=surroundings,
            was_clean_stop=is_clean,
            recovery_point=recovery_point,
            high_watermark=2**62,
        )

    def fill(self, seed: int) -> None:
        chance = random.Random(seed)
        sequence = 0
        for number in range(40):
            key = f"key{chance.randrange(KEYS)}"
            if number % 7 == 3:
                put(self.log, (key, "aborted" * 5), producer=(9, 0, sequence), is_transactional=True)
                sequence += 1
                end_transaction(self.log, 9, commit=False)
                self.log.update_high_watermark(self.log.log_end_offset)
            else:
                put(self.log, (key, None if chance.random() < 0.2 else f"{number}" * 20))
        self.log.roll()
        self.end = self.log.log_end_offset

    def flush(self) -> None:
        """Bring everything to the disk, as the flusher does after a roll."""
        self.log.flusher.flush_now()
        for segment in self.log.segments:
            segment.sync(with_indexes=True)
        self.disk.sync_directory(self.log.directory)
        self.disk.sync_directory(self.root)

    def reopen(self) -> None:
        self.disk.heal()
        self.log = self.open(recovery_point=self.end)
        assert self.log.failure is None, self.log.failure

    def check(self, table: dict[bytes, bytes], survivors: list[object]) -> None:
        """What had to stay is there, in order; what may go is there or not; nothing is left lying about."""
        assert self.log.log_end_offset == self.end
        assert latest(committed(self.log)) == table
        found: list[object] = [(one.offset, one.key, one.value) for one in records(self.log)]
        assert set(survivors) <= set(found)
        assert found == sorted(found, key=lambda one: one[0])  # type: ignore[index]
        assert self.log.producer_state.first_undecided_offset is None
        names = [path.name for path in self.log.directory.iterdir()]
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


def expectation(root: Path, seed: int) -> tuple[dict[bytes, bytes], list[object], int]:
    """Clean the same log without trouble; give its table, what is left, and how many calls to the disk it took."""
    root.mkdir()
    workshop = Workshop(root)
    workshop.fill(seed)
    table = latest(committed(workshop.log))
    before = sum(workshop.disk.calls.values())
    roll_and_clean(workshop.log)
    calls = sum(workshop.disk.calls.values()) - before
    assert latest(committed(workshop.log)) == table
    return table, [(one.offset, one.key, one.value) for one in records(workshop.log)], calls


def prepared(root: Path, seed: int) -> Workshop:
    root.mkdir()
    workshop = Workshop(root)
    workshop.fill(seed)
    workshop.flush()
    return workshop


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_kill_at_any_step_leaves_old_or_new(tmp_path: Path, stride: int) -> None:
    table, survivors, calls = expectation(tmp_path / "expected", 1)
    assert calls > 100
    for step in range(0, calls, stride):
        workshop = prepared(tmp_path / str(step), 1)
        workshop.disk.kill_after(step)
        with pytest.raises(ProcessKilled):
            roll_and_clean(workshop.log)
        forget(workshop.log)
        workshop.reopen()
        workshop.check(table, survivors)
        # And the next cleaning ends where an undisturbed one does.
        roll_and_clean(workshop.log)
        workshop.check(table, survivors)
        workshop.log.close()


@pytest.mark.parametrize("seed", range(8))
def test_power_lost_at_any_step_leaves_old_or_new(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    table, survivors, calls = expectation(tmp_path / "expected", seed)
    for turn in range(4):
        workshop = prepared(tmp_path / str(turn), seed)
        workshop.disk.kill_after(chance.randrange(calls))
        with pytest.raises(ProcessKilled):
            roll_and_clean(workshop.log)
        workshop.log.take_out_of_use()
        workshop.disk.lose_power(chance if turn else None)
        workshop.reopen()
        workshop.check(table, survivors)


@pytest.mark.parametrize(
    "operation", ["open", "write", "allocate", "truncate", "sync", "rename", "map", "read", "unlink"]
)
def test_failing_disk_leaves_old_or_new(tmp_path: Path, operation: str) -> None:
    table, survivors, _ = expectation(tmp_path / "expected", 3)
    failed = 0
    for nth in range(1, 60, 12):
        workshop = prepared(tmp_path / f"{nth}", 3)
        workshop.disk.fail(operation, nth=nth)
        try:
            roll_and_clean(workshop.log)
        except (DiskError, ApiError):
            failed += 1
            forget(workshop.log)
            workshop.reopen()
        workshop.disk.heal()
        workshop.check(table, survivors)
    assert failed or operation in ("unlink", "write", "allocate", "truncate", "map")
