"""What retention and DeleteRecords delete, and what they must not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.storage.log import Log
from tailrace.testing.virtual_clock import EPOCH_MS, VirtualClock
from tests.storage.log_workshop import append, config, context, open_log, read_all

HOUR_MS = 3_600_000


class Bench:
    """A log with a segment an hour, and a note of what it wants deleted."""

    def __init__(self, directory: Path, **overrides: object) -> None:
        self.clock = VirtualClock()
        self.deleted: list[tuple[list[str], int]] = []
        surroundings = context(self.clock)
        surroundings.delete_later = self.delete_later
        self.log = open_log(directory, settings=config(**overrides), surroundings=surroundings)
        for hour in range(5):
            append(self.log, b"x" * 100, b"y" * 100, timestamp=EPOCH_MS + hour * HOUR_MS)
            if hour < 4:
                self.log.roll()
                self.clock.advance(HOUR_MS)
        self.log.update_high_watermark(self.log.log_end_offset)

    def delete_later(self, paths: Sequence[Path], delay_ms: int) -> None:
        self.deleted.append((sorted(path.name for path in paths), delay_ms))
        assert all(path.exists() for path in paths)

    @property
    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "flights-0"


def test_segments_older_than_retention_ms_go(directory: Path) -> None:
    bench = Bench(directory, retention_ms=2 * HOUR_MS, file_delete_delay_ms=777)
    bench.clock.advance(1)  # the third segment's last record has one millisecond
    assert bench.log.delete_old_segments() == 2
    assert bench.bases == [4, 6, 8]
    assert bench.log.log_start_offset == 4
    names, delay_ms = bench.deleted[0]
    assert delay_ms == 777
    assert f"{0:020d}.log.deleted" in names
    assert f"{2:020d}.log.deleted" in names
    assert f"{2:020d}.snapshot.deleted" in names
    assert [record.offset for record in read_all(bench.log)] == [4, 5, 6, 7, 8, 9]


def test_all_segments_may_be_too_old(directory: Path) -> None:
    bench = Bench(directory, retention_ms=HOUR_MS)
    bench.clock.advance(10 * HOUR_MS)
    assert bench.log.delete_old_segments() == 5
    assert bench.bases == [10]
    assert bench.log.log_start_offset == bench.log.log_end_offset == 10
    assert append(bench.log, b"z").first_offset == 10


def test_an_empty_log_is_left_alone(directory: Path) -> None:
    bench = Bench(directory, retention_ms=HOUR_MS)
    bench.clock.advance(10 * HOUR_MS)
    bench.log.delete_old_segments()
    bench.clock.advance(10 * HOUR_MS)
    assert bench.log.delete_old_segments() == 0
    assert bench.bases == [10]


def test_size_keeps_at_least_retention_bytes(directory: Path) -> None:
    bench = Bench(directory, retention_ms=-1)
    size = bench.log.segments[0].size
    bench.log.config = config(retention_ms=-1, retention_bytes=3 * size - 1)
    assert bench.log.delete_old_segments() == 2
    assert bench.log.size_bytes == 3 * size


def test_nothing_above_the_high_watermark_goes(directory: Path) -> None:
    bench = Bench(directory, retention_ms=HOUR_MS)
    bench.clock.advance(100 * HOUR_MS)
    bench.log.high_watermark = 5
    assert bench.log.delete_old_segments() == 2
    assert bench.bases == [4, 6, 8]


def test_a_compacted_topic_keeps_its_records(directory: Path) -> None:
    bench = Bench(directory, cleanup_policy="compact", retention_ms=HOUR_MS)
    bench.clock.advance(100 * HOUR_MS)
    assert bench.log.delete_old_segments() == 0


def test_without_limits_everything_stays(directory: Path) -> None:
    bench = Bench(directory, retention_ms=-1, retention_bytes=-1)
    bench.clock.advance(100_000 * HOUR_MS)
    assert bench.log.delete_old_segments() == 0


def test_records_without_timestamps_age_by_their_file(directory: Path) -> None:
    bench = Bench(directory, retention_ms=-1)
    append(bench.log, b"no time", timestamp=-1)
    assert bench.log.active.modified_ms() > EPOCH_MS


def test_delete_records_moves_the_start_and_then_segments_go(directory: Path) -> None:
    bench = Bench(directory, retention_ms=-1, cleanup_policy="compact,delete")
    assert bench.log.advance_log_start_offset(5)
    assert not bench.log.advance_log_start_offset(3)
    assert [record.offset for record in read_all(bench.log)] == [5, 6, 7, 8, 9]
    assert bench.log.delete_old_segments() == 2
    assert bench.bases == [4, 6, 8]
    assert bench.log.log_start_offset == 5
    with pytest.raises(ApiError) as caught:
        bench.log.advance_log_start_offset(11)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_log_start_is_where_it_was_after_a_restart(directory: Path) -> None:
    bench = Bench(directory, retention_ms=-1)
    bench.log.advance_log_start_offset(5)
    bench.log.close()
    log = open_log(directory, recovery_point=10, log_start_offset=5, high_watermark=10)
    assert log.log_start_offset == 5
    assert [record.offset for record in read_all(log)] == [5, 6, 7, 8, 9]


def truncation_log(directory: Path) -> Log:
    bench = Bench(directory, retention_ms=-1)
    for number in range(3):
        append(bench.log, b"p", producer=(7, 0, number), leader_epoch=2)
    return bench.log


def test_truncating_removes_from_the_batch_that_holds_the_offset(directory: Path) -> None:
    log = truncation_log(directory)
    assert log.log_end_offset == 13
    assert log.truncate_to(7)
    assert log.log_end_offset == log.high_watermark == 6
    assert [record.offset for record in read_all(log)] == list(range(6))
    assert log.latest_epoch == 0
    assert not log.truncate_to(6)
    assert append(log, b"again").first_offset == 6


def test_truncating_takes_producers_back_too(directory: Path) -> None:
    log = truncation_log(directory)
    assert log.truncate_to(11)
    assert append(log, b"p", producer=(7, 0, 1), leader_epoch=2).first_offset == 11
    assert append(log, b"p", producer=(7, 0, 0), leader_epoch=2).is_duplicate


def test_truncating_and_appending_again_survives_a_restart(directory: Path) -> None:
    log = truncation_log(directory)
    log.truncate_to(3)
    append(log, b"new", leader_epoch=5)
    log.close()
    log = open_log(directory, recovery_point=3)
    assert [record.value for record in read_all(log)][-1] == b"new"
    assert log.end_offset_for_epoch(0) == (0, 2)
    assert log.log_end_offset == 3


def test_truncating_fully_begins_anew(directory: Path) -> None:
    log = truncation_log(directory)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert log.latest_epoch is None
    assert log.producer_states() == []
    assert append(log, b"a").first_offset == 100
