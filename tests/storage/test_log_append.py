"""What a leader takes, what it refuses and in which words, and what it writes into a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.batch_header import TimestampType, crc_matches, read_batch_header
from tailrace.protocol.records.compression import Compression
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.log import Log
from tailrace.storage.log_errors import RecordsRejected
from tailrace.testing.virtual_clock import EPOCH_MS, VirtualClock
from tests.storage.log_workshop import (
    append,
    batch,
    config,
    context,
    end_transaction,
    open_log,
    read_all,
    values_of,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "flights-0")


def check_refused(
    log: Log, records: bytearray, code: ErrorCode, origin: AppendOrigin = AppendOrigin.CLIENT
) -> ApiError:
    """Append what must be refused, and see that the log is as before."""
    before = (log.log_end_offset, log.size_bytes, log.active.base_offset)
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(records, leader_epoch=3, origin=origin)
    assert caught.value.code is code
    assert (log.log_end_offset, log.size_bytes, log.active.base_offset) == before
    return caught.value


def test_offsets_and_leader_epoch_are_written_into_the_batch(log: Log) -> None:
    append(log, b"a", b"b")
    records = batch(b"c", b"d", b"e")
    result = log.append_as_leader(records, leader_epoch=4)
    assert (result.first_offset, result.last_offset, result.record_count) == (2, 4, 3)
    assert result.size_bytes == len(records)
    assert result.max_timestamp == EPOCH_MS + 2
    assert result.log_append_time_ms == -1
    header = read_batch_header(records)
    assert (header.base_offset, header.partition_leader_epoch) == (2, 4)
    assert crc_matches(records, 0, header)
    assert values_of(read_all(log)) == [b"a", b"b", b"c", b"d", b"e"]
    assert log.latest_epoch == 4
    assert log.end_offset_for_epoch(0) == (0, 2)


def test_log_append_time_is_the_brokers_clock(tmp_path: Path) -> None:
    clock = VirtualClock(EPOCH_MS + 5000)
    log = open_log(
        tmp_path / "flights-0",
        settings=config(message_timestamp_type="LogAppendTime"),
        surroundings=context(clock),
    )
    result = append(log, b"a", b"b", timestamp=1)
    assert result.log_append_time_ms == result.max_timestamp == EPOCH_MS + 5000
    assert [record.timestamp for record in read_all(log)] == [EPOCH_MS + 5000] * 2
    found = log.offset_for_timestamp(EPOCH_MS + 5000)
    assert found is not None
    assert found.offset == 0


def test_a_flipped_bit_is_refused(log: Log) -> None:
    records = batch(b"value")
    records[-3] ^= 1
    error = check_refused(log, records, ErrorCode.CORRUPT_MESSAGE)
    assert "Record is corrupt" in str(error)


def test_a_batch_that_is_cut_off_is_no_batch(log: Log) -> None:
    check_refused(log, batch(b"value")[:-1], ErrorCode.INVALID_RECORD)
    check_refused(log, bytearray(b""), ErrorCode.INVALID_RECORD)


def test_a_length_that_no_batch_can_have_is_refused(log: Log) -> None:
    records = batch(b"value")
    records[8:12] = (-5).to_bytes(4, "big", signed=True)
    check_refused(log, records, ErrorCode.CORRUPT_MESSAGE)


def test_two_batches_in_one_produce_are_refused(log: Log) -> None:
    check_refused(log, batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD)


def test_an_old_format_is_refused_as_it_is(log: Log) -> None:
    records = batch(b"a")
    records[16] = 1
    check_refused(log, records, ErrorCode.INVALID_RECORD)


def test_a_base_offset_other_than_zero_is_refused(log: Log) -> None:
    error = check_refused(log, batch(b"a", base_offset=7), ErrorCode.INVALID_RECORD)
    assert "should be 0, but it is 7" in str(error)


def test_a_wrong_record_count_is_refused(log: Log) -> None:
    error = check_refused(log, batch(b"a", b"b", last_offset=5), ErrorCode.INVALID_RECORD)
    assert "count of records 2" in str(error)


def test_a_control_batch_from_a_client_is_refused(log: Log) -> None:
    check_refused(log, batch(b"a", producer=(1, 0, 0), is_control=True), ErrorCode.INVALID_RECORD)


def test_a_producer_without_a_sequence_is_refused(log: Log) -> None:
    check_refused(log, batch(b"a", producer=(1, 0, -1)), ErrorCode.INVALID_RECORD)


def test_a_batch_above_max_message_bytes_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0", settings=config(max_message_bytes=100))
    error = check_refused(log, batch(bytes(100)), ErrorCode.MESSAGE_TOO_LARGE)
    assert "100" in str(error)


def test_a_batch_above_the_segment_size_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0", settings=config(segment_bytes=1000))
    check_refused(log, batch(bytes(1000)), ErrorCode.RECORD_LIST_TOO_LARGE)


@pytest.mark.parametrize("compression", list(Compression))
def test_a_keyless_record_of_a_compacted_topic_is_named(tmp_path: Path, compression: Compression) -> None:
    log = open_log(tmp_path / "flights-0", settings=config(cleanup_policy="compact"))
    append(log, b"with a key", compression=compression)
    error = check_refused(log, batch(b"a", b"b", key=None, compression=compression), ErrorCode.INVALID_RECORD)
    assert isinstance(error, RecordsRejected)
    assert [index for index, _ in error.record_errors] == [0, 1]
    assert "without key" in error.record_errors[0][1]


def test_timestamps_too_far_ahead_are_named(log: Log) -> None:
    append(log, b"just within", timestamp=EPOCH_MS + 3_600_000)
    error = check_refused(log, batch(b"a", b"b", timestamp=EPOCH_MS + 3_600_000), ErrorCode.INVALID_TIMESTAMP)
    assert isinstance(error, RecordsRejected)
    assert [index for index, _ in error.record_errors] == [1]
    assert "out of range" in error.record_errors[0][1]


def test_timestamps_too_old_are_named(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0", settings=config(message_timestamp_before_max_ms=10))
    append(log, b"just within", timestamp=EPOCH_MS - 10)
    error = check_refused(log, batch(b"a", timestamp=EPOCH_MS - 11), ErrorCode.INVALID_TIMESTAMP)
    assert isinstance(error, RecordsRejected)
    assert [index for index, _ in error.record_errors] == [0]


def test_a_producer_must_not_claim_log_append_time_without_a_timestamp(log: Log) -> None:
    records = batch(b"a", timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=-1)
    check_refused(log, records, ErrorCode.INVALID_TIMESTAMP)


def test_a_repeated_batch_gets_the_offsets_of_the_first_time(log: Log) -> None:
    first = [append(log, b"a", b"b", producer=(9, 0, 2 * number)) for number in range(5)]
    for number in range(5):
        again = append(log, b"a", b"b", producer=(9, 0, 2 * number))
        assert again.is_duplicate
        assert (again.first_offset, again.last_offset) == (first[number].first_offset, first[number].last_offset)
    assert log.log_end_offset == 10


def test_a_gap_in_a_producers_sequence_is_refused(log: Log) -> None:
    append(log, b"a", producer=(9, 0, 0))
    check_refused(log, batch(b"c", producer=(9, 0, 2)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    append(log, b"b", producer=(9, 0, 1))


def test_an_old_epoch_is_refused_before_its_sequence(log: Log) -> None:
    append(log, b"a", producer=(9, 2, 0))
    check_refused(log, batch(b"b", producer=(9, 1, 7)), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_duplicate_is_known_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0")
    append(log, b"a", producer=(9, 0, 0))
    append(log, b"b", producer=(9, 0, 1))
    log.close()
    log = open_log(tmp_path / "flights-0", recovery_point=2)
    assert append(log, b"b", producer=(9, 0, 1)).is_duplicate
    assert append(log, b"c", producer=(9, 0, 2)).first_offset == 2


def test_the_last_stable_offset_waits_for_transactions(log: Log) -> None:
    append(log, b"before")
    append(log, b"first of 5", producer=(5, 0, 0), is_transactional=True)
    append(log, b"first of 6", producer=(6, 0, 0), is_transactional=True)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 1
    end_transaction(log, 5, commit=False)
    assert log.last_stable_offset == 1  # the marker is not below the high watermark yet
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 2
    end_transaction(log, 6, commit=True)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.high_watermark == 5
    aborted = log.collect_aborted_transactions(0, 5)
    assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in aborted] == [(5, 1, 3)]
    assert log.collect_aborted_transactions(4, 5) == []


def test_an_open_transaction_is_open_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "flights-0")
    append(log, b"before")
    append(log, b"open", producer=(5, 0, 0), is_transactional=True)
    log.close()
    log = open_log(tmp_path / "flights-0", recovery_point=2, high_watermark=2)
    assert log.last_stable_offset == 1
    end_transaction(log, 5, commit=True)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 3


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_conversion_to_the_topics_codec_keeps_what_the_producer_said(tmp_path: Path, codec: str) -> None:
    settings = config(compression_type=codec)
    log = open_log(tmp_path / "flights-0", settings=settings)
    other = Compression.NONE if codec != "uncompressed" else Compression.LZ4
    records = batch(b"a" * 100, b"b" * 100, producer=(9, 1, 0), is_transactional=True, compression=other)
    assert log.needs_conversion(records)
    converted = log.convert(records)
    assert not log.needs_conversion(converted)
    header = read_batch_header(converted)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (9, 1, 0, True)
    log.append_as_leader(converted, leader_epoch=0)
    assert values_of(read_all(log)) == [b"a" * 100, b"b" * 100]


def test_the_producers_codec_needs_no_conversion(log: Log) -> None:
    assert not any(log.needs_conversion(batch(b"a", compression=codec)) for codec in Compression)


def test_a_follower_takes_the_leaders_offsets_and_epochs(tmp_path: Path, log: Log) -> None:
    append(log, b"a", b"b", leader_epoch=0)
    append(log, b"c", leader_epoch=2, producer=(3, 0, 0))
    sent = log.read(0, max_bytes=1 << 20, upper_offset=3, min_one_message=True).records
    follower = open_log(tmp_path / "follower")
    result = follower.append_as_follower(sent)
    assert (result.first_offset, result.last_offset) == (0, 2)
    assert values_of(read_all(follower)) == [b"a", b"b", b"c"]
    assert follower.end_offset_for_epoch(0) == (0, 2)
    assert [state.producer_id for state in follower.producer_states()] == [3]
    with pytest.raises(ApiError):
        follower.append_as_follower(sent)
