"""What a producer does when a batch is refused, lost, too large, or never answered: order and numbers hold."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tailrace.client.delivery import Delivery
from tailrace.client.errors import BrokerError, OperationTimedOut
from tailrace.client.producer_batch import ProducerBatch, ProducerId
from tailrace.client.sequences import EPOCH_MAX, Sequences
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.metadata import MetadataRequest
from tailrace.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.protocol.records.writer import BatchBuilder
from tailrace.protocol.topic_partition import TopicPartition
from tests.client.scripted_cluster import drive
from tests.client.scripted_log import Setup

KEY = TopicPartition("flights", 0)


async def send_numbered(setup: Setup, count: int, size: int = 30) -> list[Delivery]:
    return [await setup.producer.send("flights", b"%d" % n * size, partition=0) for n in range(count)]


async def test_a_retry_has_the_same_sequence_and_order_holds() -> None:
    setup = Setup(batch_size=150, checks_sequences=True)
    setup.log.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]
    deliveries = await send_numbered(setup, 9)
    await drive(setup.clock, setup.producer.close())
    assert [delivery.result().offset for delivery in deliveries] == list(range(9))
    sequences = [header.base_sequence for _, header in setup.log.headers]
    assert sequences == sorted(set(sequences))
    assert {header.producer_epoch for _, header in setup.log.headers} == {0}


async def test_a_lost_connection_is_made_again() -> None:
    setup = Setup()
    setup.log.loses = 2
    delivery = await setup.producer.send("flights", b"v", partition=0)
    await drive(setup.clock, setup.producer.close())
    assert delivery.result().offset == 0
    assert [header.base_sequence for _, header in setup.log.headers] == [0]


async def test_a_lost_answer_writes_nothing_twice() -> None:
    setup = Setup(batch_size=150, checks_sequences=True)
    setup.log.loses_answers = 3
    deliveries = await send_numbered(setup, 9)
    await drive(setup.clock, setup.producer.close())
    assert [delivery.result().offset for delivery in deliveries] == list(range(9))
    assert setup.log.values[0] == [b"%d" % n * 30 for n in range(9)]


async def test_a_duplicate_is_a_success() -> None:
    setup = Setup()
    setup.log.errors = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    delivery = await setup.producer.send("flights", b"v", partition=0)
    await drive(setup.clock, setup.producer.close())
    assert delivery.result().offset == -1


async def test_a_refused_batch_fails_and_those_behind_it_go_on_under_a_new_epoch() -> None:
    setup = Setup(batch_size=150, checks_sequences=True)
    setup.log.errors = [ErrorCode.NONE, ErrorCode.INVALID_RECORD]
    deliveries = await send_numbered(setup, 9)
    await drive(setup.clock, setup.producer.close())
    outcomes = [delivery.exception() for delivery in deliveries]
    refused = [number for number, error in enumerate(outcomes) if error is not None]
    assert refused == [2, 3]
    assert isinstance(outcomes[2], BrokerError)
    assert setup.log.values[0] == [b"%d" % n * 30 for n in range(9) if n not in refused]
    assert [(h.producer_id, h.producer_epoch, h.base_sequence) for _, h in setup.log.headers] == [
        (101, 0, 0),
        (101, 1, 0),
        (101, 1, 2),
        (101, 1, 4),
    ]


async def test_lost_producer_state_raises_the_epoch_and_nothing_is_lost() -> None:
    setup = Setup(batch_size=150, checks_sequences=True)
    await send_numbered(setup, 4)
    await drive(setup.clock, setup.producer.flush())
    setup.log.errors = [ErrorCode.UNKNOWN_PRODUCER_ID] * 2
    deliveries = await send_numbered(setup, 4)
    await drive(setup.clock, setup.producer.close())
    assert [delivery.result().offset for delivery in deliveries] == [4, 5, 6, 7]
    assert [h.producer_epoch for _, h in setup.log.headers] == [0, 0, 1, 1]


async def test_a_gap_that_the_broker_sees_raises_the_epoch() -> None:
    setup = Setup(batch_size=150, checks_sequences=True)
    await send_numbered(setup, 2)
    await drive(setup.clock, setup.producer.flush())
    setup.log.errors = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    deliveries = await send_numbered(setup, 6)
    await drive(setup.clock, setup.producer.close())
    assert [delivery.result().offset for delivery in deliveries] == [2, 3, 4, 5, 6, 7]
    assert {h.producer_epoch for _, h in setup.log.headers} == {0, 1}


async def test_a_batch_is_given_up_when_its_delivery_time_is_over() -> None:
    setup = Setup(delivery_timeout_ms=3_000, request_timeout_ms=1_000)
    setup.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS] * 100
    delivery = await setup.producer.send("flights", b"v", partition=0)
    await drive(setup.clock, setup.producer.close())
    with pytest.raises(OperationTimedOut, match="1 records for flights-0 were not acknowledged in 3000 ms"):
        delivery.result()
    assert 2.9 < setup.clock.monotonic() < 3.2


async def test_a_batch_that_is_never_answered_is_given_up_in_its_time() -> None:
    setup = Setup(delivery_timeout_ms=2_000, request_timeout_ms=1_500)
    setup.scripted.scripts[ApiKey.PRODUCE] = lambda request: None
    delivery = await setup.producer.send("flights", b"v", partition=0)
    await drive(setup.clock, setup.producer.flush())
    assert isinstance(delivery.exception(), OperationTimedOut)
    assert 1.9 < setup.clock.monotonic() < 2.1
    await setup.producer.close(flush=False)


async def test_after_a_batch_of_unknown_fate_the_next_has_a_new_epoch() -> None:
    setup = Setup(delivery_timeout_ms=2_000, request_timeout_ms=1_500, checks_sequences=True)
    setup.scripted.scripts[ApiKey.PRODUCE] = lambda request: None
    await setup.producer.send("flights", b"v", partition=0)
    await drive(setup.clock, setup.producer.flush())
    setup.scripted.scripts[ApiKey.PRODUCE] = setup.log.produce
    delivery = await setup.producer.send("flights", b"w", partition=0)
    await drive(setup.clock, setup.producer.close())
    assert delivery.result().offset == 0
    ((_, header),) = setup.log.headers
    assert (header.producer_epoch, header.base_sequence) == (1, 0)


async def test_a_batch_without_a_leader_is_given_up_in_its_time_and_metadata_is_asked_for() -> None:
    setup = Setup(delivery_timeout_ms=2_000, request_timeout_ms=1_000)
    setup.scripted.leaders["flights", 0] = -1
    delivery = await setup.producer.send("flights", b"v", partition=0)
    await drive(setup.clock, setup.producer.flush())
    assert isinstance(delivery.exception(), OperationTimedOut)
    assert 3 < len(setup.scripted.requests_of(MetadataRequest)) < 30
    await setup.producer.close(flush=False)


async def test_retries_are_limited_where_that_is_asked_for() -> None:
    setup = Setup(retries=2, acks=1)
    setup.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS] * 10
    delivery = await setup.producer.send("flights", b"v", partition=0)
    await drive(setup.clock, setup.producer.close())
    assert isinstance(delivery.exception(), OperationTimedOut)
    assert len(setup.log.requests) == 3


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_a_batch_that_is_too_large_is_split_and_keeps_its_numbers(codec: str) -> None:
    setup = Setup(batch_size=2_000, compression_type=codec, checks_sequences=True)
    setup.log.batch_bytes_max = 400 if codec == "none" else 120
    random = Random(3)
    values = [random.randbytes(30 if codec == "none" else 10) for _ in range(60)]
    deliveries = [await setup.producer.send("flights", value, partition=0) for value in values]
    waiting = asyncio.gather(*deliveries)
    await drive(setup.clock, setup.producer.close())
    assert setup.log.values[0] == values
    assert [metadata.offset for metadata in await waiting] == list(range(60))
    assert [header.base_sequence for _, header in setup.log.headers] == sorted(
        header.base_sequence for _, header in setup.log.headers
    )
    assert {code for _, _, code in setup.log.refused} <= {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }


async def test_a_single_record_that_is_too_large_fails() -> None:
    setup = Setup()
    setup.log.batch_bytes_max = 100
    large = await setup.producer.send("flights", bytes(200), partition=0)
    await drive(setup.clock, setup.producer.flush())
    small = await setup.producer.send("flights", bytes(10), partition=0)
    await drive(setup.clock, setup.producer.close())
    error = large.exception()
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert small.result().offset == 0


async def test_a_leader_that_is_named_in_the_answer_is_asked_without_a_pause() -> None:
    setup = Setup(brokers=2, partitions=1)
    moved = PartitionProduceResponse(
        index=0,
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=7),
    )

    def produce(request: ProduceRequest) -> ProduceResponse | None:
        if setup.scripted.requests[-1][0] == 1:
            return setup.log.produce(request)
        topic_id = request.topic_data[0].topic_id
        nodes = [NodeEndpoint(node_id=1, host="broker1", port=9092)]
        topic = TopicProduceResponse(topic_id=topic_id, partition_responses=[moved])
        return ProduceResponse(responses=[topic], node_endpoints=nodes)

    setup.scripted.scripts[ApiKey.PRODUCE] = produce
    delivery = await setup.producer.send("flights", b"v")
    await drive(setup.clock, setup.producer.close())
    assert delivery.result().offset == 0
    assert setup.clock.monotonic() < 0.1, "retry.backoff.ms is 100"


async def test_a_throttled_broker_is_left_alone() -> None:
    setup = Setup(batch_size=50, linger_ms=0)
    throttled: list[ProduceResponse | None] = []

    def produce(request: ProduceRequest) -> ProduceResponse | None:
        response = setup.log.produce(request)
        if response is not None and not throttled:
            response.throttle_time_ms = 3_000
        throttled.append(response)
        return response

    setup.scripted.scripts[ApiKey.PRODUCE] = produce
    await (await setup.producer.send("flights", b"v", partition=0))
    await setup.producer.send("flights", b"w", partition=0)
    await setup.clock.advance_async(2_900)
    assert len(throttled) == 1
    await drive(setup.clock, setup.producer.close())
    assert setup.log.values[0] == [b"v", b"w"]


def batch_of(count: int) -> ProducerBatch:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(0, None, b"v")
    batch = ProducerBatch(KEY, created_at=0.0, reserved_bytes=0, builder=builder)
    batch.close()
    return batch


def test_numbers_go_round() -> None:
    sequences = Sequences()
    sequences.set_producer(ProducerId(7, 0))
    first, second = batch_of(10), batch_of(5)
    sequences.assign(first)
    partition = sequences._partition(KEY)
    partition.restart(ProducerId(7, 0), is_transactional=False)
    partition.next_sequence = 2**31 - 4
    first.base_sequence = -1
    sequences.assign(first)
    sequences.assign(second)
    assert (first.base_sequence, second.base_sequence) == (2**31 - 4, 6)
    partition.last_acked_sequence = 2**31 - 5
    for batch in (first, second):
        batch.sent_as = (batch.producer, batch.base_sequence)
        assert partition.is_next(batch.base_sequence)
        partition.in_flight = [b for b in partition.in_flight if b is not batch] + [batch]
        sequences.acknowledged(batch, 0)
    assert partition.last_acked_sequence == 10


def test_an_epoch_that_is_used_up_needs_a_new_id() -> None:
    sequences = Sequences()
    sequences.set_producer(ProducerId(7, EPOCH_MAX))
    failed, waiting = batch_of(1), batch_of(2)
    sequences.assign(failed)
    sequences.assign(waiting)
    sequences.refused(failed, ErrorCode.INVALID_RECORD)
    assert sequences.settle(), "a new id is needed"
    assert not sequences.may_send(waiting)
    sequences.set_producer(ProducerId(8, 0))
    assert not sequences.settle()
    assert sequences.may_send(waiting)
    assert (waiting.producer, waiting.base_sequence) == (ProducerId(8, 0), 0)


def test_what_was_written_under_its_old_numbers_leaves_no_gap() -> None:
    sequences = Sequences()
    sequences.set_producer(ProducerId(7, 0))
    first, second, third = batch_of(1), batch_of(2), batch_of(3)
    for batch in (first, second, third):
        sequences.assign(batch)
        batch.sent_as = (batch.producer, batch.base_sequence)
    sequences.refused(first, ErrorCode.INVALID_RECORD)
    sequences.settle()
    assert (second.base_sequence, third.base_sequence) == (0, 2)
    sequences.acknowledged(second, 5)
    assert (third.producer.epoch, third.base_sequence) == (1, 0)


async def test_until_a_broker_knows_the_producer_batches_of_a_partition_travel_alone() -> None:
    setup = Setup(batch_size=100)
    setup.scripted.scripts[ApiKey.PRODUCE] = lambda request: setup.log.requests.append(request)
    await send_numbered(setup, 9)
    await setup.clock.advance_async(100)
    assert len(setup.log.requests) == 1
    await setup.producer.close(flush=False)
