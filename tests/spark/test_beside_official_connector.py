"""Beside Spark's own Kafka connector: the same rows for the same options, and one checkpoint for both.

That it works here shows, too, that the official connector reads and writes Tailrace's broker as it does Kafka's.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.client import Producer
from tests.spark.streams import Stream
from tests.spark.topics import Topics

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark")]


def frames(spark: Any, official: str, options: dict[str, str]) -> list[list[Any]]:
    """Read with both; give the rows of each, in order."""
    both = [spark.read.format(name).options(**options).load() for name in (official, "tailrace")]
    assert both[0].schema == both[1].schema
    return [frame.orderBy("topic", "partition", "offset").collect() for frame in both]


def write_transactions(topics: Topics, topic: str) -> None:
    async def write() -> None:
        async with Producer(bootstrap_servers=topics.bootstrap_servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            for number in range(6):
                await producer.begin_transaction()
                await producer.send(topic, b"t%d" % number, partition=number % 2)
                await producer.flush()
                await (producer.abort_transaction() if number % 3 == 0 else producer.commit_transaction())

    asyncio.run(write())


def test_the_same_rows_for_the_same_options(spark: Any, official: str, topics: Topics) -> None:
    topic = topics.create()
    topics.send(topic, [f"v{n:03}" for n in range(100)], compression_type="snappy")
    write_transactions(topics, topic)
    topics.send(topic, [f"w{n:03}" for n in range(100)], compression_type="gzip")
    rows, ours = frames(spark, official, topics.options(topic, includeHeaders="true"))
    assert rows == ours
    assert len(rows) == 206
    middle = str(round(rows[len(rows) // 4]["timestamp"].timestamp() * 1000))
    server = {"kafka.bootstrap.servers": topics.bootstrap_servers}
    for options in (
        {**server, "subscribePattern": f"{topic[:-1]}.*"},
        {**server, "assign": f'{{"{topic}":[1]}}'},
        topics.options(topic, **{"kafka.isolation.level": "read_committed"}),
        topics.options(topic, startingTimestamp=middle),
        topics.options(topic, endingTimestamp=middle, minPartitions="6"),
        topics.options(topic, startingOffsets=f'{{"{topic}":{{"0":3,"1":-2}}}}', maxRecordsPerPartition="7"),
    ):
        rows, ours = frames(spark, official, options)
        assert rows == ours, options
        assert rows, options


def offsets_in(stream: Stream) -> list[Any]:
    """Give the offsets that a checkpoint holds, batch after batch."""
    folder = Path(stream.checkpoint) / "offsets"
    logs = sorted((path for path in folder.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[-1]) for path in logs]


def test_a_checkpoint_moves_from_one_connector_to_the_other_and_back(
    spark: Any, official: str, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    sent: list[str] = []
    stream = Stream(spark, tmp_path)
    for round_number, name in enumerate([official, "tailrace", official, "tailrace"]):
        records = [f"{round_number}-{n:03}" for n in range(120)]
        topics.send(topic, records)
        sent += records
        stream.name = name
        stream.run(topics.options(topic, startingOffsets="earliest", maxOffsetsPerTrigger="50"))
        assert stream.values() == sorted(sent), f"after round {round_number}, with {name}"
    assert sum(offsets_in(stream)[-1][topic].values()) == len(sent)
    assert all(list(offsets) == [topic] and set(offsets[topic]) == {"0", "1"} for offsets in offsets_in(stream))


def test_what_either_writes_the_other_reads(spark: Any, official: str, topics: Topics) -> None:
    topic = topics.create()
    server = {"kafka.bootstrap.servers": topics.bootstrap_servers, "topic": topic}
    frame = spark.range(500).selectExpr("string(id % 9) as key", "string(id) as value")
    for name in (official, "tailrace"):
        frame.write.format(name).mode("append").options(**server).save()
    rows, ours = frames(spark, official, topics.options(topic))
    assert rows == ours
    assert len(rows) == 1000
    placed = {(row["key"], row["partition"]) for row in rows}
    assert len(placed) == 9, "both choose the same partition for a key"
