"""What compaction leaves of a log: records, tombstones, transactions, offsets, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.settings.broker_config import BrokerConfig
from tailrace.storage.cleaning_plan import CleaningPlan
from tailrace.storage.log import Log
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.offset_map import BYTES_PER_ENTRY
from tailrace.testing.virtual_clock import VirtualClock
from tests.storage.compaction_workshop import clean, committed, headers, left, put, records, roll_and_clean
from tests.storage.log_workshop import config, context, end_transaction, forget, open_log

DAY_MS = 86_400_000


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def log(tmp_path: Path, clock: VirtualClock) -> Log:
    return compacted(tmp_path / "flights-0", clock)


def compacted(directory: Path, clock: VirtualClock, **overrides: object) -> Log:
    settings = config(cleanup_policy="compact", **overrides)
    return open_log(directory, settings=settings, surroundings=context(clock))


def reopened(log: Log, clock: VirtualClock, *, clean_stop: bool = True) -> Log:
    if clean_stop:
        log.close()
    else:
        forget(log)
    again = open_log(
        log.directory, settings=log.config, surroundings=context(clock), was_clean_stop=clean_stop,
        high_watermark=log.high_watermark,
    )  # fmt: skip
    assert again.failure is None
    return again


# -- records --------------------------------------------------------------------------------------------------------


def test_last_value_of_each_key_stays_at_its_offset(log: Log) -> None:
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", "2"))
    put(log, ("c", "1"), ("a", "3"))
    assert roll_and_clean(log) == 5
    assert left(log) == [(1, "b", "1"), (3, "c", "1"), (4, "a", "3")]
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)


def test_active_segment_is_not_touched(log: Log) -> None:
    put(log, ("a", "1"))
    log.roll()
    put(log, ("a", "2"))
    before = log.active.log_path.read_bytes()[: log.active.size]
    assert clean(log) == 1
    assert left(log) == [(0, "a", "1"), (1, "a", "2")]
    assert log.active.log_path.read_bytes()[: log.active.size] == before


def test_clean_part_is_cleaned_by_the_keys_of_the_dirty_part_only(log: Log) -> None:
    put(log, ("a", "1"), ("b", "1"))
    checkpoint = roll_and_clean(log)
    put(log, ("a", "2"))
    assert roll_and_clean(log, checkpoint=checkpoint) == 3
    assert left(log) == [(1, "b", "1"), (2, "a", "2")]


def test_batch_that_stays_whole_is_copied_byte_for_byte(log: Log) -> None:
    put(log, ("a", "1"), ("b", "1"))
    log.roll()
    before = log.segments[0].log_path.read_bytes()
    clean(log)
    assert log.segments[0].log_path.read_bytes() == before


@pytest.mark.parametrize("compression", Compression)
def test_what_stays_of_a_batch_keeps_codec_offsets_timestamps_and_headers(log: Log, compression: Compression) -> None:
    kept = Record(2, 1_700_000_000_500, b"k", b"v" * 50, [("trace", b"1"), ("none", None)])
    batch = write_batch(
        [Record(0, 1_700_000_000_000, b"gone", b"1"), Record(1, 1_700_000_900_000, b"gone", b"2"), kept,
         Record(3, 1_700_000_000_700, b"gone", b"3")],
        compression=compression,
    )  # fmt: skip
    log.append_as_leader(batch, leader_epoch=7)
    log.update_high_watermark(4)
    put(log, ("gone", "4"))
    roll_and_clean(log)
    assert records(log)[0] == kept
    header = headers(log)[0]
    assert (header.base_offset, header.last_offset, header.records_count) == (0, 3, 1)
    assert (header.compression, header.partition_leader_epoch) == (compression, 7)
    assert (header.base_timestamp, header.max_timestamp) == (kept.timestamp, kept.timestamp)


def test_append_time_of_a_batch_stays(tmp_path: Path, clock: VirtualClock) -> None:
    log = compacted(tmp_path / "flights-0", clock, message_timestamp_type="LogAppendTime")
    put(log, ("a", "1"), ("b", "1"), timestamp=5)
    put(log, ("a", "2"))
    appended = clock.time_ms()
    roll_and_clean(log)
    assert [record.timestamp for record in records(log)] == [appended, appended]
    assert headers(log)[0].timestamp_type.label == "LogAppendTime"


def test_records_without_a_key_go(tmp_path: Path, clock: VirtualClock) -> None:
    """A topic that was not compacted before may have such."""
    log = open_log(tmp_path / "flights-0", settings=config(), surroundings=context(clock))
    log.append_as_leader(write_batch([Record(0, 1, None, b"x"), Record(1, 1, b"a", b"y")]), leader_epoch=0)
    log.update_high_watermark(2)
    log.config = config(cleanup_policy="compact")
    roll_and_clean(log)
    assert left(log) == [(1, "a", "y")]


def test_empty_key_is_a_key(log: Log) -> None:
    put(log, ("", "1"))
    put(log, ("", "2"))
    roll_and_clean(log)
    assert left(log) == [(1, "", "2")]


# -- tombstones -----------------------------------------------------------------------------------------------------


def test_tombstone_stays_until_its_horizon_and_goes_then(log: Log, clock: VirtualClock) -> None:
    put(log, ("a", "1"))
    put(log, ("a", None), ("b", "1"))
    checkpoint = roll_and_clean(log)
    assert left(log) == [(1, "a", None), (2, "b", "1")]
    header = headers(log)[0]
    assert header.delete_horizon_ms == clock.time_ms() + DAY_MS
    assert [record.timestamp for record in records(log)] == [clock.time_ms()] * 2

    clock.advance(DAY_MS - 1)
    put(log, ("c", "1"))
    checkpoint = roll_and_clean(log, checkpoint=checkpoint)
    assert (1, "a", None) in left(log)
    assert headers(log)[0].delete_horizon_ms == header.delete_horizon_ms

    clock.advance(1)
    put(log, ("d", "1"))
    roll_and_clean(log, checkpoint=checkpoint)
    assert left(log) == [(2, "b", "1"), (3, "c", "1"), (4, "d", "1")]


def test_tombstone_that_is_not_the_last_of_its_key_goes_at_once(log: Log) -> None:
    put(log, ("a", None))
    put(log, ("a", "2"))
    roll_and_clean(log)
    assert left(log) == [(1, "a", "2")]


# -- producers and transactions -------------------------------------------------------------------------------------


def test_last_batch_of_an_active_producer_keeps_its_header(log: Log, clock: VirtualClock) -> None:
    put(log, ("a", "1"), producer=(5, 3, 0))
    put(log, ("a", "2"), ("b", "2"), producer=(5, 3, 1))
    put(log, ("a", "3"), ("b", "3"))
    roll_and_clean(log)
    put(log, ("z", "1"))
    kept = [header for header in headers(log) if not header.records_count]
    assert [(one.base_offset, one.last_offset, one.base_sequence, one.producer_epoch) for one in kept] == [(1, 2, 1, 3)]
    (log.directory / f"{5:020d}.snapshot").unlink()
    log = reopened(log, clock, clean_stop=False)
    state = log.producer_state.active_producers[5]
    assert (state.last_sequence, state.producer_epoch, state.last_offset) == (2, 3, 2)


def test_header_of_a_producer_that_expired_goes(log: Log, clock: VirtualClock) -> None:
    put(log, ("a", "1"), producer=(5, 0, 0))
    put(log, ("a", "2"))
    clock.advance(2 * DAY_MS)
    log.producer_state.remove_expired_producers(clock.time_ms())
    put(log, ("b", "1"))
    roll_and_clean(log)
    assert [header.base_offset for header in headers(log)] == [1, 2]


def test_last_batch_of_the_cleaned_range_keeps_its_header(log: Log) -> None:
    """The keys that replace it lie in the active segment's predecessor: without it the end would not be known."""
    put(log, ("a", "1"))
    log.append_as_leader(write_batch([Record(0, 1, b"n", None)]), leader_epoch=0)
    put(log, ("a", "2"))
    log.roll()
    put(log, ("a", "3"))
    log.roll()
    assert clean(log) == 4
    assert [header.last_offset for header in headers(log)] == [1, 3]


def test_aborted_records_go_and_the_marker_stays_until_its_horizon(log: Log, clock: VirtualClock) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "bad"), ("b", "bad"), producer=(9, 0, 0), is_transactional=True)
    end_transaction(log, 9, commit=False)
    log.update_high_watermark(log.log_end_offset)
    put(log, ("z", "1"))
    checkpoint = roll_and_clean(log)
    assert left(log) == [(0, "a", "1"), (4, "z", "1")]
    assert [header.is_control for header in headers(log)].count(True) == 1
    assert headers(log)[2].delete_horizon_ms is None
    assert len(log.collect_aborted_transactions(0, 5)) == 1

    # No batch of the transaction is met any more but the header that keeps the producer's sequence.
    log.producer_state.active_producers.pop(9)  # type: ignore[attr-defined]
    put(log, ("y", "1"))
    checkpoint = roll_and_clean(log, checkpoint=checkpoint)
    put(log, ("x", "1"))
    checkpoint = roll_and_clean(log, checkpoint=checkpoint)
    marker = next(header for header in headers(log) if header.is_control)
    assert marker.delete_horizon_ms == clock.time_ms() + DAY_MS
    assert log.collect_aborted_transactions(0, 7) == []

    clock.advance(DAY_MS)
    put(log, ("w", "1"))
    roll_and_clean(log, checkpoint=checkpoint)
    assert not any(header.is_control for header in headers(log))


def test_committed_records_stay_with_their_marker(log: Log) -> None:
    put(log, ("a", "1"), producer=(9, 0, 0), is_transactional=True)
    end_transaction(log, 9, commit=True)
    log.update_high_watermark(log.log_end_offset)
    put(log, ("b", "1"))
    roll_and_clean(log)
    assert [(header.is_control, header.has_delete_horizon) for header in headers(log)] == [
        (False, False), (True, False), (False, False)]  # fmt: skip
    assert [record.key for record in committed(log)] == [b"a", b"b"]


def test_open_transaction_is_not_touched(log: Log) -> None:
    put(log, ("a", "1"))
    log.roll()
    put(log, ("a", "2"), producer=(9, 0, 0), is_transactional=True)
    log.roll()
    put(log, ("a", "3"))
    log.roll()
    assert clean(log) == 1
    assert left(log) == [(0, "a", "1"), (1, "a", "2"), (2, "a", "3")]


def test_aborted_transaction_over_two_cleaned_ranges_is_dropped_whole(log: Log) -> None:
    """Where the map was full, a range may end inside a transaction."""
    put(log, ("a", "bad"), producer=(9, 0, 0), is_transactional=True)
    log.roll()
    put(log, ("k", "bad"), producer=(9, 0, 1), is_transactional=True)
    end_transaction(log, 9, commit=False)
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    put(log, ("k", "good"))
    log.roll()
    for checkpoint in (0, 1, 2):
        clean(log, checkpoint=checkpoint)
        assert [(record.key, record.value) for record in committed(log)] == [(b"k", b"good")]


# -- what is bounded ------------------------------------------------------------------------------------------------


def test_map_covers_as_much_as_fits_and_the_rest_stays(log: Log) -> None:
    for number in range(30):
        put(log, (f"key{number % 15}", str(number)))
    log.roll()

    def small(plan: CleaningPlan) -> None:
        plan.limits.map_bytes = 11 * BYTES_PER_ENTRY

    checkpoint, rounds = 0, 0
    while checkpoint < 30:
        after = clean(log, checkpoint=checkpoint, change_plan=small)
        assert after > checkpoint
        checkpoint, rounds = after, rounds + 1
    assert rounds > 1
    assert left(log) == [(15 + number, f"key{number}", str(15 + number)) for number in range(15)]


def test_batch_with_more_keys_than_the_map_ends_the_range_before_it(log: Log) -> None:
    put(log, ("a", "1"))
    put(log, *[(str(number), "1") for number in range(40)])
    log.roll()
    assert clean(log, change_plan=lambda plan: setattr(plan.limits, "map_bytes", 20 * BYTES_PER_ENTRY)) == 1
    assert len(left(log)) == 41


def test_batch_larger_than_the_buffer_is_read(log: Log) -> None:
    put(log, ("a", "x" * 300_000))
    put(log, ("a", "y" * 300_000), ("b", "1"))
    roll_and_clean(log)
    assert [offset for offset, _, _ in left(log)] == [1, 2]


def test_segments_are_put_together_up_to_their_size(tmp_path: Path, clock: VirtualClock) -> None:
    log = compacted(tmp_path / "flights-0", clock, segment_bytes=1000)
    for number in range(100):
        put(log, (f"key{number % 5}", "x" * 100))
    roll_and_clean(log)
    # By the sizes they had: full ones become as many smaller ones, which the next cleaning puts together.
    assert len(log.segments) > 15
    assert [offset for offset, _, _ in left(log)] == [95, 96, 97, 98, 99]
    put(log, ("other", "1"))
    roll_and_clean(log, checkpoint=100)
    assert [segment.base_offset for segment in log.segments] == [0, 101]


def test_segments_too_far_apart_for_one_index_stay_apart(log: Log) -> None:
    put(log, ("a", "1"))
    far = write_batch([Record(2**31 + 5, 1, b"b", b"1")], base_offset=2**31 + 5)
    log.append_as_follower(far)
    log.update_high_watermark(log.log_end_offset)
    put(log, ("c", "1"))
    roll_and_clean(log)
    assert len(log.segments) == 3
    assert [offset for offset, _, _ in left(log)] == [0, 2**31 + 5, 2**31 + 6]


# -- afterwards -----------------------------------------------------------------------------------------------------


def test_fetch_at_a_removed_offset_gives_the_next_batch(log: Log) -> None:
    for number in range(10):
        put(log, ("a" if number < 9 else "b", str(number)))
    put(log, ("a", "last"))
    roll_and_clean(log)
    for offset in range(10):
        result = log.read(offset, max_bytes=1000, upper_offset=log.log_end_offset, min_one_message=True)
        assert int.from_bytes(result.records[:8], "big") == 9


def test_times_are_found_in_a_compacted_log(log: Log) -> None:
    for number in range(10):
        put(log, ("a" if number != 4 else "b", str(number)), timestamp=1000 + number)
    roll_and_clean(log)
    found = log.offset_for_timestamp(1002)
    assert found is not None
    assert (found.offset, found.timestamp) == (4, 1004)
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp) == (9, 1009)


@pytest.mark.parametrize("clean_stop", [True, False])
def test_compacted_log_opens_again(log: Log, clock: VirtualClock, clean_stop: bool) -> None:
    for number in range(20):
        put(log, (f"k{number % 3}", str(number)), producer=(1, 0, number))
        if number % 6 == 5:
            log.roll()
    roll_and_clean(log)
    expected = left(log)
    log = reopened(log, clock, clean_stop=clean_stop)
    assert left(log) == expected
    assert log.log_end_offset == 20
    assert log.producer_state.active_producers[1].last_sequence == 19


def test_old_files_are_put_away_and_removed_later(tmp_path: Path, clock: VirtualClock) -> None:
    later: list[tuple[list[str], int]] = []
    surroundings = context(clock)
    surroundings.delete_later = lambda paths, delay: later.append((sorted(path.name for path in paths), delay))
    settings = config(cleanup_policy="compact", file_delete_delay_ms=1234)
    log = open_log(tmp_path / "flights-0", settings=settings, surroundings=surroundings)
    put(log, ("a", "1"))
    log.roll()
    put(log, ("a", "2"))
    roll_and_clean(log)
    names, delay = later[0]
    assert delay == 1234
    assert {f"{base:020d}{kind}.deleted" for base in (0, 1) for kind in (".log", ".index", ".timeindex")} <= set(names)
    assert f"{1:020d}.snapshot.deleted" in names
    left_over = {path.name for path in log.directory.iterdir()} - set(names)
    assert not [name for name in left_over if name.endswith((".swap", ".cleaned", ".deleted"))]


def test_slice_that_a_reader_holds_stays(log: Log) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "2"))
    held = log.read(0, max_bytes=1000, upper_offset=2, min_one_message=True).records
    before = bytes(held)
    roll_and_clean(log)
    assert bytes(held) == before


def test_damaged_batch_is_not_copied(log: Log) -> None:
    put(log, ("a", "1"))
    put(log, ("b", "2" * 100))
    log.roll()
    path = log.segments[0].log_path
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    with pytest.raises(SegmentDamaged, match="CRC"):
        clean(log)
    assert len(log.segments) == 2


def test_limits_are_shared_by_threads() -> None:
    from tailrace.storage.cleaning_planner import cleaner_limits

    broker = BrokerConfig({"log.cleaner.threads": "4", "log.cleaner.io.max.bytes.per.second": "1000"})
    limits = cleaner_limits(broker)
    assert (limits.map_bytes, limits.bytes_per_second, limits.buffer_bytes) == (134217728 // 4, 250.0, 65536)


def test_transaction_that_was_aborted_earlier_says_nothing_of_later_ones(log: Log) -> None:
    put(log, ("a", "1"))
    put(log, ("a", "bad"), producer=(9, 0, 0), is_transactional=True)
    end_transaction(log, 9, commit=False)
    log.update_high_watermark(log.log_end_offset)
    checkpoint = roll_and_clean(log)
    put(log, ("a", None), producer=(9, 0, 1), is_transactional=True)
    end_transaction(log, 9, commit=True)
    log.update_high_watermark(log.log_end_offset)
    roll_and_clean(log, checkpoint=checkpoint)
    assert [record.value for record in committed(log)] == [None]
