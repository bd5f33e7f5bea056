"""The source in a real Spark: batch and stream, limits, restarts, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.streams import Stream, values
from tests.spark.topics import Topics

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]


def test_a_batch_is_read_with_all_columns(spark: Any, topics: Topics) -> None:
    topic = topics.create()
    sent = [f"v{n:04}" for n in range(1000)]
    topics.send(topic, sent, compression_type="zstd")
    frame = spark.read.format("tailrace").options(**topics.options(topic, includeHeaders="true")).load()
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    rows = frame.orderBy("value").collect()
    assert [row["value"].decode() for row in rows] == sent
    assert rows[3]["headers"][0]["key"] == "n"
    assert rows[4]["headers"] is None
    assert rows[0]["topic"] == topic
    pruned = spark.read.format("tailrace").schema("value binary").options(**topics.options(topic, minPartitions="5"))
    assert values(pruned.load()) == sent
    assert pruned.load().rdd.getNumPartitions() == 5
    smaller = spark.read.format("tailrace").options(**topics.options(topic, maxRecordsPerPartition="100")).load()
    assert smaller.count() == 1000
    assert 10 <= smaller.rdd.getNumPartitions() <= 11


def test_json_is_decoded_into_columns(spark: Any, topics: Topics) -> None:
    topic = topics.create()
    texts = [f'{{"id": {n}, "name": "n{n}", "at": "2013-01-01T10:00:{n % 60:02}Z"}}' for n in range(500)]
    topics.send(topic, [*texts, "broken"])
    options = topics.options(topic, format="json", valueSchema="id long, name string, at timestamp, other double")
    frame = spark.read.format("tailrace").options(**options).load()
    official = spark.read.format("tailrace").options(**topics.options(topic)).load()
    parsed = official.selectExpr(
        "from_json(string(value), 'id long, name string, at timestamp, other double') as value", "offset", "partition"
    ).where("value.id is not null")
    ours = frame.where("value is not null").select("value.*", "partition", "offset").orderBy("id").collect()
    assert len(ours) == 500
    assert ours == parsed.select("value.*", "partition", "offset").orderBy("id").collect()
    assert [row["_corrupt_record"] for row in frame.where("_corrupt_record is not null").collect()] == [b"broken"]


def test_an_empty_topic_gives_no_rows(spark: Any, topics: Topics) -> None:
    frame = spark.read.format("tailrace").options(**topics.options(topics.create())).load()
    assert frame.count() == 0


@pytest.mark.parametrize(
    "options", [{"startingOffsets": "latest"}, {"maxBytesPerTrigger": "1"}, {"minPartitions": "0"}]
)
def test_what_is_refused_fails_the_query(spark: Any, topics: Topics, options: dict[str, str]) -> None:
    frame = spark.read.format("tailrace").options(**topics.options("flights", **options)).load()
    with pytest.raises(Exception, match=r"latest for batch queries|is not supported|must be positive"):
        frame.collect()


def test_a_stream_goes_on_from_its_checkpoint_within_its_limits(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    first, second = [f"a{n:03}" for n in range(500)], [f"b{n:03}" for n in range(300)]
    topics.send(topic, first)
    stream = Stream(spark, tmp_path)
    options = topics.options(topic, startingOffsets="earliest", maxOffsetsPerTrigger="200")
    progress = stream.run(options)
    assert stream.values() == first
    assert max(batch["numInputRows"] for batch in progress) <= 200
    assert progress[-1]["sources"][0]["latestOffset"] is not None
    topics.send(topic, second)
    topics.admin(lambda admin: admin.create_partitions({topic: 3}))
    topics.send(topic, ["c"], partition=2)
    stream.run(options)
    assert stream.values() == [*first, *second, "c"]
    assert stream.run(options) == [] or stream.values() == [*first, *second, "c"]


def test_a_stream_from_the_latest_offsets_keeps_its_place(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    topics.send(topic, ["before"])
    stream = Stream(spark, tmp_path)
    stream.run(topics.options(topic))
    topics.send(topic, ["after"])
    stream.run(topics.options(topic))
    assert stream.values() == ["after"]


def test_a_trigger_that_asks_for_all_is_not_limited(spark: Any, topics: Topics, tmp_path: Path) -> None:
    topic = topics.create()
    topics.send(topic, [f"v{n}" for n in range(90)])
    stream = Stream(spark, tmp_path)
    progress = stream.run(topics.options(topic, startingOffsets="earliest", maxOffsetsPerTrigger="10"), once=True)
    assert [batch["numInputRows"] for batch in progress] == [90]
    assert len(stream.values()) == 90


def test_a_stream_whose_records_are_gone_fails_or_goes_on(spark: Any, topics: Topics, tmp_path: Path) -> None:
    from tailrace.protocol.topic_partition import TopicPartition

    topic = topics.create(1)
    topics.send(topic, ["a", "b"])
    stream = Stream(spark, tmp_path)
    stream.run(topics.options(topic, startingOffsets="earliest"))
    topics.send(topic, ["c", "d"], batch_size=1)
    topics.admin(lambda admin: admin.delete_records(TopicPartition(topic, 0), 3))
    with pytest.raises(Exception, match="failOnDataLoss"):
        stream.run(topics.options(topic))
    stream.run(topics.options(topic, failOnDataLoss="false"))
    assert stream.values() == ["a", "b", "d"]
