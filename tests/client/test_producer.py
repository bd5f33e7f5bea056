"""A producer: batches, order, and what happens when there is no more time or room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tailrace.client.delivery import Delivery
from tailrace.client.errors import (
    BufferExhausted,
    ClientClosed,
    FatalError,
    OperationTimedOut,
    RecordTooLarge,
    SerializationFailed,
)
from tailrace.client.interceptors import ProducerInterceptor, ProducerRecord
from tailrace.client.producer import Producer, RecordMetadata
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.init_producer_id import InitProducerIdResponse
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.protocol.records.compression import Compression
from tailrace.testing.virtual_clock import EPOCH_MS
from tests.client.scripted_cluster import drive
from tests.client.scripted_log import Setup


async def test_records_are_batched_and_their_places_told() -> None:
    setup = Setup()
    log, clock, producer = setup.log, setup.clock, setup.producer
    deliveries = [await producer.send("flights", b"%d" % number, partition=0) for number in range(10)]
    await clock.advance_async(4)
    assert not any(delivery.done() for delivery in deliveries), "linger.ms is 5"
    with pytest.raises(asyncio.InvalidStateError):
        deliveries[0].result()
    await drive(clock, producer.flush())
    assert [delivery.result().offset for delivery in deliveries] == list(range(10))
    assert deliveries[3].result() == RecordMetadata("flights", 0, 3, EPOCH_MS)
    ((_, header),) = log.headers
    assert (header.records_count, header.producer_id, header.base_sequence) == (10, 101, 0)
    await drive(clock, producer.close())
    with pytest.raises(ClientClosed):
        await producer.send("flights", b"late")


async def test_a_batch_that_lingered_is_sent_without_being_asked() -> None:
    setup = Setup()
    delivery = await setup.producer.send("flights", b"v")
    metadata = await drive(setup.clock, asyncio.ensure_future(_await(delivery)))
    assert metadata.offset == 0
    assert setup.clock.monotonic() < 0.1
    await drive(setup.clock, setup.producer.close())


async def _await(delivery: Delivery) -> RecordMetadata:
    return await delivery


@pytest.mark.parametrize("codec", Compression)
async def test_many_batches_stay_in_order_in_every_codec(codec: Compression) -> None:
    setup = Setup(batch_size=500, compression_type=codec.label)
    for number in range(200):
        await setup.producer.send("flights", b"value %d" % number, partition=1, headers=[("h", b"x")])
    await drive(setup.clock, setup.producer.close())
    assert setup.log.values == {1: [b"value %d" % number for number in range(200)]}
    sequences = [header.base_sequence for _, header in setup.log.headers]
    assert len(sequences) > 5
    assert sequences == sorted(sequences)
    assert {header.compression for _, header in setup.log.headers} == {codec}


async def test_five_requests_are_in_flight_and_no_more() -> None:
    setup = Setup(batch_size=100)
    await setup.producer.send("flights", b"first", partition=0)
    await drive(setup.clock, setup.producer.flush())
    setup.log.requests.clear()
    setup.scripted.scripts[ApiKey.PRODUCE] = lambda request: setup.log.requests.append(request)
    for number in range(20):
        await setup.producer.send("flights", b"%02d" % number * 40, partition=0)
    await setup.clock.advance_async(100)
    assert len(setup.log.requests) == 5
    await setup.producer.close(flush=False)


async def test_one_request_takes_batches_of_all_partitions_of_a_broker() -> None:
    setup = Setup(partitions=6, brokers=2)
    for partition in range(6):
        await setup.producer.send("flights", b"v", partition=partition)
    await drive(setup.clock, setup.producer.close())
    assert sorted(len(request.topic_data[0].partition_data) for request in setup.log.requests) == [3, 3]


async def test_acks_0_asks_for_no_answer() -> None:
    setup = Setup(acks=0)
    delivery = await setup.producer.send("flights", b"v", partition=0)
    await drive(setup.clock, setup.producer.close())
    assert delivery.result().offset == -1
    assert setup.log.values == {0: [b"v"]}
    assert setup.log.headers[0][1].producer_id == -1


async def test_send_waits_while_the_buffer_is_full() -> None:
    setup = Setup(buffer_memory=1000, batch_size=400)
    sending = asyncio.ensure_future(_send_many(setup.producer, 50))
    await setup.clock.advance_async(0)
    assert not sending.done()
    await drive(setup.clock, sending)
    await drive(setup.clock, setup.producer.close())
    assert setup.log.values[0] == [b"%d" % number * 50 for number in range(50)]


async def _send_many(producer: Producer[Any, Any], count: int) -> None:
    for number in range(count):
        await producer.send("flights", b"%d" % number * 50, partition=0)


async def test_send_fails_when_the_buffer_stays_full_for_max_block_ms() -> None:
    setup = Setup(buffer_memory=1000, batch_size=400, max_block_ms=2_000)
    setup.scripted.scripts[ApiKey.PRODUCE] = lambda request: None
    with pytest.raises(BufferExhausted, match=r"buffer\.memory"):
        await drive(setup.clock, _send_many(setup.producer, 50))
    assert 1.9 < setup.clock.monotonic() < 2.2
    await setup.producer.close(flush=False)


async def test_who_waits_for_room_is_served_in_turn_and_may_give_up() -> None:
    setup = Setup(buffer_memory=900, batch_size=400, linger_ms=0)
    held: list[object] = []
    setup.scripted.scripts[ApiKey.PRODUCE] = held.append
    for partition in (0, 1):
        await setup.producer.send("flights", bytes(300), partition=partition)
    waiting = [asyncio.ensure_future(setup.producer.send("flights", bytes(350), partition=0)) for _ in range(3)]
    await setup.clock.advance_async(10)
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()
    setup.scripted.scripts[ApiKey.PRODUCE] = setup.log.produce
    for stream in setup.scripted.streams:
        stream.lose(None)
    await drive(setup.clock, asyncio.wait(waiting[1:]))
    assert waiting[0].cancelled()
    await drive(setup.clock, setup.producer.close())
    assert len(setup.log.values[0]) == 3


async def test_what_was_not_sent_fails_when_the_producer_is_closed_at_once() -> None:
    setup = Setup()
    delivery = await setup.producer.send("flights", b"v", partition=0)
    await drive(setup.clock, setup.producer.close(flush=False))
    with pytest.raises(ClientClosed):
        delivery.result()


async def test_close_gives_up_after_its_time() -> None:
    setup = Setup()
    setup.scripted.scripts[ApiKey.PRODUCE] = lambda request: None
    delivery = await setup.producer.send("flights", b"v", partition=0)
    with pytest.raises(OperationTimedOut, match="500 ms after the producer was closed"):
        await drive(setup.clock, setup.producer.close(timeout_ms=500))
    assert isinstance(delivery.exception(), ClientClosed)


async def test_wrong_records_are_refused_before_they_are_buffered() -> None:
    setup = Setup(max_request_size=200, max_block_ms=500)
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size, 200"):
        await setup.producer.send("flights", bytes(200))
    with pytest.raises(OperationTimedOut, match="partitions 0 to 1, not 2"):
        await drive(setup.clock, setup.producer.send("flights", b"v", partition=2))
    with pytest.raises(OperationTimedOut, match="looking for topic nope"):
        await drive(setup.clock, setup.producer.send("nope", b"v"))
    with pytest.raises(TypeError, match="the value of a record for flights is str, not bytes; give a value_serializer"):
        await setup.producer.send("flights", "text")
    await drive(setup.clock, setup.producer.close())


async def test_a_partition_that_was_just_added_is_waited_for() -> None:
    setup = Setup()
    sending = asyncio.ensure_future(setup.producer.send("flights", b"v", partition=5))
    await setup.clock.advance_async(300)
    setup.scripted.topics["flights"] = 6
    delivery = await drive(setup.clock, sending)
    await drive(setup.clock, setup.producer.close())
    assert delivery.result().partition == 5


async def test_metadata_of_used_topics_is_refreshed_when_it_is_old() -> None:
    setup = Setup(client={"metadata_max_age_ms": 60_000})
    await setup.producer.send("flights", b"v")
    await setup.clock.advance_async(59_000)
    assert len(setup.scripted.requests_of(MetadataRequest)) == 1
    await setup.clock.advance_async(2_000)
    assert len(setup.scripted.requests_of(MetadataRequest)) == 2
    await drive(setup.clock, setup.producer.close())
    await setup.cluster.close()


async def test_keys_and_values_are_serialized() -> None:
    setup = Setup(key_serializer=str.encode, value_serializer=lambda value: b"%d" % value)
    await setup.producer.send("flights", 7, key="k", partition=0)
    with pytest.raises(SerializationFailed, match="the value of a record for flights was not serialized"):
        await setup.producer.send("flights", "x", key="k")
    await drive(setup.clock, setup.producer.close())
    assert setup.log.values == {0: [b"7"]}


class Tracer(ProducerInterceptor):
    """Adds a header, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, object]] = []
        self.is_closed = False

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(record.topic, record.value + b"!", record.key, [("trace", b"1")], record.partition)

    def on_acknowledgement(self, metadata: object, error: object) -> None:
        self.told.append((metadata, error))

    def close(self) -> None:
        self.is_closed = True


class Broken(ProducerInterceptor):
    """Fails whatever it is asked."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("broken")

    def on_acknowledgement(self, metadata: object, error: object) -> None:
        raise RuntimeError("broken")


async def test_interceptors_see_records_and_acknowledgements_and_cannot_stop_them() -> None:
    tracer = Tracer()
    setup = Setup(interceptors=[Broken(), tracer])
    await setup.producer.send("flights", b"v", partition=0)
    with pytest.raises(RecordTooLarge):
        await setup.producer.send("flights", bytes(2_000_000), partition=0)
    await drive(setup.clock, setup.producer.close())
    assert setup.log.values == {0: [b"v!"]}
    assert [type(error) for _, error in tracer.told] == [RecordTooLarge, type(None)]
    assert tracer.told[1][0] == RecordMetadata("flights", 0, 0, EPOCH_MS)
    assert tracer.is_closed


async def test_callbacks_run_in_order_and_their_errors_stop_nothing(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    seen: list[int] = []

    def note(delivery: Delivery) -> None:
        seen.append(delivery.result().offset)
        if len(seen) == 2:
            raise RuntimeError("a callback's own fault")

    deliveries = [await setup.producer.send("flights", b"v", partition=0, on_delivery=note) for _ in range(4)]
    deliveries[0].add_done_callback(note)
    assert deliveries[0].remove_done_callback(note) == 2
    await drive(setup.clock, setup.producer.flush())
    assert seen == [1, 2, 3]
    deliveries[0].add_done_callback(note)
    assert seen == [1, 2, 3, 0], "told at once, when it is known already"
    assert "a delivery callback failed" in caplog.text
    await drive(setup.clock, setup.producer.close())


async def test_deliveries_go_with_asyncio() -> None:
    setup = Setup()
    deliveries = [await setup.producer.send("flights", b"v", partition=0) for _ in range(3)]
    waiting = asyncio.ensure_future(asyncio.wait_for(deliveries[0], 60))
    gathered = asyncio.gather(*deliveries)
    cancelled = asyncio.ensure_future(_await(deliveries[1]))
    await asyncio.sleep(0)
    cancelled.cancel()
    results = await drive(setup.clock, gathered)
    assert [result.offset for result in results] == [0, 1, 2]
    assert (await waiting).offset == 0
    assert cancelled.cancelled()
    await drive(setup.clock, setup.producer.close())


async def test_a_cluster_that_gives_no_producer_id_ends_the_producer() -> None:
    setup = Setup()
    setup.scripted.scripts[ApiKey.INIT_PRODUCER_ID] = lambda request: InitProducerIdResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    delivery = await setup.producer.send("flights", b"v")
    await drive(setup.clock, setup.producer.flush())
    with pytest.raises(FatalError, match="gives no producer id"):
        delivery.result()
    with pytest.raises(FatalError):
        await setup.producer.send("flights", b"v")
    await drive(setup.clock, setup.producer.close())


async def test_the_refused_records_of_a_batch_are_told_apart() -> None:
    setup = Setup()
    refused = PartitionProduceResponse(
        index=0,
        error_code=ErrorCode.INVALID_RECORD,
        record_errors=[BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")],
    )
    setup.scripted.scripts[ApiKey.PRODUCE] = lambda request: ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=request.topic_data[0].name,
                topic_id=request.topic_data[0].topic_id,
                partition_responses=[refused],
            )
        ]
    )
    deliveries = [await setup.producer.send("flights", b"v", partition=0) for _ in range(2)]
    await drive(setup.clock, setup.producer.flush())
    errors = [delivery.exception() for delivery in deliveries]
    assert all(isinstance(error, ApiError) and error.code is ErrorCode.INVALID_RECORD for error in errors)
    assert "another record of its batch" in str(errors[0])
    assert str(errors[1]) == "INVALID_RECORD: no key"
    await setup.producer.close(flush=False)


async def test_partitions_are_told() -> None:
    setup = Setup(partitions=3)
    assert [known.partition for known in await setup.producer.partitions_for("flights")] == [0, 1, 2]
    await drive(setup.clock, setup.producer.close())
