"""Offsets as JSON, ranges that become tasks, and limits of a micro-batch."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.client.metadata import PartitionMetadata, TopicMetadata
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID
from tailrace.spark.offset_json import Offsets, offset_document, offsets_in, read_offsets, write_offsets
from tailrace.spark.offset_ranges import OffsetRange, plan_tasks
from tailrace.spark.topic_selection import Assign, Subscribe, SubscribePattern, compile_pattern, select, topics_of
from tailrace.spark.trigger_limits import BatchDelay, limit_offsets, parse_duration_ms

A, B = TopicPartition("a", 0), TopicPartition("a", 1)

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b", "ü"]), st.integers(0, 30))
offset_maps = st.dictionaries(partitions, st.integers(0, 2**62), max_size=20)


def test_offsets_are_written_as_the_official_connector_writes_them() -> None:
    offsets = {TopicPartition("b", 0): 7, TopicPartition("a", 10): 1, TopicPartition("a", 2): 23}
    assert write_offsets(offsets) == '{"a":{"2":23,"10":1},"b":{"0":7}}'


@given(offset_maps)
def test_offsets_come_back(offsets: Offsets) -> None:
    assert read_offsets(write_offsets(offsets)) == offsets
    assert offsets_in(json.loads(json.dumps(offset_document(offsets)))) == offsets


def test_tasks_are_divided_as_the_official_connector_divides_them() -> None:
    long, short = OffsetRange(A, 0, 10_000), OffsetRange(B, 5, 105)
    assert plan_tasks([long, short]) == [long, short]
    assert plan_tasks([long, short], min_partitions=2) == [long, short]
    tasks = plan_tasks([long, short], min_partitions=4)
    assert tasks == [OffsetRange(A, 0, 3333), OffsetRange(A, 3333, 6666), OffsetRange(A, 6666, 10_000), short]
    assert plan_tasks([short], max_records=40) == [
        OffsetRange(B, 5, 38),
        OffsetRange(B, 38, 71),
        OffsetRange(B, 71, 105),
    ]
    assert plan_tasks([OffsetRange(A, 3, 3)], min_partitions=4) == []


ranges = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000)), max_size=8).map(
    lambda sizes: [OffsetRange(TopicPartition("t", n), first, first + size) for n, (first, size) in enumerate(sizes)]
)
counts = st.none() | st.integers(1, 40)


@given(ranges, counts, counts)
def test_tasks_hold_each_offset_once_and_keep_to_the_limits(
    given_ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    tasks = plan_tasks(given_ranges, min_partitions=min_partitions, max_records=max_records)
    pieces: dict[TopicPartition, list[OffsetRange]] = {}
    for task in tasks:
        pieces.setdefault(task.topic_partition, []).append(task)
    for offset_range in given_ranges:
        at = offset_range.first
        for piece in pieces.get(offset_range.topic_partition, []):
            assert piece.first == at
            at = piece.until
        assert at == offset_range.until
    if max_records is not None:
        assert all(task.size <= max_records for task in tasks)


@given(
    st.dictionaries(partitions, st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=10), st.integers(1)
)
def test_a_limited_batch_moves_every_partition_and_goes_too_far_in_none(
    made: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    start = {key: first for key, (first, _) in made.items()}
    latest = {key: first + size for key, (first, size) in made.items()}
    ends = limit_offsets(limit, start, latest)
    assert ends.keys() == latest.keys()
    assert all(start[key] <= end <= latest[key] for key, end in ends.items())
    assert all(ends[key] > start[key] for key in latest if latest[key] > start[key])
    assert sum(ends[key] - start[key] for key in ends) <= limit + len(ends)


def test_a_limit_is_divided_by_what_waits() -> None:
    assert limit_offsets(10, {A: 100, B: 0}, {A: 190, B: 10}) == {A: 109, B: 1}
    assert limit_offsets(10, {A: 100, B: 5}, {A: 90, B: 5}) == {A: 90, B: 5}


def test_a_batch_is_put_off_until_enough_waits_or_time_has_passed() -> None:
    delay = BatchDelay(10, 1_000)
    assert delay.is_due(5_000_000, {A: 0}, {A: 1})
    assert not delay.is_due(5_000_500, {A: 0}, {A: 9})
    assert delay.is_due(5_000_600, {A: 0}, {A: 5, B: 5})
    assert not delay.is_due(5_001_599, {A: 0}, {A: 1})
    assert delay.is_due(5_001_600, {A: 0}, {A: 0})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("15m", 900_000), ("10s", 10_000), ("500ms", 500), ("7", 7), ("1h", 3_600_000), ("2min", 120_000), ("9000us", 9)],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


def topic(name: str, count: int, *, is_internal: bool = False) -> TopicMetadata:
    made = {n: PartitionMetadata(n, 0, 1, 0, (1,), (1,), ()) for n in range(count)}
    return TopicMetadata(name, ZERO_UUID, is_internal, 0, made)


def test_topics_are_chosen_by_name_and_by_pattern() -> None:
    topics = {t.name: t for t in (topic("a", 2), topic("ab", 1), topic("__consumer_offsets", 50, is_internal=True))}
    assert select(Subscribe(("a",)), topics) == {A, B}
    assert select(Assign((B,)), topics) == {B}
    assert select(SubscribePattern("a|b"), topics) == {A, B}
    assert select(SubscribePattern(".*"), topics) == {A, B, TopicPartition("ab", 0)}
    assert topics_of(Assign((B, A))) == ["a"]
    assert topics_of(SubscribePattern(".*")) is None


def test_patterns_of_java_mean_the_same() -> None:
    assert compile_pattern(r"\Qa.b\E.*").fullmatch("a.bc")
    assert not compile_pattern(r"\Qa.b\E.*").fullmatch("axbc")
    assert compile_pattern(r"(?<day>\d+)-\k<day>".replace(r"\k<day>", "x")).fullmatch("12-x")
    assert compile_pattern(r"(?<!x)a").fullmatch("a")
    for pattern in (r"\p{Lower}+", "[a-z&&[^b]]"):
        with pytest.raises(ValueError, match="only Java's patterns have"):
            compile_pattern(pattern)
