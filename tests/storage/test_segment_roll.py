"""When a segment is closed and the next one begun, and what is on disk then."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tailrace.storage.log import Log
from tailrace.storage.log_context import LogContext
from tailrace.storage.offset_index import OffsetIndex
from tailrace.testing.virtual_clock import EPOCH_MS, VirtualClock
from tests.storage.log_workshop import append, batch, config, context, open_log, read_all

DAY_MS = 86_400_000


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def opened(tmp_path: Path, clock: VirtualClock, **overrides: object) -> Log:
    return open_log(tmp_path / "flights-0", settings=config(**overrides), surroundings=context(clock))


def test_a_batch_that_does_not_fit_rolls(tmp_path: Path, clock: VirtualClock) -> None:
    size = len(batch(b"x" * 100))
    log = opened(tmp_path, clock, segment_bytes=3 * size)
    for _ in range(3):
        append(log, b"x" * 100)
    assert len(log.segments) == 1
    append(log, b"x" * 100)
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert log.segments[0].log_path.stat().st_size == 3 * size


def test_age_is_counted_by_the_first_batch(tmp_path: Path, clock: VirtualClock) -> None:
    log = opened(tmp_path, clock, segment_ms=DAY_MS)
    append(log, b"a", timestamp=EPOCH_MS)
    clock.advance(10 * DAY_MS)
    append(log, b"b", timestamp=EPOCH_MS + DAY_MS)
    assert len(log.segments) == 1
    append(log, b"c", timestamp=EPOCH_MS + DAY_MS + 1)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_age_without_timestamps_is_counted_by_the_clock(tmp_path: Path, clock: VirtualClock) -> None:
    log = opened(tmp_path, clock, segment_ms=DAY_MS)
    append(log, b"a", timestamp=-1)
    clock.advance(DAY_MS)
    append(log, b"b", timestamp=-1)
    assert len(log.segments) == 1
    clock.advance(1)
    append(log, b"c", timestamp=-1)
    assert len(log.segments) == 2


def test_jitter_takes_from_the_age(tmp_path: Path, clock: VirtualClock) -> None:
    surroundings = LogContext(clock=clock, random=Random(1))
    settings = config(segment_ms=DAY_MS, segment_jitter_ms=DAY_MS)
    log = open_log(tmp_path / "flights-0", settings=settings, surroundings=surroundings)
    jitter = log.active.roll_jitter_ms
    assert 0 < jitter < DAY_MS
    append(log, b"a", timestamp=EPOCH_MS)
    clock.advance(DAY_MS)
    append(log, b"b", timestamp=EPOCH_MS + DAY_MS - jitter)
    assert len(log.segments) == 1
    append(log, b"c", timestamp=EPOCH_MS + DAY_MS - jitter + 1)
    assert len(log.segments) == 2


def test_a_full_offset_index_rolls(tmp_path: Path, clock: VirtualClock) -> None:
    log = opened(tmp_path, clock, segment_index_bytes=8 * 4, index_interval_bytes=0)
    for _ in range(20):
        append(log, b"x" * 100, timestamp=-1)
    assert len(log.segments) > 3
    for segment in log.segments[:-1]:
        assert segment.path(".index").stat().st_size <= 8 * 4
    assert [record.offset for record in read_all(log)] == list(range(20))


def test_a_full_time_index_rolls(tmp_path: Path, clock: VirtualClock) -> None:
    log = opened(tmp_path, clock, segment_index_bytes=12 * 4, index_interval_bytes=0)
    for number in range(20):
        append(log, b"x" * 100, timestamp=EPOCH_MS + number)
    assert len(log.segments) > 3
    found = log.offset_for_timestamp(EPOCH_MS + 11)
    assert found is not None
    assert found.offset == 11


def test_a_time_index_that_is_full_to_its_last_slot_rolls_after_a_restart(tmp_path: Path, clock: VirtualClock) -> None:
    limits = {"segment_index_bytes": 12 * 4, "index_interval_bytes": 0}
    log = opened(tmp_path, clock, **limits)
    batches = [batch(b"x", base_offset=number, timestamp=EPOCH_MS + number) for number in range(6)]
    log.append_as_follower(b"".join(batches))  # There is an entry for three of them, and the last slot for the sixth.
    log.close()
    log = opened(tmp_path, clock, **limits)
    append(log, b"x", timestamp=EPOCH_MS + 6)
    append(log, b"x", timestamp=EPOCH_MS + 7)
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    found = log.offset_for_timestamp(EPOCH_MS + 6)
    assert found is not None
    assert found.offset == 6


def test_an_offset_too_far_from_the_base_rolls(tmp_path: Path, clock: VirtualClock) -> None:
    log = opened(tmp_path, clock)
    log.append_as_follower(batch(b"a"))
    log.append_as_follower(batch(b"b", base_offset=2**31 - 1))
    assert len(log.segments) == 1
    log.append_as_follower(batch(b"c", base_offset=2**31))
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    assert [record.offset for record in read_all(log)] == [0, 2**31 - 1, 2**31]


def test_an_offset_too_far_for_an_empty_segment_replaces_it(tmp_path: Path, clock: VirtualClock) -> None:
    log = opened(tmp_path, clock)
    log.append_as_follower(batch(b"a", base_offset=2**33))
    assert [segment.base_offset for segment in log.segments] == [0, 2**33]
    assert log.log_end_offset == 2**33 + 1


def test_a_closed_segment_has_trimmed_files_and_a_snapshot_beside_it(tmp_path: Path, clock: VirtualClock) -> None:
    log = opened(tmp_path, clock, index_interval_bytes=500)
    for number in range(50):
        append(log, b"x" * 100, timestamp=EPOCH_MS + number, producer=(7, 0, number))
    size = log.active.size
    log.roll()
    closed = log.segments[0]
    assert closed.log_path.stat().st_size == size
    index = OffsetIndex(log.context.disk, closed.path(".index"), 0, size_bytes_max=1 << 20)
    index.sanity_check(log_bytes=size, every_entry=True)
    assert index.entries * 8 == closed.path(".index").stat().st_size
    assert closed.time_index.last_entry == (EPOCH_MS + 49, 49)
    assert (log.directory / f"{50:020d}.snapshot").exists()


def test_settings_that_change_are_obeyed_at_once(tmp_path: Path, clock: VirtualClock) -> None:
    log = opened(tmp_path, clock)
    append(log, b"x" * 100)
    log.reconfigure(config(segment_bytes=200))
    append(log, b"x" * 100)
    assert len(log.segments) == 2


def test_preallocation_takes_the_whole_segment_and_gives_the_rest_back(tmp_path: Path, clock: VirtualClock) -> None:
    log = opened(tmp_path, clock, preallocate="true", segment_bytes=300_000)
    assert log.active.log_path.stat().st_size == 300_000
    append(log, b"a")
    log.close()
    assert log.active.log_path.stat().st_size == log.active.size
