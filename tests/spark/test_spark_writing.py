"""The sink in a real Spark: batch and stream, every column; and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.spark.topics import Topics

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]


def read(spark: Any, topics: Topics, topic: str) -> list[Any]:
    frame = spark.read.format("tailrace").options(**topics.options(topic, includeHeaders="true")).load()
    rows: list[Any] = frame.orderBy("value").collect()
    return rows


def test_every_column_is_written(spark: Any, topics: Topics) -> None:
    first, second = topics.create(), topics.create()
    frame = spark.sql(
        f"""select string(id) as value, binary(string(id % 7)) as key, if(id % 2 = 0, '{first}', '{second}') as topic,
        if(id < 10, 1, null) as partition,
        if(id % 5 = 0, array(named_struct('key', 'h', 'value', binary('x'))), null) as headers,
        'left aside' as other from range(1000, 3000, 1, 3)"""
    )
    server = {"kafka.bootstrap.servers": topics.bootstrap_servers}
    frame.write.format("tailrace").mode("append").options(**server).save()
    rows = read(spark, topics, first)
    assert [row["value"].decode() for row in rows] == [str(n) for n in range(1000, 3000, 2)]
    assert all(row["key"].decode() == str(int(row["value"]) % 7) for row in rows)
    assert all((row["headers"] is None) == (int(row["value"]) % 5 != 0) for row in rows)
    assert {row["partition"] for row in rows} == {0, 1}
    assert len(read(spark, topics, second)) == 1000
    placed = frame.selectExpr("value", "1 as partition")
    third = topics.create()
    placed.write.format("tailrace").mode("append").options(**server, topic=third).save()
    assert {row["partition"] for row in read(spark, topics, third)} == {1}


def test_a_stream_is_copied_from_topic_to_topic(spark: Any, topics: Topics, tmp_path: Path) -> None:
    source, target = topics.create(), topics.create()
    server = {"kafka.bootstrap.servers": topics.bootstrap_servers}
    for part in ("a", "b"):
        topics.send(source, [f"{part}{n:03}" for n in range(200)])
        options = topics.options(source, startingOffsets="earliest", maxOffsetsPerTrigger="70")
        copied = spark.readStream.format("tailrace").options(**options).load().select("key", "value")
        query = copied.writeStream.format("tailrace").options(**server, topic=target)
        query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()
        assert query.exception() is None
    expected = [f"{part}{n:03}" for part in ("a", "b") for n in range(200)]
    rows = read(spark, topics, target)
    assert [row["value"].decode() for row in rows] == expected
    assert [row["key"].decode() for row in rows] == expected


@pytest.mark.parametrize(
    ("mode", "query", "message"),
    [
        ("overwrite", "select 'a' as value", "Save mode Overwrite not allowed"),
        ("append", "select 1 as value", "value attribute unsupported type int"),
        ("append", "select 'a' as key", "Required attribute 'value' not found"),
        ("append", "select 'a' as value, string(null) as topic", "null topic"),
    ],
)
def test_what_is_refused_fails_the_query(spark: Any, topics: Topics, mode: str, query: str, message: str) -> None:
    writer = spark.sql(query).write.format("tailrace").mode(mode)
    writer = writer.option("kafka.bootstrap.servers", topics.bootstrap_servers)
    if "topic" not in query:
        writer = writer.option("topic", "flights")
    with pytest.raises(Exception, match=message):
        writer.save()
