"""Ranges of a real broker's topics become Arrow batches: with headers, transactions, compression; and what is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tailrace.client import Producer
from tailrace.client.fetched_batches import walk_batches
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ConsumerConfig
from tailrace.spark.cluster_client import ClusterClient, client_of
from tailrace.spark.data_loss import DataLoss
from tailrace.spark.offset_ranges import OffsetRange
from tailrace.spark.offset_reader import OffsetReader
from tailrace.spark.options import SourceOptions, parse_source_options
from tailrace.spark.range_reader import FetchedPiece, RangeSettings, read_range
from tests.protocol.records.record_strategies import message
from tests.spark.topics import Topics

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from tailrace.spark.columns import RowBatches, check_columns, source_schema  # noqa: E402 - it needs pyarrow
from tailrace.spark.json_values import CORRUPT_RECORD  # noqa: E402 - it needs pyarrow

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def connected(options: SourceOptions) -> tuple[ClusterClient, OffsetReader]:
    client = client_of(options.kafka, ConsumerConfig)
    return client, OffsetReader(client.cluster, options)


def ranges_of(topics: Topics, topic: str, **options: str) -> list[OffsetRange]:
    client, reader = connected(parse_source_options(topics.options(topic, **options), is_streaming=False))
    return client.run(reader.batch_ranges())


def rows_of(topics: Topics, topic: str, *names: str, **options: str) -> list[dict[str, Any]]:
    parsed = parse_source_options(topics.options(topic, **options), is_streaming=False)
    client, reader = connected(parsed)
    settings = RangeSettings(parsed.poll_timeout_ms, parsed.fails_on_data_loss)
    schema = pa.schema([SCHEMA.field(name) for name in names or SCHEMA.names])
    rows: list[dict[str, Any]] = []
    for offset_range in client.run(reader.batch_ranges()):
        for piece in read_range(client, offset_range, settings):
            batch = RowBatches(schema).make(offset_range.topic_partition, piece, offset_range.until)
            assert batch.schema == schema
            batch.validate(full=True)
            rows += batch.to_pylist()
    return rows


def values(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(row["value"].decode() for row in rows)


def test_all_columns_of_all_records(topics: Topics) -> None:
    topic = topics.create()
    topics.send(topic, [f"v{n:03}" for n in range(100)])
    rows = rows_of(topics, topic)
    assert values(rows) == [f"v{n:03}" for n in range(100)]
    assert all(row["key"] == row["value"] and row["topic"] == topic and row["timestampType"] == 0 for row in rows)
    assert {row["partition"] for row in rows} == {0, 1}
    for partition in (0, 1):
        offsets = [row["offset"] for row in rows if row["partition"] == partition]
        assert offsets == list(range(len(offsets)))
    bare = [row for row in rows if row["headers"] is None]
    assert len(bare) == 66
    first = next(row for row in rows if row["value"] == b"v003")
    assert first["headers"] == [{"key": "n", "value": b"3"}, {"key": "none", "value": None}]
    assert rows_of(topics, topic, "offset", "value")[0].keys() == {"offset", "value"}


def test_ends_are_kept_to_within_batches(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, [f"v{n:03}" for n in range(50)], compression_type="lz4")
    given = {"startingOffsets": f'{{"{topic}":{{"0":7}}}}', "endingOffsets": f'{{"{topic}":{{"0":11}}}}'}
    assert values(rows_of(topics, topic, **given)) == ["v007", "v008", "v009", "v010"]


def test_committed_readers_see_no_aborted_record(topics: Topics) -> None:
    topic = topics.create(1)

    async def write() -> None:
        async with Producer(bootstrap_servers=topics.bootstrap_servers, transactional_id=topic) as producer:
            await producer.init_transactions()
            for name, ends in [("a", "commit"), ("b", "abort"), ("c", "commit")]:
                await producer.begin_transaction()
                await producer.send(topic, name.encode())
                await producer.flush()
                await (producer.commit_transaction() if ends == "commit" else producer.abort_transaction())

    asyncio.run(write())
    assert values(rows_of(topics, topic)) == ["a", "b", "c"]
    assert values(rows_of(topics, topic, **{"kafka.isolation.level": "read_committed"})) == ["a", "c"]


def test_times_become_offsets(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, ["a"])
    topics.send(topic, ["b"])
    second = rows_of(topics, topic)[1]["timestamp"]
    milliseconds = str(round(second.timestamp() * 1000))
    assert values(rows_of(topics, topic, startingTimestamp=milliseconds))[-1] == "b"
    assert "b" not in values(rows_of(topics, topic, endingTimestamp=milliseconds))
    later = str(int(milliseconds) + 3_600_000)
    assert values(rows_of(topics, topic, endingTimestamp=later)) == ["a", "b"]
    with pytest.raises(ValueError, match="No offset matched from request of topic-partition"):
        ranges_of(topics, topic, startingTimestamp=later)
    (found,) = ranges_of(topics, topic, startingTimestamp=later, startingOffsetsByTimestampStrategy="latest")
    assert (found.first, found.until) == (2, 2)


def test_offsets_are_given_for_all_partitions_or_none(topics: Topics) -> None:
    topic = topics.create(2)
    with pytest.raises(ValueError, match=f"Specified: {topic}-0 Assigned: {topic}-0, {topic}-1"):
        ranges_of(topics, topic, startingOffsets=f'{{"{topic}":{{"0":0}}}}')
    with pytest.raises(ValueError, match="greater than the resolved end offset"):
        ranges_of(topics, topic, startingOffsets=f'{{"{topic}":{{"0":5,"1":-2}}}}')


def test_a_topic_that_is_not_there_fails_the_query(topics: Topics) -> None:
    with pytest.raises(ApiError, match="topic nowhere cannot be read"):
        ranges_of(topics, "nowhere", **{"fetchOffset.retryIntervalMs": "10"})


def read_lost(topics: Topics, offset_range: OffsetRange, *, fails: bool) -> list[FetchedPiece]:
    options = parse_source_options(topics.options(offset_range.topic_partition.topic), is_streaming=True)
    client, _ = connected(options)
    return list(read_range(client, offset_range, RangeSettings(300, fails)))


def test_offsets_that_are_gone_fail_the_task_or_are_left_out(topics: Topics) -> None:
    topic = topics.create(1)
    key = TopicPartition(topic, 0)
    topics.send(topic, ["a", "b", "c", "d"], linger_ms=0, batch_size=1)
    assert topics.admin(lambda admin: admin.delete_records(key, 2)) == 2
    with pytest.raises(DataLoss, match=f"Offsets 0 to 2 of {topic}-0 are not there any more"):
        read_lost(topics, OffsetRange(key, 0, 4), fails=True)
    assert [piece.first for piece in read_lost(topics, OffsetRange(key, 0, 4), fails=False)][:1] == [2]
    for first in (4, 6):
        with pytest.raises(DataLoss, match="ends at 4"):
            read_lost(topics, OffsetRange(key, first, 9), fails=True)
        assert read_lost(topics, OffsetRange(key, first, 9), fails=False) == []


def test_partitions_that_come_and_go_between_batches_are_seen(topics: Topics) -> None:
    topic = topics.create(1)
    key, added = TopicPartition(topic, 0), TopicPartition(topic, 1)
    topics.send(topic, ["a", "b"], partition=0)
    topics.admin(lambda admin: admin.create_partitions({topic: 2}))
    topics.send(topic, ["c"], partition=1)
    strict, lenient = (
        parse_source_options(topics.options(topic, failOnDataLoss=fails), is_streaming=True)
        for fails in ("true", "false")
    )
    client, reader = connected(strict)
    assert client.run(reader.partitions()) == {key, added}
    ranges = client.run(reader.ranges_between({key: 1}, {key: 2, added: 1}))
    assert ranges == [OffsetRange(key, 1, 2), OffsetRange(added, 0, 1)]
    lost: list[tuple[dict[TopicPartition, int], dict[TopicPartition, int], str]] = [
        ({key: 2, TopicPartition("old", 0): 5}, {key: 2}, "Partitions old-0 are gone"),
        ({key: 9}, {key: 2}, "offset was changed from 9 to 2"),
    ]
    for start, end, what in lost:
        with pytest.raises(DataLoss, match=what):
            client.run(reader.ranges_between(start, end))
        assert client.run(connected(lenient)[1].ranges_between(start, end))[0].size <= 0


def piece_of(data: bytes, first: int = 0) -> FetchedPiece:
    return FetchedPiece(walk_batches(data, first, aborted=None), first)


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytes(write_batch([Record(0, -1, None, None), Record(1, 5, b"k", b"v", [("h", b"1")])])),
        lambda: message(0, None, None, magic=1, timestamp=-1) + message(1, b"k", b"v", magic=1, timestamp=5),
    ],
)
def test_old_and_new_messages_look_alike(make: Callable[[], bytes]) -> None:
    batch = RowBatches(SCHEMA).make(TopicPartition("t", 4), piece_of(make()), 2)
    first, second = batch.to_pylist()
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [-1000, 5000]
    assert (first["key"], first["value"], first["headers"], first["partition"]) == (None, None, None, 4)
    assert (second["key"], second["value"], second["offset"]) == (b"k", b"v", 1)
    assert RowBatches(SCHEMA).make(TopicPartition("t", 4), piece_of(make()), 1).num_rows == 1


def test_a_time_beyond_microseconds_is_refused() -> None:
    data = bytes(write_batch([Record(0, 2**62, None, b"v")]))
    with pytest.raises(ValueError, match="overflows microseconds"):
        RowBatches(SCHEMA).make(TopicPartition("t", 0), piece_of(data), 1)


def test_json_values_become_structs_beside_the_other_columns() -> None:
    value = pa.field("value", pa.struct([("id", pa.int64())]))
    schema = pa.schema([value, SCHEMA.field("offset"), pa.field(CORRUPT_RECORD, pa.binary())])
    texts = [b'{"id":1}', b"{}", b"what?", None]
    new = bytes(write_batch([Record(n, n, None, text) for n, text in enumerate(texts)]))
    old = b"".join(message(n, None, text, magic=1, timestamp=n) for n, text in enumerate(texts))
    for data in (new, old):
        batch = RowBatches(schema, decodes_json=True).make(TopicPartition("t", 0), piece_of(data), 4)
        assert batch.column("value").to_pylist() == [{"id": 1}, {"id": None}, None, None]
        assert batch.column(CORRUPT_RECORD).to_pylist() == [None, None, b"what?", None]
        assert batch.column("offset").to_pylist() == [0, 1, 2, 3]
    alone = pa.schema([pa.field(CORRUPT_RECORD, pa.binary())])
    with pytest.raises(ValueError, match="together with the column value"):
        RowBatches(alone, decodes_json=True)


def test_columns_are_those_of_the_official_source() -> None:
    expected = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    assert source_schema(include_headers=False) == expected
    assert source_schema(include_headers=True) == f"{expected}, headers array<struct<key:string,value:binary>>"
    assert check_columns([("value", "binary")], include_headers=False) == ["value"]
    decoded = source_schema(include_headers=False, value_schema="id long")
    assert decoded == f"{expected.replace('value binary', 'value struct<id long>')}, {CORRUPT_RECORD} binary"
    typed = [("value", "struct<id:bigint>"), (CORRUPT_RECORD, "binary")]
    assert check_columns(typed, include_headers=False, decodes_json=True) == ["value", CORRUPT_RECORD]
    for columns, wrong in [
        ([("worth", "binary")], "there is no column 'worth'"),
        ([("value", "string")], "is of type binary, not string"),
        ([("headers", "array<struct<key:string,value:binary>>")], "includeHeaders=true"),
        ([], "at least one column"),
    ]:
        with pytest.raises(ValueError, match=wrong):
            check_columns(columns, include_headers=False)
