"""Many records at once: where they go, how large their batches are, and what is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tailrace.client.bulk import BulkDelivery, BulkInterrupted, WrittenRange
from tailrace.client.errors import BufferExhausted, ClientClosed, RecordTooLarge, SerializationFailed
from tailrace.client.interceptors import ProducerInterceptor, ProducerRecord
from tailrace.client.partitioner import KeyHashes
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.testing.virtual_clock import EPOCH_MS
from tests.client.scripted_cluster import drive
from tests.client.scripted_log import Setup

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

Send = Callable[..., Awaitable[BulkDelivery]]


async def as_batch(setup: Setup, values: list[Any], keys: list[Any] | None = None, **options: Any) -> BulkDelivery:
    return await setup.producer.send_batch("flights", values, keys=keys, **options)


async def as_arrow(setup: Setup, values: list[Any], keys: list[Any] | None = None, **options: Any) -> BulkDelivery:
    columns = {"value": pa.array(values, type=pa.binary())}
    if keys is not None:
        columns["key"] = pa.array(keys, type=pa.binary())
    return await setup.producer.send_arrow("flights", pa.table(columns), **options)


both = pytest.mark.parametrize("send", [as_batch, as_arrow])


@both
async def test_records_are_written_by_key_and_their_ranges_told(send: Send) -> None:
    setup = Setup(partitions=3)
    keys = [b"%d" % (number % 50) for number in range(500)]
    values = [b"value %d" % number for number in range(500)]
    delivery = await send(setup, values, keys)
    assert delivery.records_count == 500
    with pytest.raises(asyncio.InvalidStateError):
        delivery.result()
    ranges = await drive(setup.clock, _await(delivery))
    assert setup.clock.monotonic() < 0.1, "nothing lingers"
    hashes = KeyHashes()
    for number in range(3):
        mine = [value for key, value in zip(keys, values, strict=True) if hashes.partition_of(key, 3) == number]
        assert setup.log.values[number] == mine
    assert sorted(ranges, key=lambda found: found.partition) == [
        WrittenRange("flights", number, 0, len(setup.log.values[number])) for number in range(3)
    ]
    await drive(setup.clock, setup.producer.close())


async def _await(delivery: BulkDelivery) -> list[WrittenRange]:
    return await delivery


@both
async def test_order_holds_with_what_is_sent_before_and_after(send: Send) -> None:
    setup = Setup(partitions=1, checks_sequences=True)
    await setup.producer.send("flights", b"before")
    await send(setup, [b"1", b"2"])
    after = await setup.producer.send("flights", b"after")
    await drive(setup.clock, setup.producer.flush())
    assert setup.log.values[0] == [b"before", b"1", b"2", b"after"]
    assert after.result().offset == 3
    await drive(setup.clock, setup.producer.close())


@both
async def test_batches_are_as_large_as_a_request(send: Send) -> None:
    setup = Setup(partitions=1, max_request_size=10_000, batch_size=100)
    delivery = await send(setup, [b"x" * 900] * 100, partition=0)
    ranges = await drive(setup.clock, _await(delivery))
    assert [found.records_count for found in ranges[:-1]] == [10] * (len(ranges) - 1)
    assert max(header.size for _, header in setup.log.headers) <= 10_000
    assert [found.offset for found in ranges] == list(range(0, 100, 10))
    await drive(setup.clock, setup.producer.close())


@both
async def test_the_buffer_bounds_what_waits(send: Send) -> None:
    setup = Setup(partitions=2, max_request_size=2_000, buffer_memory=5_000)
    least = setup.producer.config.buffer_memory
    memory = setup.producer._accumulator.memory
    produce = setup.log._append

    def watched(data: Any) -> Any:
        nonlocal least
        least = min(least, memory.available_bytes)
        return produce(data)

    setup.log._append = watched  # type: ignore[method-assign]
    values = [b"%04d" % number * 50 for number in range(200)]
    delivery = await drive(setup.clock, send(setup, values, [b"%d" % number for number in range(200)]))
    await drive(setup.clock, setup.producer.flush())
    assert sum(found.records_count for found in delivery.result()) == 200
    assert 0 <= least < 2_000, "the buffer was used, and never overdrawn"
    assert memory.available_bytes == 5_000
    assert sorted(setup.log.values[0] + setup.log.values[1]) == values  # type: ignore[type-var]
    await drive(setup.clock, setup.producer.close())


@both
async def test_what_was_taken_before_the_buffer_was_full_is_told(send: Send) -> None:
    setup = Setup(partitions=1, max_request_size=1_000, buffer_memory=2_500, max_block_ms=50)
    setup.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS] * 100
    with pytest.raises(BulkInterrupted) as caught:
        await drive(setup.clock, send(setup, [b"%d" % number * 100 for number in range(10, 40)]))
    assert isinstance(caught.value.__cause__, BufferExhausted)
    taken = caught.value.delivery.records_count
    assert 0 < taken < 30
    assert caught.value.rows == list(range(taken, 30))
    with pytest.raises(BufferExhausted):
        await drive(setup.clock, send(setup, [b"none of this"] * 100))
    setup.log.errors = []
    await drive(setup.clock, setup.producer.close())
    assert setup.log.values[0] == [b"%d" % number * 100 for number in range(10, 10 + taken)]


@both
async def test_a_record_too_large_is_refused_before_any_is_taken(send: Send) -> None:
    setup = Setup(max_request_size=1_000)
    with pytest.raises(RecordTooLarge, match="record 2, of"):
        await send(setup, [b"a", b"b", b"x" * 1_000])
    await drive(setup.clock, setup.producer.close())
    assert setup.log.values == {}
    with pytest.raises(ClientClosed):
        await send(setup, [b"late"])


@both
async def test_nothing_is_done_at_once(send: Send) -> None:
    setup = Setup()
    delivery = await send(setup, [])
    assert delivery.done()
    assert await delivery == []
    await drive(setup.clock, setup.producer.close())


@both
async def test_a_batch_that_is_split_is_told_in_parts(send: Send) -> None:
    setup = Setup(partitions=1, checks_sequences=True)
    setup.log.batch_bytes_max = 1_000
    told: list[BulkDelivery] = []
    delivery = await send(setup, [b"%02d" % number * 40 for number in range(40)])
    delivery.add_done_callback(told.append)
    ranges = await drive(setup.clock, _await(delivery))
    assert sum(found.records_count for found in ranges) == 40
    assert [found.offset for found in ranges] == sorted(found.offset for found in ranges)
    assert setup.log.values[0] == [b"%02d" % number * 40 for number in range(40)]
    assert told == [delivery]
    await drive(setup.clock, setup.producer.close())


@both
async def test_a_refusal_is_raised_and_what_was_written_is_told_all_the_same(send: Send) -> None:
    setup = Setup(partitions=1, max_request_size=500, max_in_flight_requests_per_connection=1)
    setup.log.errors = [0, ErrorCode.INVALID_RECORD]
    delivery = await send(setup, [b"x" * 200] * 4)
    await drive(setup.clock, setup.producer.flush())
    assert isinstance(delivery.exception(), ApiError)
    with pytest.raises(ApiError, match="as scripted"):
        delivery.result()
    written = list(delivery.written())
    assert sum(found.records_count for found in written) < 4
    assert written[0].offset == 0
    await drive(setup.clock, setup.producer.close())


async def test_keyless_records_go_to_one_partition_and_then_to_another() -> None:
    setup = Setup(partitions=4, max_request_size=2_000, batch_size=2_000)
    await as_arrow(setup, [b"x" * 100] * 600)
    await drive(setup.clock, setup.producer.flush())
    assert sum(len(values) for values in setup.log.values.values()) == 600
    assert len(setup.log.values) == 4
    await drive(setup.clock, setup.producer.close())


async def test_a_column_says_the_partition_and_timestamps_and_headers_are_kept() -> None:
    setup = Setup(partitions=2)
    headers = pa.array([[("h", b"1")], [], None], type=pa.map_(pa.string(), pa.binary()))
    table = pa.table({"value": ["a", "b", "c"], "partition": [1, 0, 1], "timestamp": [7, None, 9], "headers": headers})
    await setup.producer.send_arrow("flights", table)
    await drive(setup.clock, setup.producer.flush())
    assert setup.log.values == {0: [b"b"], 1: [b"a", b"c"]}
    assert dict(setup.log.headers)[0].max_timestamp == EPOCH_MS
    assert dict(setup.log.headers)[1].max_timestamp == 9
    await drive(setup.clock, setup.producer.close())


async def test_rows_have_serializers_timestamps_and_headers() -> None:
    setup = Setup(partitions=1, value_serializer=str.encode)
    delivery = await setup.producer.send_batch(
        "flights", ["a", None], headers=[[("h", b"x")], []], timestamp_ms=[5, 3], partition=0
    )
    await drive(setup.clock, setup.producer.flush())
    assert setup.log.values == {0: [b"a", None]}
    assert delivery.result() == [WrittenRange("flights", 0, 0, 2)]
    assert setup.log.headers[0][1].max_timestamp == 5
    with pytest.raises(SerializationFailed):
        await setup.producer.send_batch("flights", [1])
    with pytest.raises(ValueError, match="2 values, and 1 keys"):
        await setup.producer.send_batch("flights", ["a", "b"], keys=[b"k"])
    await drive(setup.clock, setup.producer.close())


@both
async def test_a_partitioner_of_the_user_is_asked(send: Send) -> None:
    def by_length(topic: str, key: bytes | None, value: bytes | None, partitions_count: int) -> int:
        return len(value or b"") % partitions_count

    setup = Setup(partitions=2, partitioner=by_length)
    await send(setup, [b"a", b"bb", b"ccc"])
    await drive(setup.clock, setup.producer.flush())
    assert setup.log.values == {0: [b"bb"], 1: [b"a", b"ccc"]}
    await drive(setup.clock, setup.producer.close())


async def test_interceptors_see_every_record_of_a_batch() -> None:
    class Counting(ProducerInterceptor):
        offsets: list[int] = []

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(record.topic, record.value + b"!", partition=0)

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            self.offsets.append(metadata.offset)

    counting = Counting()
    setup = Setup(interceptors=[counting])
    delivery = await as_batch(setup, [b"a", b"b"])
    await drive(setup.clock, setup.producer.flush())
    assert setup.log.values == {0: [b"a!", b"b!"]}
    assert counting.offsets == [0, 1]
    assert [found.offset for found in delivery.result()] == [0, 1]
    await drive(setup.clock, setup.producer.close())


async def test_a_batch_that_cannot_be_made_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no room for it")

    setup = Setup(partitions=1, checks_sequences=True)
    await as_batch(setup, [b"before"])
    await drive(setup.clock, setup.producer.flush())
    monkeypatch.setattr("tailrace.client.arrow_writer.encode_columns", fail)
    broken = await as_arrow(setup, [b"broken"])
    after = await as_batch(setup, [b"after"])
    await drive(setup.clock, setup.producer.flush())
    with pytest.raises(SerializationFailed, match="could not be made: no room for it"):
        broken.result()
    assert [found.offset for found in after.result()] == [1]
    await drive(setup.clock, setup.producer.close())
    assert setup.producer._accumulator.memory.available_bytes == setup.producer.config.buffer_memory
