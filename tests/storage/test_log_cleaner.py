"""Which log is cleaned, when, and what becomes of it while it is."""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event

import pytest

from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import random_uuid
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.log_config import LogConfig
from tailrace.storage.checkpoint_file import CLEANER_CHECKPOINT, OffsetCheckpointFile
from tailrace.storage.cleanable import cleanable_range
from tailrace.storage.cleaner_pace import CleanerPace, CleaningStopped
from tailrace.storage.cleaner_thread import CleanerThread
from tailrace.storage.cleaning_plan import CleanedSegment
from tailrace.storage.disk import Disk
from tailrace.storage.log import Log
from tailrace.storage.log_cleaner import LogCleaner
from tailrace.storage.log_manager import LogManager
from tailrace.testing.faulty_disk import FaultyDisk
from tailrace.testing.virtual_clock import VirtualClock
from tests.storage.compaction_workshop import left, put
from tests.storage.log_workshop import config, end_transaction
from tests.waiting import until

TOPIC_ID = random_uuid()
FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)
HOUR_MS = 3_600_000


class Workshop:
    """A manager whose cleaner works on a thread, and only when it is told to."""

    def __init__(self, directory: Path, disk: Disk | None = None, **broker: str) -> None:
        self.directory = directory
        self.clock = VirtualClock()
        texts = {key.replace("_", "."): value for key, value in broker.items()}
        self.manager = LogManager([directory], BrokerConfig(texts), self.clock, disk)
        self.manager.cleaner = LogCleaner(self.manager, uses_process=False)

    @property
    def cleaner(self) -> LogCleaner:
        return self.manager.cleaner

    def log(self, partition: TopicPartition = FIRST, settings: LogConfig | None = None) -> Log:
        return self.manager.get_or_create(partition, TOPIC_ID, settings or compacted())

    def checkpoint(self) -> dict[TopicPartition, int]:
        return OffsetCheckpointFile(Disk(), self.directory / CLEANER_CHECKPOINT).read()


def compacted(**overrides: object) -> LogConfig:
    return config(**{"cleanup_policy": "compact", **overrides})


def fill(log: Log, *keys: str) -> None:
    """Write each key in a segment of its own, all closed."""
    for key in keys:
        put(log, (key, f"{log.log_end_offset}"))
        log.roll()


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    workshop = Workshop(tmp_path)
    await workshop.manager.load_all()
    yield workshop
    await workshop.manager.stop()


# -- choosing -------------------------------------------------------------------------------------------------------


async def test_log_with_the_largest_dirty_share_is_cleaned_first(workshop: Workshop) -> None:
    first, second = workshop.log(), workshop.log(SECOND)
    fill(first, "a", "b", "c", "a")
    fill(second, "a", "a", "a")
    workshop.cleaner.checkpoints[FIRST] = 1
    assert await workshop.cleaner.clean_filthiest()
    assert workshop.checkpoint() == {FIRST: 1, SECOND: 3}
    assert await workshop.cleaner.clean_filthiest()
    assert workshop.checkpoint() == {FIRST: 4, SECOND: 3}
    assert not await workshop.cleaner.clean_filthiest()
    assert [offset for offset, _, _ in left(first)] == [1, 2, 3]
    assert [offset for offset, _, _ in left(second)] == [2]


async def test_a_small_dirty_share_waits(workshop: Workshop) -> None:
    log = workshop.log(settings=compacted(min_cleanable_dirty_ratio="0.5"))
    fill(log, "a", "b", "c", "a")
    workshop.cleaner.checkpoints[FIRST] = 2
    assert cleanable_range(log, 2, workshop.clock.time_ms()).ratio == 0.5
    assert not await workshop.cleaner.clean_filthiest()
    fill(log, "d")
    assert await workshop.cleaner.clean_filthiest()


async def test_topics_that_only_delete_are_not_cleaned(workshop: Workshop) -> None:
    fill(workshop.log(settings=config(cleanup_policy="delete")), "a", "a")
    assert not await workshop.cleaner.clean_filthiest()


async def test_records_younger_than_the_lag_are_left_alone(workshop: Workshop) -> None:
    log = workshop.log(settings=compacted(min_compaction_lag_ms=HOUR_MS))
    fill(log, "a", "a")
    workshop.clock.advance(HOUR_MS)
    fill(log, "a", "b")
    assert await workshop.cleaner.clean_filthiest()
    assert workshop.checkpoint() == {FIRST: 2}
    assert [offset for offset, _, _ in left(log)] == [1, 2, 3]


async def test_old_records_are_cleaned_however_small_their_share(workshop: Workshop) -> None:
    log = workshop.log(settings=compacted(min_cleanable_dirty_ratio="1", max_compaction_lag_ms=HOUR_MS))
    fill(log, "a", "b", "c", "a")
    workshop.cleaner.checkpoints[FIRST] = 3
    assert not await workshop.cleaner.clean_filthiest()
    workshop.clock.advance(HOUR_MS + 1)
    assert cleanable_range(log, 3, workshop.clock.time_ms()).compaction_delay_ms == 1
    assert await workshop.cleaner.clean_filthiest()
    assert [offset for offset, _, _ in left(log)] == [1, 2, 3]


async def test_nothing_behind_an_open_transaction_or_the_high_watermark_is_cleaned(workshop: Workshop) -> None:
    log = workshop.log()
    fill(log, "a", "a")
    put(log, ("x", "1"), producer=(4, 0, 0), is_transactional=True)
    log.roll()
    fill(log, "a")
    assert cleanable_range(log, None, 0).first_uncleanable_offset == 2
    end_transaction(log, 4, commit=True)
    log.high_watermark = 1
    assert cleanable_range(log, None, 0).first_uncleanable_offset == 1
    log.update_high_watermark(log.log_end_offset)
    assert cleanable_range(log, None, 0).first_uncleanable_offset == log.active.base_offset


async def test_checkpoint_outside_the_log_begins_anew(workshop: Workshop) -> None:
    log = workshop.log()
    fill(log, "a", "a")
    workshop.cleaner.checkpoints[FIRST] = 100
    assert await workshop.cleaner.clean_filthiest()
    assert [offset for offset, _, _ in left(log)] == [1]
    log.advance_log_start_offset(2)
    assert cleanable_range(log, 1, 0).replaces_checkpoint


async def test_checkpoint_is_known_again_after_a_start(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    await workshop.manager.load_all()
    fill(workshop.log(), "a", "a")
    assert await workshop.cleaner.clean_filthiest()
    await workshop.manager.stop()
    assert workshop.checkpoint() == {FIRST: 2}
    again = Workshop(tmp_path)
    await again.manager.load_all(lambda _: compacted())
    assert again.cleaner.checkpoint_of(again.manager.logs[FIRST]) == 2
    assert not await again.cleaner.clean_filthiest()
    await again.manager.stop()


# -- running --------------------------------------------------------------------------------------------------------


async def test_cleaner_looks_again_after_its_backoff(workshop: Workshop) -> None:
    log = workshop.log()
    workshop.manager.start()
    await workshop.clock.advance_async(0)
    fill(log, "a", "a")
    await workshop.clock.advance_async(15_000)
    await until(lambda: [offset for offset, _, _ in left(log)] == [1])
    assert log.log_end_offset == 2


async def test_number_of_threads_follows_the_setting(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    manager = workshop.manager
    manager.start()
    tasks = workshop.cleaner._tasks  # pyright: ignore[reportPrivateUsage]
    assert len(tasks) == 1
    manager.reconfigure(BrokerConfig({"log.cleaner.threads": "3"}))
    assert len(tasks) == 3
    manager.reconfigure(BrokerConfig({"log.cleaner.threads": "2"}))
    await workshop.clock.advance_async(15_000)
    assert sorted(tasks) == [0, 1]
    await manager.stop()


async def test_disabled_cleaner_does_nothing(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, log_cleaner_enable="false")
    workshop.manager.start()
    fill(workshop.log(), "a", "a")
    await workshop.clock.advance_async(HOUR_MS)
    assert [offset for offset, _, _ in left(workshop.log())] == [0, 1]
    await workshop.manager.stop()


async def test_cleaning_in_a_process_of_its_own(tmp_path: Path) -> None:
    manager = LogManager([tmp_path], BrokerConfig({}), VirtualClock())
    await manager.load_all()
    log = manager.get_or_create(FIRST, TOPIC_ID, compacted())
    fill(log, "a", "b", "a")
    assert await manager.cleaner.clean_filthiest()
    assert [offset for offset, _, _ in left(log)] == [1, 2]
    assert manager.cleaner.take_numbers().cleanings == 1
    await manager.stop()


async def test_process_tells_of_a_damaged_batch(tmp_path: Path) -> None:
    manager = LogManager([tmp_path], BrokerConfig({}), VirtualClock())
    await manager.load_all()
    log = manager.get_or_create(FIRST, TOPIC_ID, compacted())
    fill(log, "a", "b", "a")
    damage(log)
    assert not await manager.cleaner.clean_filthiest()
    assert "fails its CRC" in manager.cleaner.uncleanable[FIRST]
    await manager.stop()


async def test_without_a_process_a_thread_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    manager = LogManager([tmp_path], BrokerConfig({}), VirtualClock())
    await manager.load_all()
    log = manager.get_or_create(FIRST, TOPIC_ID, compacted())
    fill(log, "a", "a")
    assert await manager.cleaner.clean_filthiest()
    assert [offset for offset, _, _ in left(log)] == [1]
    await manager.stop()


# -- what happens meanwhile -----------------------------------------------------------------------------------------


class Gate:
    """Holds the cleaner back before it gives a cleaned segment, while a test does something to the log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_waiting, self.opened = Event(), Event()
        original = CleanerThread.clean_next

        def clean_next(worker: CleanerThread) -> CleanedSegment | None:
            cleaned = original(worker)
            self.is_waiting.set()
            assert self.opened.wait(20)
            return cleaned

        monkeypatch.setattr(CleanerThread, "clean_next", clean_next)

    async def reached(self, cleaner: LogCleaner) -> asyncio.Task[bool]:
        task = asyncio.get_running_loop().create_task(cleaner.clean_filthiest())
        await until(self.is_waiting.is_set)
        return task


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


async def test_appends_go_on_while_a_log_is_cleaned(workshop: Workshop, gate: Gate) -> None:
    log = workshop.log()
    fill(log, "a", "a")
    task = await gate.reached(workshop.cleaner)
    fill(log, "a", "b")
    gate.opened.set()
    assert await task
    assert [offset for offset, _, _ in left(log)] == [1, 2, 3]
    assert workshop.checkpoint() == {FIRST: 2}


async def test_segments_that_retention_took_are_not_put_back(workshop: Workshop, gate: Gate) -> None:
    log = workshop.log(settings=compacted(cleanup_policy="compact,delete", retention_ms=HOUR_MS))
    fill(log, "a", "a", "b")
    task = await gate.reached(workshop.cleaner)
    workshop.clock.advance(2 * HOUR_MS)
    assert log.delete_old_segments() == 3
    gate.opened.set()
    assert await task
    assert (log.log_start_offset, left(log)) == (3, [])
    assert workshop.checkpoint() == {FIRST: 0}
    assert not [path for path in log.directory.iterdir() if path.name.endswith((".cleaned", ".swap"))]


async def test_cut_log_gives_its_cleaning_up(workshop: Workshop, gate: Gate) -> None:
    log = workshop.log()
    fill(log, "a", "a", "b")
    task = await gate.reached(workshop.cleaner)
    log.truncate_to(1)
    put(log, ("other", "1"))
    gate.opened.set()
    assert not await task
    assert left(log) == [(0, "a", "0"), (1, "other", "1")]
    assert not workshop.cleaner.checkpoints
    assert not workshop.cleaner.uncleanable


async def test_cut_log_is_dirty_from_there(workshop: Workshop) -> None:
    log = workshop.log()
    fill(log, "a", "b", "c")
    assert await workshop.cleaner.clean_filthiest()
    log.truncate_to(1)
    assert workshop.checkpoint() == {FIRST: 1}
    fill(log, "a", "a")
    assert await workshop.cleaner.clean_filthiest()
    assert [offset for offset, _, _ in left(log)] == [2]


async def test_deleted_log_gives_its_cleaning_up(workshop: Workshop, gate: Gate) -> None:
    fill(workshop.log(), "a", "a")
    task = await gate.reached(workshop.cleaner)
    workshop.manager.delete(FIRST)
    anew = workshop.log()
    fill(anew, "z", "z")
    gate.opened.set()
    assert not await task
    assert [offset for offset, _, _ in left(anew)] == [0, 1]
    assert await workshop.cleaner.clean_filthiest()
    assert workshop.checkpoint() == {FIRST: 2}


async def test_stop_gives_a_cleaning_up(tmp_path: Path, gate: Gate) -> None:
    workshop = Workshop(tmp_path)
    await workshop.manager.load_all()
    log = workshop.log()
    fill(log, "a", "a")
    workshop.manager.start()
    await until(gate.is_waiting.is_set)
    stopping = asyncio.get_running_loop().create_task(workshop.cleaner.stop())
    await asyncio.sleep(0)
    gate.opened.set()
    await stopping
    assert [offset for offset, _, _ in left(log)] == [0, 1]
    assert not [path for path in log.directory.iterdir() if path.name.endswith((".cleaned", ".swap"))]
    await workshop.manager.stop()


# -- failing --------------------------------------------------------------------------------------------------------


def damage(log: Log) -> None:
    path = log.segments[1].log_path
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)


async def test_damaged_log_is_set_aside_and_others_are_cleaned(workshop: Workshop) -> None:
    first, second = workshop.log(), workshop.log(SECOND)
    fill(first, "a", "a", "a", "a")
    fill(second, "a", "a")
    damage(first)
    assert not await workshop.cleaner.clean_filthiest()
    assert await workshop.cleaner.clean_filthiest()
    assert not await workshop.cleaner.clean_filthiest()
    assert list(workshop.cleaner.uncleanable) == [FIRST]
    numbers = workshop.cleaner.take_numbers()
    assert numbers.uncleanable_partitions == {workshop.directory: 1}
    assert numbers.uncleanable_bytes == {workshop.directory: first.size_bytes}
    assert not first.is_offline
    put(first, ("b", "1"))


async def test_full_disk_is_tried_again(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    workshop = Workshop(tmp_path, disk)
    await workshop.manager.load_all()
    log = workshop.log()
    fill(log, "a", "a")
    disk.fail("allocate", error_number=errno.ENOSPC, name_part=".cleaned", times=2)
    assert not await workshop.cleaner.clean_filthiest()
    assert not log.is_offline
    assert not [path for path in log.directory.iterdir() if path.name.endswith(".cleaned")]
    disk.heal()
    assert await workshop.cleaner.clean_filthiest()
    assert [offset for offset, _, _ in left(log)] == [1]
    await workshop.manager.stop()


async def test_broken_disk_takes_its_directory_offline(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    workshop = Workshop(tmp_path, disk)
    await workshop.manager.load_all()
    log = workshop.log()
    fill(log, "a", "a")
    disk.fail("sync", name_part=".cleaned")
    assert not await workshop.cleaner.clean_filthiest()
    assert log.is_offline
    assert list(workshop.manager.offline_directories) == [tmp_path]
    await workshop.manager.stop()


async def test_map_that_holds_no_batch_sets_the_log_aside(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    config = BrokerConfig({})
    config.__dict__["log_cleaner_dedupe_buffer_size"] = 24 * 4
    workshop.manager.config = config
    log = workshop.log()
    put(log, *[(str(number), "1") for number in range(10)])
    log.roll()
    assert not await workshop.cleaner.clean_filthiest()
    assert "log.cleaner.dedupe.buffer.size" in workshop.cleaner.uncleanable[FIRST]
    await workshop.manager.stop()


# -- pace -----------------------------------------------------------------------------------------------------------


class TurningEvent(Event):
    """An event on which waiting turns the clock."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.advance(1000 * (timeout or 0))
        return self.is_set()


def test_throttled_cleaner_moves_so_many_bytes_a_second() -> None:
    clock = VirtualClock()
    pace = CleanerPace(clock, 1_000_000, TurningEvent(clock))
    started = clock.monotonic()
    for _ in range(5000):
        pace.moved(1000)
    assert clock.monotonic() - started == pytest.approx(5, abs=0.1)


def test_unthrottled_cleaner_never_waits() -> None:
    clock = VirtualClock()
    pace = CleanerPace(clock, 1.7976931348623157e308, TurningEvent(clock))
    pace.moved(10**15)
    assert clock.monotonic() == 0


def test_stopped_cleaner_ends_at_its_next_step() -> None:
    clock, stopping = VirtualClock(), Event()
    pace = CleanerPace(clock, 1e9, stopping)
    stopping.set()
    with pytest.raises(CleaningStopped):
        pace.moved(1 << 20)


async def test_numbers_tell_of_the_last_cleaning(workshop: Workshop) -> None:
    log = workshop.log()
    fill(log, "a", "a", "a", "a")
    assert await workshop.cleaner.clean_filthiest()
    workshop.clock.advance(500)
    numbers = workshop.cleaner.take_numbers()
    assert (numbers.cleanings, numbers.time_since_last_run_ms, numbers.max_dirty_percent) == (1, 500, 100)
    assert 0 < numbers.recopy_percent < 50
    assert numbers.bytes_written == log.segments[0].size
    assert 0 < numbers.max_buffer_utilization_percent <= 90
