"""All logs of a broker: opened, made, deleted, kept; and what a failing disk or directory does to them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import random_uuid
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.log_config import LogConfig
from tailrace.storage.checkpoint_file import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    OffsetCheckpointFile,
)
from tailrace.storage.directory_lock import DirectoryInUse
from tailrace.storage.disk import Disk
from tailrace.storage.log import Log
from tailrace.storage.log_errors import LogOffline
from tailrace.storage.log_manager import LogManager
from tailrace.storage.partition_directory import marked_name, parse_directory_name
from tailrace.testing.faulty_disk import FaultyDisk
from tailrace.testing.virtual_clock import VirtualClock
from tests.storage.golden import copy_reference_log
from tests.storage.log_workshop import append, config, forget, read_all

TOPIC_ID = random_uuid()
FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)


def manager_of(*directories: Path, disk: Disk | None = None, clock: VirtualClock | None = None) -> LogManager:
    return LogManager(list(directories), BrokerConfig({}), clock or VirtualClock(), disk)


async def opened(*directories: Path, disk: Disk | None = None, clock: VirtualClock | None = None) -> LogManager:
    manager = manager_of(*directories, disk=disk, clock=clock)
    await manager.load_all()
    return manager


def made(manager: LogManager, partition: TopicPartition = FIRST, settings: LogConfig | None = None) -> Log:
    return manager.get_or_create(partition, TOPIC_ID, settings or config())


def killed(manager: LogManager) -> None:
    """Let go of everything as the end of the process would, and write nothing."""
    for log in manager.logs.values():
        forget(log)
    for directory in manager.directories:
        directory.release()


def checkpoint(directory: Path, name: str) -> dict[TopicPartition, int]:
    return OffsetCheckpointFile(Disk(), directory / name).read()


async def until(holds: Callable[[], bool]) -> None:
    """Let tasks and threads run until it holds; the deadline says that it never did."""
    deadline = asyncio.get_running_loop().time() + 10
    while not holds():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0)


def names_like(directory: Path, pattern: str) -> list[Path]:
    return sorted(directory.glob(pattern))


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_logs_are_there_again_after_a_clean_stop(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    append(made(manager), b"a", b"b")
    made(manager).update_high_watermark(2)
    append(made(manager, SECOND), b"c")
    await manager.stop()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert checkpoint(tmp_path, RECOVERY_POINT_CHECKPOINT) == {FIRST: 2, SECOND: 1}
    assert checkpoint(tmp_path, REPLICATION_CHECKPOINT) == {FIRST: 2, SECOND: 0}

    manager = await opened(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log = manager.get(FIRST)
    assert log is not None
    assert (log.topic_id, log.high_watermark, log.recovery_point) == (TOPIC_ID, 2, 2)
    assert [record.value for record in read_all(log)] == [b"a", b"b"]
    await manager.stop()


async def test_logs_are_there_again_after_kill(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    append(made(manager), b"a", b"b")
    killed(manager)
    manager = await opened(tmp_path)
    log = manager.logs[FIRST]
    assert [record.value for record in read_all(log)] == [b"a", b"b"]
    assert log.active.log_path.stat().st_size == log.size_bytes
    await manager.stop()


async def test_a_second_broker_is_kept_out(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    with pytest.raises(DirectoryInUse):
        await manager_of(tmp_path).load_all()
    await manager.stop()
    await (await opened(tmp_path)).stop()


async def test_a_thousand_idle_partitions_hold_no_descriptor(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    before = open_descriptors()
    for number in range(100):
        made(manager, TopicPartition("flights", number))
    assert open_descriptors() <= before  # the garbage of an earlier test may go meanwhile
    await manager.stop()


async def test_new_logs_go_where_the_fewest_are(tmp_path: Path) -> None:
    manager = await opened(tmp_path / "a", tmp_path / "b")
    for number in range(6):
        made(manager, TopicPartition("flights", number))
    assert [len(manager.logs_in(tmp_path / name)) for name in "ab"] == [3, 3]
    await manager.stop()


async def test_a_deleted_log_goes_after_the_delay(tmp_path: Path) -> None:
    clock = VirtualClock()
    manager = await opened(tmp_path, clock=clock)
    append(made(manager, settings=config(file_delete_delay_ms=1000)), b"a")
    manager.delete(FIRST)
    assert manager.get(FIRST) is None
    assert not (tmp_path / "flights-0").exists()
    (renamed,) = names_like(tmp_path, "flights-0.*-delete")
    clock.advance(999)
    assert renamed.exists()
    clock.advance(1)
    await until(lambda: not renamed.exists())
    await manager.stop()


async def test_a_log_made_again_knows_nothing_of_the_one_before(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    log = made(manager)
    for _ in range(10):
        append(log, b"old")
    log.update_high_watermark(10)
    log.advance_log_start_offset(5)
    await manager.stop()
    manager = await opened(tmp_path)
    manager.delete(FIRST)
    log = manager.get_or_create(FIRST, random_uuid(), config())
    append(log, b"new")
    killed(manager)
    manager = await opened(tmp_path)
    log = manager.logs[FIRST]
    assert (log.is_offline, log.log_start_offset) == (False, 0)
    assert [record.value for record in read_all(log)] == [b"new"]
    assert names_like(tmp_path, "*-delete")
    await manager.stop()


async def test_the_log_of_another_topic_id_is_kept_as_stray(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    append(made(manager), b"of the first topic")
    log = manager.get_or_create(FIRST, random_uuid(), config())
    assert log.log_end_offset == 0
    (stray,) = names_like(tmp_path, "flights-0.*-stray")
    assert (stray / f"{0:020d}.log").stat().st_size
    await manager.stop()
    assert set((await reopen_and_stop(tmp_path)).logs) == {FIRST}


async def reopen_and_stop(directory: Path) -> LogManager:
    manager = await opened(directory)
    await manager.stop()
    return manager


async def test_a_directory_copied_from_kafka_is_opened_and_checked(tmp_path: Path) -> None:
    await (await opened(tmp_path)).stop()
    copied = copy_reference_log(tmp_path)
    manager = await opened(tmp_path)
    log = manager.logs[TopicPartition("reference-log", 0)]
    assert (log.is_offline, log.log_end_offset) == (False, 33978)
    assert log.topic_id != bytes(16)
    assert all(segment.unverified is None for segment in log.segments)
    assert log.directory == copied
    await manager.stop()


async def test_what_is_no_partition_is_left_alone(tmp_path: Path) -> None:
    for name in ("__cluster_metadata-0", "notes", "flights-0.abc-future", "lost+found", "x-99999999999"):
        (tmp_path / name).mkdir()
    (tmp_path / "flights-7").write_text("a file")
    manager = await reopen_and_stop(tmp_path)
    assert not manager.logs
    assert (tmp_path / "flights-0.abc-future").exists()


async def test_one_damaged_log_leaves_the_others_serving(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    for partition in (FIRST, SECOND):
        for _ in range(3):
            append(made(manager, partition), b"x" * 100)
    path = made(manager).active.log_path
    killed(manager)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    manager = await opened(tmp_path)
    assert manager.logs[FIRST].is_offline
    assert len(read_all(manager.logs[SECOND])) == 3
    assert not manager.offline_directories
    await manager.stop()
    manager = await opened(tmp_path)
    assert manager.logs[FIRST].is_offline
    assert made(manager) is manager.logs[FIRST]
    await manager.stop()


def fill(log: Log) -> int:
    """Append until the disk is full; say how many appends were acknowledged."""
    for count in range(100):
        try:
            append(log, bytes(10_000))
        except LogOffline:
            return count
    raise AssertionError("the disk is larger than was said")


async def test_a_full_disk_takes_the_directory_offline_and_loses_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    manager = await opened(tmp_path / "a", tmp_path / "b", disk=disk)
    log, other = made(manager), made(manager, SECOND)
    assert log.directory.parent != other.directory.parent
    append(log, b"acknowledged")
    append(other, b"acknowledged")
    disk.capacity_bytes = disk.used_bytes + 100_000
    written = 1 + fill(log)
    assert written > 5
    assert log.is_offline
    assert list(manager.offline_directories) == [log.directory.parent]
    assert not other.is_offline
    disk.heal()
    append(other, b"more")
    await manager.stop()
    assert not (log.directory.parent / ".kafka_cleanshutdown").exists()
    manager = await opened(tmp_path / "a", tmp_path / "b")
    assert len(read_all(manager.logs[FIRST])) == written
    assert len(read_all(manager.logs[SECOND])) == 2
    await manager.stop()


async def test_a_failed_sync_takes_the_directory_offline(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    told: list[Path] = []
    manager = LogManager(
        [tmp_path],
        BrokerConfig({}),
        VirtualClock(),
        disk,
        on_directory_offline=lambda path, reason: told.append(path),
    )
    await manager.load_all()
    log = made(manager, settings=config(flush_messages=1))
    append(log, b"a")
    assert log.flush_is_due
    await log.flush(1)
    assert (log.recovery_point, log.flush_is_due) == (1, False)
    append(log, b"b")
    disk.fail("sync", error_number=errno.EIO)
    with pytest.raises(ApiError) as caught:
        await log.flush(2)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.is_offline
    assert told == [tmp_path]
    with pytest.raises(ApiError):
        await log.flush(2)
    await manager.stop()


async def test_all_who_wait_share_one_sync(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    manager = await opened(tmp_path, disk=disk)
    log = made(manager)
    append(log, b"first")
    await log.flush(1)
    before = disk.calls["sync"]
    waits = []
    for number in range(50):
        append(log, b"x")
        waits.append(asyncio.create_task(log.flush(number + 2)))
    await asyncio.gather(*waits)
    assert log.recovery_point == 51
    assert disk.calls["sync"] - before <= 3
    await manager.stop()


async def test_while_a_directory_is_offline_nothing_is_made_that_may_lie_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no directory")
    manager = await opened(tmp_path / "a", tmp_path / "b")
    assert list(manager.offline_directories) == [tmp_path / "a"]
    with pytest.raises(ApiError) as caught:
        made(manager)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not manager.get_or_create(FIRST, TOPIC_ID, config(), is_new=True).is_offline
    await manager.stop()


async def test_the_clock_applies_retention_and_writes_checkpoints(tmp_path: Path) -> None:
    clock = VirtualClock()
    manager = await opened(tmp_path, clock=clock)
    manager.start()
    log = made(manager, settings=config(retention_ms=3_600_000, flush_ms=5000))
    append(log, b"a")
    log.update_high_watermark(1)
    log.roll()
    await until(lambda: log.recovery_point == 1)
    append(log, b"b", b"c", timestamp=clock.time_ms() + 3_000_000)
    await clock.advance_async(4_000)
    assert log.recovery_point == 1
    await clock.advance_async(10_000)
    await until(lambda: log.recovery_point == 3)
    log.update_high_watermark(3)
    log.advance_log_start_offset(2)
    for name, offset in (
        (RECOVERY_POINT_CHECKPOINT, 3),
        (LOG_START_CHECKPOINT, 2),
        (REPLICATION_CHECKPOINT, 3),
    ):
        await clock.advance_async(61_000)
        await until(lambda: checkpoint(tmp_path, name) == {FIRST: offset})  # noqa: B023 - awaited within the turn
    assert [segment.base_offset for segment in log.segments] == [1]
    await clock.advance_async(8_000_000)
    await until(lambda: log.log_start_offset == 3)
    await manager.stop()


async def test_silent_producers_are_forgotten(tmp_path: Path) -> None:
    clock = VirtualClock()
    manager = await opened(tmp_path, clock=clock)
    log = made(manager)
    append(log, b"a", producer=(7, 0, 0))
    clock.advance(86_400_000)
    await manager.housekeeping.expire_producers()
    assert log.producer_states() == []
    await manager.stop()


async def test_a_roll_is_synced_in_the_background(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    manager.start()
    log = made(manager)
    append(log, b"a")
    log.roll()
    await until(lambda: log.recovery_point == 1)
    assert log.segments[0].unverified is None
    await manager.stop()


async def test_truncation_lowers_the_recovery_point_on_disk_first(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    log = made(manager)
    for _ in range(5):
        append(log, b"x")
    await log.flush(5)
    await manager.housekeeping.checkpoint_recovery_points()
    assert checkpoint(tmp_path, RECOVERY_POINT_CHECKPOINT) == {FIRST: 5}
    log.truncate_to(2)
    killed(manager)
    manager = await opened(tmp_path)
    assert (manager.logs[FIRST].is_offline, manager.logs[FIRST].log_end_offset) == (False, 2)
    await manager.stop()


async def test_a_damaged_checkpoint_costs_time_and_no_data(tmp_path: Path) -> None:
    manager = await opened(tmp_path)
    append(made(manager), b"a")
    await manager.stop()
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, REPLICATION_CHECKPOINT):
        (tmp_path / name).write_text("0\n7\nnonsense\n")
    manager = await opened(tmp_path)
    assert [record.value for record in read_all(manager.logs[FIRST])] == [b"a"]
    await manager.stop()


def test_directory_names() -> None:
    assert parse_directory_name("flights-3") == TopicPartition("flights", 3)
    assert parse_directory_name("a-b.c_d-12") == TopicPartition("a-b.c_d", 12)
    for name in ("flights", "-3", "flights-", "flights-x", "flights-3.0a-delete", "__cluster_metadata-0"):
        assert parse_directory_name(name) is None
    long = TopicPartition("t" * 249, 12345)
    assert len(marked_name(long, "0" * 32, "-delete")) == 255
