"""What a consumer reads, on Tailrace and on Apache Kafka: records and columns, committed or not, from a time on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tailrace.client import Consumer, Producer, TopicPartition
from tests.client.group_servers import SERVERS, make_topic, produce, start_server, unique

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module", params=SERVERS)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from start_server(request.param, tmp_path_factory)


async def read_all(consumer: Consumer[bytes, bytes], count: int) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    while len(rows) < count:
        records = await consumer.poll(10_000)
        assert records, f"{len(rows)} of {count} records after ten seconds"
        rows += [(r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]
    return sorted(rows, key=lambda row: row[:2])  # type: ignore[arg-type,return-value]


async def read_columns(consumer: Consumer[bytes, bytes], count: int) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    while len(rows) < count:
        batch: Any = await consumer.poll_arrow(10_000)
        assert batch.num_rows, f"{len(rows)} of {count} records after ten seconds"
        names = ("partition", "offset", "timestamp", "key", "value", "headers")
        columns = [
            batch.column(name).cast("int64").to_pylist() if name == "timestamp" else batch.column(name).to_pylist()
            for name in names
        ]
        for *fields, headers in zip(*columns, strict=True):
            rows.append((*fields, tuple((entry["key"], entry["value"]) for entry in headers)))
    return sorted(rows, key=lambda row: row[:2])  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_columns_are_the_records(servers: str, codec: str) -> None:
    topic = await make_topic(servers, 3)
    async with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        for number in range(3_000):
            key = None if number % 3 else b"key %d" % number
            headers = [("h", b"x"), ("empty", None)] if number % 5 == 0 else []
            await producer.send(topic, b"v" * (number % 100), key=key, headers=headers, partition=number % 3)
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(3)])
        rows = await read_all(consumer, 3_000)
        consumer.seek_to_beginning()
        assert await read_columns(consumer, 3_000) == rows
        assert sum(consumer.lag(key) or 0 for key in consumer.assignment) == 0
    assert {len(row[4]) for row in rows if isinstance(row[4], bytes)} == set(range(100))


@pytest.mark.parametrize("form", ["records", "columns"])
async def test_aborted_transactions_are_seen_only_by_who_reads_uncommitted(servers: str, form: str) -> None:
    topic = await make_topic(servers, 1)
    async with Producer(bootstrap_servers=servers, transactional_id=unique("writer")) as producer:
        await producer.init_transactions()
        for number in range(6):
            await producer.begin_transaction()
            for _ in range(50):
                await producer.send(topic, b"%d" % number, partition=0)
            await producer.flush()
            await (producer.commit_transaction() if number % 2 == 0 else producer.abort_transaction())
    read = read_all if form == "records" else read_columns
    for isolation, expected in (
        ("read_committed", {b"0", b"2", b"4"}),
        ("read_uncommitted", {b"%d" % n for n in range(6)}),
    ):
        async with Consumer(
            bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level=isolation
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            rows = await read(consumer, 50 * len(expected))
            assert {row[4] for row in rows} == expected
            assert len(rows) == 50 * len(expected)
            assert not await consumer.poll(200)
            assert await consumer.position(TopicPartition(topic, 0)) == 306


async def test_reading_begins_at_a_time(servers: str) -> None:
    topic = await make_topic(servers, 1)
    key = TopicPartition(topic, 0)
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(10):
            await producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_000 + number)
    await produce(servers, topic, range(10, 20), 1)
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="by_duration:PT1H") as consumer:
        consumer.assign([key])
        assert (await consumer.poll(10_000))[0].offset == 10
        consumer.seek_to_time(1_004, key)
        assert (await consumer.poll(10_000))[0].offset == 4
        found = await consumer.offsets_for_times({key: 1_007})
        assert found[key] is not None
        assert (found[key].offset, found[key].timestamp) == (7, 1_007)  # type: ignore[union-attr]
        assert await consumer.beginning_offsets([key]) == {key: 0}
        assert await consumer.end_offsets([key]) == {key: 20}
        position = await consumer.position(key)
        assert (consumer.lead(key), consumer.lag(key)) == (position, 20 - position)
