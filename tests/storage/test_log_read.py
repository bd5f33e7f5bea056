"""What a read gives: which batches, how many bytes, up to which offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.batch_header import read_batch_header
from tailrace.storage.log import Log
from tests.storage.log_workshop import append, config, open_log, read_all, values_of


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Ten segments or so of batches with three records each."""
    log = open_log(tmp_path / "flights-0", settings=config(segment_bytes=4000, index_interval_bytes=300))
    for number in range(100):
        append(log, *(bytes([number]) * 80 for _ in range(3)), timestamp=1_700_000_000_000 + 10 * number)
    log.update_high_watermark(log.log_end_offset)
    assert len(log.segments) > 5
    return log


def first_offset(records: memoryview) -> int:
    return read_batch_header(records).base_offset


def test_every_offset_gives_the_batch_that_holds_it(log: Log) -> None:
    for offset in range(log.log_end_offset):
        result = log.read(offset, max_bytes=100, upper_offset=log.log_end_offset, min_one_message=True)
        assert first_offset(result.records) == offset - offset % 3


@pytest.mark.parametrize("max_bytes", [1, 100, 1000, 5000, 1 << 20])
def test_reading_on_gives_every_record_once(log: Log, max_bytes: int) -> None:
    assert [record.offset for record in read_all(log, max_bytes=max_bytes)] == list(range(300))


def test_the_first_batch_is_whole_only_if_that_is_asked(log: Log) -> None:
    whole = log.read(0, max_bytes=10, upper_offset=300, min_one_message=True)
    assert len(whole.records) == read_batch_header(log.segments[0].view).size
    cut = log.read(0, max_bytes=10, upper_offset=300, min_one_message=False)
    assert (len(cut.records), cut.first_entry_is_incomplete) == (10, True)


def test_a_read_never_passes_the_upper_offset(log: Log) -> None:
    for upper in range(301):
        result = log.read(0, max_bytes=1 << 20, upper_offset=upper, min_one_message=True)
        if upper < 3:
            assert not result.records
        else:
            last = max(record.offset for record in read_slice(result.records))
            assert last < upper
            assert last >= min(upper - 3, log.segments[1].base_offset - 1)


def read_slice(records: memoryview) -> list[object]:
    from tailrace.protocol.records.reader import read_records

    return list(read_records(records, allow_partial_tail=True))


def test_a_read_stays_within_one_segment(log: Log) -> None:
    result = log.read(0, max_bytes=1 << 20, upper_offset=300, min_one_message=True)
    assert len(result.records) == log.segments[0].size
    assert result.segment_base_offset == 0


def test_reading_at_the_end_gives_nothing(log: Log) -> None:
    result = log.read(300, max_bytes=100, upper_offset=300, min_one_message=True)
    assert (bytes(result.records), result.fetch_offset) == (b"", 300)


@pytest.mark.parametrize("offset", [-1, 301, 1 << 62])
def test_an_offset_outside_the_log_is_out_of_range(log: Log, offset: int) -> None:
    with pytest.raises(ApiError) as caught:
        log.read(offset, max_bytes=100, upper_offset=300, min_one_message=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_offset_below_the_log_start_is_out_of_range(log: Log) -> None:
    log.advance_log_start_offset(50)
    with pytest.raises(ApiError) as caught:
        log.read(49, max_bytes=100, upper_offset=300, min_one_message=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert first_offset(log.read(50, max_bytes=1, upper_offset=300, min_one_message=True).records) == 48


def test_a_slice_stays_as_it_was_when_the_segment_grows_and_goes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0", settings=config(segment_bytes=200_000))
    append(log, b"kept")
    kept = log.read(0, max_bytes=1000, upper_offset=1, min_one_message=True).records
    before = bytes(kept)
    for _ in range(30):
        append(log, bytes(20_000))
    assert len(log.segments) > 2
    log.truncate_fully_and_start_at(1000)
    assert bytes(kept) == before


def test_large_and_small_appends_meet_in_one_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0")
    sizes = [10, 5000, 100, 70_000, 1, 300_000, 4000, 4100]
    for size in sizes:
        append(log, bytes([size % 251]) * size)
    assert [len(value or b"") for value in values_of(read_all(log))] == sizes
    log.close()
    log = open_log(tmp_path / "flights-0", recovery_point=8)
    assert [len(value or b"") for value in values_of(read_all(log))] == sizes
    assert log.segments[0].log_path.stat().st_size == log.size_bytes


def test_timestamps_are_found_in_every_segment(log: Log) -> None:
    for number in range(100):
        found = log.offset_for_timestamp(1_700_000_000_000 + 10 * number + 1)
        assert found is not None
        assert (found.offset, found.leader_epoch) == (3 * number + 1, 0)
    found = log.offset_for_timestamp(0)
    assert found is not None
    assert found.offset == 0
    assert log.offset_for_timestamp(1_700_000_001_000) is None


def test_a_timestamp_is_not_found_below_the_log_start(log: Log) -> None:
    log.advance_log_start_offset(100)
    found = log.offset_for_timestamp(0)
    assert found is not None
    assert found.offset == 100


def test_the_largest_timestamp_is_found(log: Log) -> None:
    append(log, b"later", b"earlier", timestamp=1_700_000_100_000)
    append(log, b"old", timestamp=5)
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert (found.timestamp, found.offset) == (1_700_000_100_001, 301)


def test_an_index_that_points_wrong_is_made_anew(log: Log) -> None:
    log.close()
    directory = log.directory
    for path in directory.glob("*.index"):
        data = bytearray(path.read_bytes())
        for position in range(0, len(data), 8):
            data[position + 7] ^= 0x04
        path.write_bytes(data)
    log = open_log(directory, settings=log.config, recovery_point=300, high_watermark=300)
    for offset in range(0, 300, 7):
        result = log.read(offset, max_bytes=10, upper_offset=300, min_one_message=True)
        assert first_offset(result.records) == offset - offset % 3
