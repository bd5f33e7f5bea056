"""A producer: batches, order, retries without duplicates, and what happens when there is no more time or room."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tailrace.client.errors import ClientClosed, OperationTimedOut, RecordTooLarge
from tailrace.client.partitioner import Partitioner, murmur2
from tailrace.client.producer import Producer, ProducerSettings
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.protocol.records.batch_header import BatchHeader, read_batch_header
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.reader import read_records
from tailrace.testing.virtual_clock import EPOCH_MS, VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, drive, make_cluster


class ScriptedLog:
    """Partitions that take batches, or answer with the errors that a test lays out."""

    def __init__(self, scripted: ScriptedCluster) -> None:
        self.headers: list[tuple[int, BatchHeader]] = []
        self.values: dict[int, list[bytes | None]] = {}
        self.errors: list[int] = []
        self.loses = 0
        self.producer_ids = 0
        scripted.scripts[ApiKey.PRODUCE] = self.produce
        scripted.scripts[ApiKey.INIT_PRODUCER_ID] = self.init_producer_id

    def init_producer_id(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        self.producer_ids += 1
        return InitProducerIdResponse(producer_id=100 + self.producer_ids, producer_epoch=0)

    def produce(self, request: ProduceRequest) -> ProduceResponse | None:
        if self.loses:
            self.loses -= 1
            raise ConnectionResetError("gone")
        topics = []
        for topic in request.topic_data:
            answers = [self._append(p.index, p.records) for p in topic.partition_data]
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        return ProduceResponse(responses=topics) if request.acks else None

    def _append(self, partition: int, records: object) -> PartitionProduceResponse:
        assert isinstance(records, bytes | bytearray | memoryview)
        if self.errors and (error := self.errors.pop(0)):
            return PartitionProduceResponse(index=partition, error_code=error, error_message="as scripted")
        self.headers.append((partition, read_batch_header(records)))
        log = self.values.setdefault(partition, [])
        base_offset = len(log)
        log += [record.value for record in read_records(records)]
        return PartitionProduceResponse(index=partition, base_offset=base_offset)


def make(settings: ProducerSettings | None = None, **client: int) -> tuple[ScriptedLog, VirtualClock, Producer]:
    scripted, clock = ScriptedCluster(), VirtualClock()
    log = ScriptedLog(scripted)
    return log, clock, Producer(make_cluster(scripted, clock, **client), settings, random=Random(1))


async def test_records_are_batched_and_their_places_told() -> None:
    log, clock, producer = make()
    deliveries = [await producer.send("flights", b"%d" % number, partition=0) for number in range(10)]
    await clock.advance_async(4)
    assert not any(delivery.done() for delivery in deliveries), "linger.ms is 5"
    await drive(clock, producer.flush())
    assert [delivery.result().offset for delivery in deliveries] == list(range(10))
    assert deliveries[0].result().timestamp == EPOCH_MS
    ((_, header),) = log.headers
    assert (header.records_count, header.producer_id, header.base_sequence) == (10, 101, 0)
    await drive(clock, producer.close())
    with pytest.raises(ClientClosed):
        await producer.send("flights", b"late")


@pytest.mark.parametrize("codec", Compression)
async def test_many_batches_stay_in_order_in_every_codec(codec: Compression) -> None:
    log, clock, producer = make(ProducerSettings(batch_size=500, compression=codec))
    for number in range(200):
        await producer.send("flights", b"value %d" % number, partition=1, headers=[("h", b"x")])
    await drive(clock, producer.close())
    assert log.values == {1: [b"value %d" % number for number in range(200)]}
    sequences = [header.base_sequence for _, header in log.headers]
    assert len(sequences) > 5
    assert sequences == sorted(sequences)
    assert {header.compression for _, header in log.headers} == {codec}


async def test_a_retry_has_the_same_sequence_and_order_holds() -> None:
    log, clock, producer = make(ProducerSettings(batch_size=100))
    log.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]
    deliveries = [await producer.send("flights", b"%d" % number * 30, partition=0) for number in range(9)]
    await drive(clock, producer.close())
    assert [delivery.result().offset for delivery in deliveries] == list(range(9))
    sequences = [header.base_sequence for _, header in log.headers]
    assert sequences == sorted(set(sequences))


async def test_a_lost_connection_is_made_again() -> None:
    log, clock, producer = make()
    log.loses = 2
    delivery = await producer.send("flights", b"v", partition=0)
    await drive(clock, producer.close())
    assert delivery.result().offset == 0
    assert [header.base_sequence for _, header in log.headers] == [0]


async def test_a_duplicate_is_a_success() -> None:
    log, clock, producer = make()
    log.errors = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    delivery = await producer.send("flights", b"v", partition=0)
    await drive(clock, producer.close())
    assert delivery.result().offset == -1


async def test_a_refused_batch_fails_and_the_next_has_a_new_producer_id() -> None:
    log, clock, producer = make()
    log.errors = [ErrorCode.INVALID_RECORD]
    refused = await producer.send("flights", b"v", partition=0)
    await drive(clock, producer.flush())
    with pytest.raises(ApiError, match="INVALID_RECORD: as scripted"):
        refused.result()
    accepted = await producer.send("flights", b"w", partition=0)
    await drive(clock, producer.close())
    assert accepted.result().offset == 0
    ((_, header),) = log.headers
    assert (header.producer_id, header.base_sequence) == (102, 0)


async def test_a_batch_is_given_up_when_its_delivery_time_is_over() -> None:
    log, clock, producer = make(ProducerSettings(delivery_timeout_ms=3_000))
    log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS] * 100
    delivery = await producer.send("flights", b"v", partition=0)
    await drive(clock, producer.close())
    with pytest.raises(OperationTimedOut, match="1 records for flights-0 were not acknowledged in 3000 ms"):
        delivery.result()
    assert clock.monotonic() < 4


async def test_acks_0_asks_for_no_answer() -> None:
    log, clock, producer = make(ProducerSettings(acks=0, enable_idempotence=False))
    delivery = await producer.send("flights", b"v", partition=0)
    await drive(clock, producer.close())
    await asyncio.sleep(0)
    assert delivery.result().offset == -1
    assert log.values == {0: [b"v"]}
    assert log.headers[0][1].producer_id == -1


async def test_send_waits_while_the_buffer_is_full() -> None:
    log, clock, producer = make(ProducerSettings(buffer_memory=1000, batch_size=400))
    sending = asyncio.ensure_future(_send_many(producer, 50))
    await clock.advance_async(0)
    assert not sending.done()
    await drive(clock, sending)
    await drive(clock, producer.close())
    assert len(log.values[0]) == 50


async def _send_many(producer: Producer, count: int) -> None:
    for number in range(count):
        await producer.send("flights", b"%d" % number * 50, partition=0)


async def test_what_was_not_sent_fails_when_the_producer_is_closed_at_once() -> None:
    _, clock, producer = make()
    delivery = await producer.send("flights", b"v", partition=0)
    await drive(clock, producer.close(flush=False))
    with pytest.raises(ClientClosed):
        delivery.result()


async def test_wrong_records_are_refused_before_they_are_buffered() -> None:
    _, clock, producer = make(ProducerSettings(max_request_size=100), default_api_timeout_ms=500)
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size, 100"):
        await producer.send("flights", bytes(200))
    with pytest.raises(ApiError, match="partitions 0 to 1, not 2"):
        await producer.send("flights", b"v", partition=2)
    with pytest.raises(OperationTimedOut, match="looking for topic nope"):
        await drive(clock, producer.send("nope", b"v"))


@pytest.mark.parametrize("settings", [{"acks": 2}, {"acks": 1}, {"acks": 0}])
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="acks"):
        ProducerSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "digest"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_hash_as_in_kafka(key: bytes, digest: int) -> None:
    assert murmur2(key) == digest & 0xFFFFFFFF


def test_records_without_a_key_stay_with_a_partition_until_its_batch_is_full() -> None:
    partitioner = Partitioner(Random(5))
    first = partitioner.choose("t", None, 8, range(8))
    assert {partitioner.choose("t", None, 8, range(8)) for _ in range(20)} == {first}
    seen = set()
    for _ in range(40):
        chosen = partitioner.choose("t", None, 8, [1, 3])
        seen.add(chosen)
        partitioner.batch_filled("t", chosen)
    assert seen - {first} <= {1, 3}
