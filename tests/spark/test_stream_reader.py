"""What a streaming query's reader answers Spark: where a batch ends under each limit, and how it begins."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tests.spark.topics import Topics

pytest.importorskip("pyspark", minversion="4.2", reason="pyspark is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from tailrace.spark.options import parse_source_options
from tailrace.spark.stream_reader import StreamReader


def reader_of(topics: Topics, topic: str, **options: str) -> Any:
    return StreamReader(parse_source_options(topics.options(topic, **options), is_streaming=True), None)


def test_a_batch_ends_where_its_limit_says(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, [f"v{n}" for n in range(50)])
    start = {topic: {"0": 0}}
    reader = reader_of(topics, topic, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    assert reader.initialOffset() == start
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    assert reader.latestOffset(start, ReadMaxRows(20)) == {topic: {"0": 20}}
    assert reader.latestOffset(start, ReadAllAvailable()) == {topic: {"0": 50}}
    assert reader.reportLatestOffset() == {topic: {"0": 50}}
    assert [task.value.size for task in reader.partitions(start, {topic: {"0": 20}})] == [20]
    assert reader_of(topics, topic).getDefaultReadLimit() == ReadAllAvailable()


def test_a_small_batch_is_put_off(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, ["a", "b"])
    start = {topic: {"0": 0}}
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "6"}
    reader = reader_of(topics, topic, **options)
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset(start, limit) == {topic: {"0": 2}}, "the first batch does not wait"
    topics.send(topic, ["c", "d"])
    assert reader.latestOffset(start, limit) == start, "four are fewer than five"
    topics.send(topic, [f"e{n}" for n in range(9)])
    assert reader.latestOffset(start, limit) == {topic: {"0": 6}}
    only_least = reader_of(topics, topic, startingOffsets="earliest", minOffsetsPerTrigger="99")
    assert only_least.getDefaultReadLimit() == ReadMinRows(99)
    only_least.prepareForTriggerAvailableNow()
    assert only_least.latestOffset(start, ReadMinRows(99)) == {topic: {"0": 13}}, "what is available is all there is"


def test_what_comes_after_the_start_is_not_available_now(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, ["a"])
    reader = reader_of(topics, topic, startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    topics.send(topic, ["b"])
    assert reader.latestOffset({topic: {"0": 0}}, ReadAllAvailable()) == {topic: {"0": 1}}


def test_a_query_from_the_latest_offsets_writes_its_place_down_first(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, ["a"])
    reader = reader_of(topics, topic)
    start = reader.initialOffset()
    topics.send(topic, ["b"])
    assert reader.initialOffset() == start == {topic: {"0": 1}}
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.latestOffset(start, ReadAllAvailable()) == {topic: {"0": 2}}
    again = reader_of(topics, topic)
    assert again.partitions(again.initialOffset(), start) == [], "the empty first batch, repeated after a failure"


def test_the_reader_is_pickled_with_its_client_open(topics: Topics) -> None:
    topic = topics.create(1)
    reader = reader_of(topics, topic, startingOffsets="earliest")
    assert reader.initialOffset() == pickle.loads(pickle.dumps(reader)).initialOffset() == {topic: {"0": 0}}


def test_a_group_is_told_how_far_the_query_is(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, [f"v{n}" for n in range(9)])
    group = f"lag-of-{topic}"
    reader = reader_of(topics, topic, startingOffsets="earliest", commitOffsetsToGroup=group)
    for done in (0, 4, 9):
        reader.latestOffset({topic: {"0": done}}, ReadAllAvailable())
        found = topics.admin(lambda admin: admin.list_group_offsets({group: None}))[group]
        assert {key.topic: offset.offset for key, offset in found.items()} == {topic: done}
