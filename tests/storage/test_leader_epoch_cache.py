"""Leader epochs: which offsets each wrote, after every kind of truncation, crash and damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.leader_epoch_cache import LeaderEpochCache
from tailrace.testing.faulty_disk import FaultyDisk

NAME = "leader-epoch-checkpoint"


def filled(path: Path, disk: Disk | None = None) -> LeaderEpochCache:
    cache = LeaderEpochCache(disk or Disk(), path / NAME)
    for epoch, offset in ((2, 0), (4, 10), (5, 25)):
        assert cache.assign(epoch, offset)
    return cache


def test_epochs_are_written_at_once(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    assert (tmp_path / NAME).read_text() == "0\n3\n2 0\n4 10\n5 25\n"
    assert LeaderEpochCache(Disk(), tmp_path / NAME).entries == cache.entries == [(2, 0), (4, 10), (5, 25)]
    assert (cache.latest_epoch, cache.latest_entry, cache.earliest_entry) == (5, (5, 25), (2, 0))


def test_empty_log_has_no_epoch(tmp_path: Path) -> None:
    cache = LeaderEpochCache(Disk(), tmp_path / NAME)
    assert (cache.latest_epoch, cache.latest_entry, cache.earliest_entry) == (None, None, None)
    assert cache.end_offset_for(0, 10) == (-1, -1)
    assert (cache.epoch_for_offset(3), cache.previous_epoch(3)) == (None, None)


def test_same_epoch_is_no_news(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    assert not cache.assign(5, 25)
    assert not cache.assign(5, 99)
    assert cache.entries[-1] == (5, 25)


@pytest.mark.parametrize(
    ("epoch", "offset", "left"),
    [
        (6, 25, [(2, 0), (4, 10), (6, 25)]),
        (6, 5, [(2, 0), (6, 5)]),
        (5, 20, [(2, 0), (4, 10), (5, 20)]),
        (4, 30, [(2, 0), (4, 30)]),
        (3, 30, [(2, 0), (3, 30)]),
        (9, 0, [(9, 0)]),
    ],
)
def test_entries_that_contradict_are_removed(
    tmp_path: Path, epoch: int, offset: int, left: list[tuple[int, int]]
) -> None:
    cache = filled(tmp_path)
    cache.assign(epoch, offset)
    assert cache.entries == left
    assert LeaderEpochCache(Disk(), tmp_path / NAME).entries == left


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1)])
def test_negative_epoch_or_offset_is_refused(tmp_path: Path, epoch: int, offset: int) -> None:
    with pytest.raises(ValueError, match="neither may be negative"):
        filled(tmp_path).assign(epoch, offset)


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, (-1, -1)), (0, (0, 0)), (1, (1, 0)), (2, (2, 10)), (3, (2, 10)), (4, (4, 25)), (5, (5, 40)), (6, (-1, -1))],
)
def test_end_offset_of_an_epoch(tmp_path: Path, epoch: int, answer: tuple[int, int]) -> None:
    assert filled(tmp_path).end_offset_for(epoch, 40) == answer


def test_epoch_of_an_offset(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    assert [cache.epoch_for_offset(offset) for offset in (0, 9, 10, 24, 25, 99)] == [2, 2, 4, 4, 5, 5]
    assert [cache.previous_epoch(epoch) for epoch in (2, 3, 4, 5, 9)] == [None, 2, 2, 4, 5]


def test_truncation_from_the_end(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    cache.truncate_from_end(26)
    assert len(cache.entries) == 3
    cache.truncate_from_end(25)
    assert cache.entries == [(2, 0), (4, 10)]
    cache.truncate_from_end(0)
    assert cache.entries == []


def test_truncation_from_the_start(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    cache.truncate_from_start(0)
    assert cache.entries[0] == (2, 0)
    cache.truncate_from_start(9)
    assert cache.entries == [(2, 9), (4, 10), (5, 25)]
    cache.truncate_from_start(12)
    assert cache.entries == [(4, 12), (5, 25)]
    cache.truncate_from_start(90)
    assert cache.entries == [(5, 90)]
    assert cache.end_offset_for(2, 100) == (2, 90)


def test_epochs_survive_a_loss_of_power_once_flushed(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    cache = filled(tmp_path, disk)
    cache.flush()
    syncs = disk.calls["sync"]
    cache.flush()
    assert disk.calls["sync"] == syncs, "nothing changed, nothing to wait for"
    cache.assign(7, 30)
    disk.lose_power()
    assert LeaderEpochCache(Disk(), tmp_path / NAME).entries == [(2, 0), (4, 10), (5, 25)]


def test_failed_write_leaves_memory_and_file_alike(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    cache = filled(tmp_path, disk)
    disk.fail("rename")
    with pytest.raises(DiskError):
        cache.assign(6, 50)
    assert cache.entries == LeaderEpochCache(Disk(), tmp_path / NAME).entries == [(2, 0), (4, 10), (5, 25)]


@pytest.mark.parametrize(
    "text",
    ["", "0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0 0\n1 5\n", "0\n1\n0\n", "0\n1\nx 0\n", "0\n1\n-1 0\n",
     "0\n2\n1 5\n0 9\n", "0\n2\n0 5\n1 5\n", "0\nx\n", "\udcff"],
)  # fmt: skip
def test_damaged_checkpoint_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptFile):
        LeaderEpochCache(Disk(), tmp_path / NAME)


def test_damaged_checkpoint_is_replaced_by_what_the_log_says(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("damaged")
    cache = LeaderEpochCache.empty(Disk(), tmp_path / NAME)
    assert (tmp_path / NAME).read_text() == "damaged"
    cache.assign(3, 0)
    cache.flush()
    assert LeaderEpochCache(Disk(), tmp_path / NAME).entries == [(3, 0)]
