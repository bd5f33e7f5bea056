"""Arrow columns of fetched batches are what the plain reader gives, for any records; and what is broken is refused."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.client.fetched_batches import AbortedRange
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.batch_header import TimestampType, iterate_batch_headers
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.control import ControlType, EndTxnMarker, write_end_txn_marker
from tailrace.protocol.records.reader import read_records
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.protocol.topic_partition import TopicPartition
from tests.protocol.records.record_strategies import message, record_lists

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from tailrace.client.arrow_reader import SCHEMA, decode_record_set  # noqa: E402 - it needs pyarrow
from tailrace.protocol.records.record_columns import decode_columns  # noqa: E402 - it needs numpy

KEY = TopicPartition("flights", 3)


def rows_of(batch: Any) -> list[tuple[object, ...]]:
    assert batch.schema == SCHEMA
    batch.validate(full=True)
    times = batch.column("timestamp").cast("int64").to_pylist()
    headers = [tuple((h["key"], h["value"]) for h in entry) for entry in batch.column("headers").to_pylist()]
    columns = [batch.column(name).to_pylist() for name in ("offset", "key", "value")]
    return list(zip(columns[0], times, columns[1], columns[2], headers, strict=True))


def expected_of(data: bytes, first_offset: int) -> list[tuple[object, ...]]:
    return [
        (r.offset, None if r.timestamp < 0 else r.timestamp, r.key, r.value, tuple(r.headers))
        for r in read_records(data, check_crcs=False)
        if r.offset >= first_offset
    ]


@st.composite
def record_sets(draw: st.DrawFn) -> tuple[bytes, list[Record]]:
    """Some batches one behind the other, each in a codec of its own, some of them alike."""
    data, everything = b"", []
    for _ in range(draw(st.integers(1, 4))):
        records = draw(record_lists(size_max=40))
        repeats = draw(st.integers(1, 3))
        for _ in range(repeats):
            last = everything[-1].offset if everything else -1
            shift = last + 1 - records[0].offset
            moved = [Record(r.offset + shift, r.timestamp, r.key, r.value, r.headers) for r in records]
            kind = draw(st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]))
            if min(r.timestamp for r in moved) < 0:
                kind = TimestampType.CREATE_TIME
            codec = draw(st.sampled_from(Compression))
            data += write_batch(moved, base_offset=moved[0].offset, compression=codec, timestamp_type=kind)
            everything += moved
    return data, everything


@settings(max_examples=60, deadline=None)
@given(record_sets(), st.integers(0, 30), st.integers(0, 40))
def test_any_records_come_out_as_the_plain_reader_gives_them(
    made: tuple[bytes, list[Record]], skipped: int, cut: int
) -> None:
    data, records = made
    first_offset = records[min(skipped, len(records) - 1)].offset
    batch, next_offset = decode_record_set(KEY, data, first_offset=first_offset)
    assert rows_of(batch) == expected_of(data, first_offset)
    assert next_offset == records[-1].offset + 1
    positions = [position for position, _ in iterate_batch_headers(data)]
    batch, _ = decode_record_set(KEY, data[: max(len(data) - 1 - cut, 0)])
    whole = data[: positions[-1]]
    assert rows_of(batch) == expected_of(whole, 0) if len(data) - 1 - cut >= positions[-1] else batch is not None


@pytest.mark.parametrize("size", [1, 30, 62, 63, 64, 8190, 8200, 70_000])
def test_records_of_one_size_are_followed_in_strides(size: int) -> None:
    records = [Record(n, 1_000 + n * 37, b"k", b"v" * size) for n in range(300)]
    data = bytes(write_batch(records))
    data += bytes(write_batch([Record(300 + r.offset, r.timestamp, r.key, r.value) for r in records], base_offset=300))
    batch, next_offset = decode_record_set(KEY, data)
    assert rows_of(batch) == expected_of(data, 0)
    assert next_offset == 600
    columns = decode_columns(data, list(iterate_batch_headers(data)))
    assert len(columns.after(450)) == 150


def test_nulls_empty_fields_and_headers_without_value_are_kept() -> None:
    records = [
        Record(0, 5, None, None),
        Record(1, 6, b"", b""),
        Record(2, 7, None, b"v", [("a", None), ("", b""), ("ü", b"2")]),
        Record(3, -1, b"k", None, [("a", b"1")]),
    ]
    data = bytes(write_batch(records))
    batch, _ = decode_record_set(KEY, data)
    assert rows_of(batch) == expected_of(data, 0)
    assert batch.column("topic").to_pylist() == ["flights"] * 4
    assert batch.column("partition").to_pylist() == [3] * 4


def test_old_messages_come_through_the_plain_reader() -> None:
    data = message(3, b"k", b"v", magic=1, timestamp=9, attributes=8) + bytes(
        write_batch([Record(5, 7, None, b"w")], base_offset=5)
    )
    batch, next_offset = decode_record_set(KEY, data)
    assert rows_of(batch) == [(3, 9, b"k", b"v", ()), (5, 7, None, b"w", ())]
    assert batch.column("timestamp_type").to_pylist() == [1, 0]
    assert next_offset == 6


def test_header_names_that_are_no_text_are_shown_as_such() -> None:
    batch, _ = decode_record_set(KEY, bytes(write_batch([Record(0, 1, None, b"v", [("\udcff", b"1")])])))
    assert batch.column("headers").to_pylist() == [[{"key": "�", "value": b"1"}]]


def marker(offset: int, producer_id: int, control_type: ControlType) -> bytes:
    end = EndTxnMarker(control_type, 0)
    return bytes(write_end_txn_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset))


def written_by(producer_id: int, first: int, last: int) -> bytes:
    records = [Record(offset, 1, None, b"%d" % offset) for offset in range(first, last + 1)]
    return bytes(write_batch(records, base_offset=first, producer_id=producer_id, is_transactional=True))


def test_aborted_ranges_and_markers_are_left_out() -> None:
    data = written_by(7, 0, 1) + written_by(8, 2, 3) + marker(4, 7, ControlType.ABORT) + written_by(7, 5, 6)
    data += marker(7, 7, ControlType.COMMIT) + marker(8, 8, ControlType.COMMIT)
    batch, next_offset = decode_record_set(KEY, data, aborted=[AbortedRange(0, 7)])
    assert batch.column("offset").to_pylist() == [2, 3, 5, 6]
    assert next_offset == 9
    batch, _ = decode_record_set(KEY, data)
    assert batch.column("offset").to_pylist() == [0, 1, 2, 3, 5, 6]


def test_a_marker_ends_an_aborted_transaction_of_which_no_record_was_fetched() -> None:
    data = marker(4, 7, ControlType.ABORT) + written_by(7, 5, 6) + marker(7, 7, ControlType.COMMIT)
    batch, _ = decode_record_set(KEY, data, first_offset=4, aborted=[AbortedRange(0, 7)])
    assert batch.column("offset").to_pylist() == [5, 6]


def test_a_corrupt_batch_is_an_error_once_it_is_the_first() -> None:
    good, bad = written_by(7, 0, 4), bytearray(written_by(7, 5, 9))
    bad[-1] ^= 1
    batch, next_offset = decode_record_set(KEY, good + bytes(bad))
    assert (batch.num_rows, next_offset) == (5, 5)
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        decode_record_set(KEY, bytes(bad), first_offset=5)
    assert decode_record_set(KEY, b"", first_offset=5)[1] == 5


@pytest.mark.parametrize("seed", range(10))
def test_damage_inside_of_a_batch_is_refused_as_the_plain_reader_refuses_it_or_does_no_harm(seed: int) -> None:
    random = Random(seed)
    for _ in range(60):
        size = random.choice([0, 3, 60, 64, 200])
        records = [
            Record(
                n, 1000 + n, random.choice([None, b"k"]), b"v" * random.randint(0, size), [("a", b"1")] * (n % 9 // 8)
            )
            for n in range(random.randint(1, 60))
        ]
        damaged = bytearray(write_batch(records, compression=random.choice(list(Compression))))
        for _ in range(random.randint(1, 3)):
            damaged[random.randint(61, len(damaged) - 1)] = random.randint(0, 255)
        data = bytes(damaged)
        try:
            batch, _ = decode_record_set(KEY, data, check_crcs=False)
        except (ApiError, MalformedFrame, pa.ArrowInvalid, OverflowError):
            continue
        assert rows_of(batch) == expected_of(data, 0)
