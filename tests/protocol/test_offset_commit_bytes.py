"""Plain offset commits written at once: the bytes that the declared messages have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.coordinator.offset_commit_bytes import key_prefix, pack_partition, plain_value
from tailrace.protocol.coordinator.record_codec import encode_record
from tailrace.protocol.records.reader import read_records
from tailrace.protocol.records.writer import BatchBuilder

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.text(max_size=8), st.text(max_size=8), INT32, INT64, INT32, INT64)
def test_they_are_the_bytes_of_the_messages(
    group: str, topic: str, partition: int, offset: int, leader_epoch: int, timestamp: int
) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    value = OffsetCommitValue(offset=offset, leader_epoch=leader_epoch, commit_timestamp=timestamp)
    plain = key_prefix(group, topic) + pack_partition(partition), plain_value(offset, leader_epoch, timestamp)
    assert plain == encode_record(key, value)


@pytest.mark.parametrize("before", [0, 1, 70])
@pytest.mark.parametrize("count", [0, 1, 70, 300])
def test_records_added_at_once_make_the_batch_that_they_make_one_by_one(before: int, count: int) -> None:
    records = [(b"k" * (number % 150), None if number % 7 == 0 else b"v" * (number % 200)) for number in range(count)]
    at_once, one_by_one = BatchBuilder(), BatchBuilder()
    for builder in (at_once, one_by_one):
        for _ in range(before):
            builder.append(1000, b"before", b"")
    at_once.append_all(1003, records)
    for key, value in records:
        one_by_one.append(1003, key, value)
    batch = at_once.finish()
    assert batch == one_by_one.finish()
    if before + count:
        assert [(record.key, record.value) for record in read_records(batch)][before:] == records
