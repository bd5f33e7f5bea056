"""The disk: typed failures, whole writes, real blocks under mappings; and its stand-in that fails on demand."""

from __future__ import annotations

import errno
import random
from itertools import pairwise
from pathlib import Path

import pytest

from tailrace.storage.disk import ALLOCATION_BYTES_MAX, ALLOCATION_BYTES_MIN, Disk, DiskError, grown_size
from tailrace.testing.faulty_disk import FaultyDisk, ProcessKilled


def write(disk: Disk, path: Path, data: bytes, *, sync: bool) -> None:
    file = disk.open(path, create=True)
    file.write_at(0, data)
    if sync:
        file.sync()
    file.close()


def test_error_names_operation_path_and_errno(tmp_path: Path) -> None:
    with pytest.raises(DiskError) as caught:
        Disk().open(tmp_path / "missing")
    error = caught.value
    assert (error.operation, error.path, error.errno) == ("open", tmp_path / "missing", errno.ENOENT)
    assert (error.is_missing, error.is_disk_full, error.is_locked) == (True, False, False)
    assert str(error) == f"open {tmp_path / 'missing'}: ENOENT: No such file or directory"
    assert DiskError("write", tmp_path, errno.ENOSPC).is_disk_full
    assert DiskError("write", tmp_path, errno.EDQUOT).is_disk_full
    assert not DiskError("write", tmp_path, errno.EIO).is_disk_full


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        (lambda disk, path: disk.file_size(path), "stat"),
        (lambda disk, path: disk.list_directory(path), "list"),
        (lambda disk, path: disk.read_file(path), "open"),
        (lambda disk, path: disk.rename(path, path.with_name("other")), "rename"),
        (lambda disk, path: disk.replace_file(path / "file", b""), "open"),
        (lambda disk, path: disk.remove_directory(path), "remove directory"),
        (lambda disk, path: disk.sync_directory(path), "open"),
        (lambda disk, path: disk.free_bytes(path), "statvfs"),
        (lambda disk, path: disk.lock(path / ".lock"), "open"),
    ],
)
def test_every_refusal_is_a_disk_error(tmp_path: Path, call: object, operation: str) -> None:
    with pytest.raises(DiskError) as caught:
        call(Disk(), tmp_path / "missing")  # type: ignore[operator]
    assert caught.value.operation == operation
    assert caught.value.is_missing


def test_closed_file_refuses_with_a_disk_error(tmp_path: Path) -> None:
    file = Disk().open(tmp_path / "file", create=True)
    file.close()
    file.close()
    assert file.is_closed
    for call in (
        file.size,
        file.sync,
        lambda: file.map(10, writable=True),
        lambda: file.read_at(0, 1),
        lambda: file.write_at(0, b"x"),
    ):
        with pytest.raises(DiskError):
            call()
    with pytest.raises(DiskError):
        file.truncate(0)
    with pytest.raises(DiskError):
        file.allocate(0, 10)


def test_allocated_bytes_are_zeros_and_keep_what_was_there(tmp_path: Path) -> None:
    file = Disk().open(tmp_path / "file", create=True)
    file.write_at(0, b"content")
    file.allocate(0, 100_000)
    file.allocate(50, 0)
    assert file.size() == 100_000
    assert file.read_at(0, 10) == b"content\0\0\0"
    assert (tmp_path / "file").stat().st_blocks * 512 >= 100_000
    assert len(file.read_at(99_990, 100)) == 10
    assert file.read_at(100_000, 5) == b""


def test_allocation_without_help_of_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.storage.disk._allocate", None)
    file = Disk().open(tmp_path / "file", create=True)
    file.write_at(3, b"content")
    file.truncate(5000)
    file.allocate(0, 3 << 20)
    assert file.size() == 3 << 20
    assert file.read_at(0, 12) == b"\0\0\0content\0\0"


def test_mapping_and_file_see_each_other(tmp_path: Path) -> None:
    file = Disk().open(tmp_path / "file", create=True)
    file.allocate(0, 8192)
    mapping = file.map(8192, writable=True)
    mapping[10:13] = b"abc"
    file.write_at(13, b"def")
    assert file.read_at(10, 6) == mapping[10:16] == b"abcdef"
    read_only = file.map(20, writable=False)
    with pytest.raises(TypeError):
        read_only[0:1] = b"x"
    file.close()
    assert mapping[10:16] == b"abcdef"
    mapping.close()
    read_only.close()


@pytest.mark.parametrize("length", [0, 4097])
def test_mapping_of_what_is_not_there_is_a_disk_error(tmp_path: Path, length: int) -> None:
    file = Disk().open(tmp_path / "file", create=True)
    if length:
        file.write_at(0, bytes(4096))
    with pytest.raises(DiskError, match="map"):
        file.map(length, writable=True)
    file.close()


def test_replaced_file_leaves_nothing_behind(tmp_path: Path) -> None:
    disk = Disk()
    disk.replace_file(tmp_path / "file", b"a long first content")
    disk.replace_file(tmp_path / "file", b"second", sync=False)
    assert disk.read_file(tmp_path / "file") == b"second"
    assert disk.list_directory(tmp_path) == ["file"]


def test_large_file_is_not_read_whole(tmp_path: Path) -> None:
    Disk().replace_file(tmp_path / "file", bytes(100))
    with pytest.raises(DiskError, match="at most 99"):
        Disk().read_file(tmp_path / "file", size_max=99)


def test_directories(tmp_path: Path) -> None:
    disk = Disk()
    disk.make_directory(tmp_path / "a" / "b")
    disk.make_directory(tmp_path / "a" / "b", sync=False)
    disk.replace_file(tmp_path / "a" / "b" / "file", b"x")
    assert disk.is_directory(tmp_path / "a")
    assert not disk.is_directory(tmp_path / "c")
    disk.rename(tmp_path / "a" / "b", tmp_path / "c")
    assert disk.exists(tmp_path / "c" / "file")
    assert disk.unlink(tmp_path / "c" / "file")
    assert not disk.unlink(tmp_path / "c" / "file")
    disk.replace_file(tmp_path / "c" / "file", b"x")
    disk.remove_tree(tmp_path / "c")
    disk.remove_tree(tmp_path / "c")
    assert disk.list_directory(tmp_path) == ["a"]
    assert disk.free_bytes(tmp_path) > 0


def test_growth_doubles_up_to_a_step_and_ends_at_the_limit() -> None:
    sizes = [grown_size(0, 1, 2**30)]
    while sizes[-1] < 2**30:
        sizes.append(grown_size(sizes[-1], sizes[-1] + 1, 2**30))
    assert sizes[:3] == [ALLOCATION_BYTES_MIN, 2 * ALLOCATION_BYTES_MIN, 4 * ALLOCATION_BYTES_MIN]
    assert max(b - a for a, b in pairwise(sizes)) == ALLOCATION_BYTES_MAX
    assert sizes[-1] == 2**30
    assert grown_size(0, 10**6, 2**30) == 10**6
    assert grown_size(100, 2**20, 1000) == 2**20, "what is needed is given above the limit too"


def test_asked_for_failure_comes_when_asked_for(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    disk.fail("write", nth=2, times=2, error_number=errno.ENOSPC, name_part=".log")
    log, index = disk.open(tmp_path / "0.log", create=True), disk.open(tmp_path / "0.index", create=True)
    outcomes: list[bool] = []
    for _ in range(4):
        index.write_at(0, b"x")
        try:
            log.write_at(0, b"x")
        except DiskError as error:
            outcomes.append(not error.is_disk_full)
        else:
            outcomes.append(True)
    assert outcomes == [True, False, False, True]
    assert disk.calls["write"] == 8


def test_disk_of_limited_size_is_full_at_its_last_byte(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path, capacity_bytes=100)
    file = disk.open(tmp_path / "file", create=True)
    file.write_at(0, bytes(60))
    file.allocate(0, 90)
    write(disk, tmp_path / "other", bytes(10), sync=True)
    assert disk.used_bytes == 100
    file.write_at(80, bytes(10))
    with pytest.raises(DiskError) as caught:
        file.write_at(80, bytes(11))
    assert caught.value.is_disk_full
    disk.unlink(tmp_path / "other")
    file.write_at(80, bytes(20))
    file.truncate(10)
    assert disk.used_bytes == 10
    disk.heal()
    file.write_at(0, bytes(1000))
    assert file.size() == 1000


def test_killed_process_calls_nothing_more(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    disk.kill_after(1)
    file = disk.open(tmp_path / "file", create=True)
    with pytest.raises(ProcessKilled):
        file.write_at(0, b"12345678")
    with pytest.raises(ProcessKilled):
        disk.open(tmp_path / "other", create=True)
    assert disk.is_killed
    assert (tmp_path / "file").read_bytes() == b"1234"


def test_loss_of_power_drops_what_was_not_synced(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    write(disk, tmp_path / "synced", b"old", sync=True)
    write(disk, tmp_path / "content only", b"x", sync=True)
    disk.sync_directory(tmp_path)
    write(disk, tmp_path / "name not synced", b"x", sync=True)
    file = disk.open(tmp_path / "synced")
    file.write_at(0, b"new and longer")
    write(disk, tmp_path / "content only", b"y", sync=False)
    disk.make_directory(tmp_path / "folder", sync=False)
    disk.lose_power()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"synced": b"old", "content only": b"x"}


def test_loss_of_power_undoes_renames_and_removals(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    write(disk, tmp_path / "a", b"1", sync=True)
    write(disk, tmp_path / "b", b"2", sync=True)
    disk.make_directory(tmp_path / "folder")
    write(disk, tmp_path / "folder" / "c", b"3", sync=True)
    disk.sync_directory(tmp_path / "folder")
    disk.rename(tmp_path / "a", tmp_path / "b", sync=False)
    disk.rename(tmp_path / "folder", tmp_path / "moved", sync=False)
    disk.lose_power()
    assert (tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes() == b"12"
    assert (tmp_path / "folder" / "c").read_bytes() == b"3"
    disk.rename(tmp_path / "folder", tmp_path / "moved")
    disk.unlink(tmp_path / "a")
    disk.sync_directory(tmp_path)
    disk.lose_power()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["b", "c", "moved"]


def test_loss_of_power_keeps_stores_through_a_mapping_that_were_synced(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    file = disk.open(tmp_path / "file", create=True)
    file.allocate(0, 4096)
    mapping = file.map(4096, writable=True)
    mapping[0:3] = b"abc"
    file.sync()
    disk.sync_directory(tmp_path)
    mapping[3:6] = b"def"
    disk.lose_power()
    assert (tmp_path / "file").read_bytes() == b"abc".ljust(4096, b"\0")
    mapping.close()


def test_loss_of_power_by_chance_keeps_some_pages(tmp_path: Path) -> None:
    seen: set[tuple[int, int]] = set()
    for seed in range(40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        disk = FaultyDisk(folder)
        write(disk, folder / "file", b"a" * 4096, sync=True)
        disk.sync_directory(folder)
        write(disk, folder / "file", b"b" * 8192, sync=False)
        disk.lose_power(random.Random(seed))
        data = (folder / "file").read_bytes()
        assert len(data) in (4096, 8192)
        assert set(data[:4096]) in ({ord("a")}, {ord("b")})
        seen.add((len(data), data[0]))
    assert len(seen) == 4
