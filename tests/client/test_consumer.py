"""A consumer: what it hands out, what it leaves out, and where it goes on after an error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tailrace.client.completed_fetch import CompletedFetch, Decoding
from tailrace.client.consumer import EARLIEST, Consumer
from tailrace.client.errors import (
    BrokerError,
    ClientClosed,
    InvalidState,
    NoOffsetForPartition,
    SerializationFailed,
    WokenUp,
)
from tailrace.client.rebalance_listener import ConsumerInterceptor
from tailrace.client.subscription_state import PartitionState
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.control import ControlType, EndTxnMarker, write_end_txn_marker
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, drive, make_cluster
from tests.protocol.records.record_strategies import message

KEY = TopicPartition("flights", 0)
OTHER = TopicPartition("flights", 1)


def batch(first: int, last: int, **options: int) -> bytes:
    records = [Record(offset, offset, None, b"%d" % offset) for offset in range(first, last + 1)]
    is_transactional = "producer_id" in options
    return bytes(write_batch(records, base_offset=first, is_transactional=is_transactional, **options))  # type: ignore[arg-type]


def marker(offset: int, producer_id: int, control_type: ControlType) -> bytes:
    end = EndTxnMarker(control_type, 0)
    return bytes(write_end_txn_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset))


def offsets_of(
    data: bytes, start: int, *, is_committed: bool = False, aborted: list[AbortedTransaction] | None = None
) -> tuple[list[int], int]:
    state = PartitionState(KEY)
    state.seek(start)
    fetch = CompletedFetch(
        state, PartitionData(records=data, aborted_transactions=aborted), Decoding(is_committed=is_committed)
    )
    offsets = [record.offset for record in fetch.take(1000)]
    assert fetch.is_drained
    return offsets, fetch.position


class ScriptedPartitions:
    """Batches by partition, served as a broker does: from the batch that holds the offset."""

    def __init__(self, scripted: ScriptedCluster, batches: dict[int, list[tuple[int, bytes]]]) -> None:
        self.batches = batches
        self.batches_max = 100
        self.errors: list[int] = []
        scripted.scripts[ApiKey.FETCH] = self.fetch
        scripted.scripts[ApiKey.LIST_OFFSETS] = self.list_offsets

    def fetch(self, request: FetchRequest) -> FetchResponse:
        topic = request.topics[0]
        answers = []
        for wanted in topic.partitions:
            error = self.errors.pop(0) if self.errors else 0
            found = [d for last, d in self.batches[wanted.partition] if last >= wanted.fetch_offset]
            data = b"".join(found[: self.batches_max])
            answers.append(
                PartitionData(
                    partition_index=wanted.partition,
                    error_code=error,
                    high_watermark=self.end(wanted.partition),
                    last_stable_offset=self.end(wanted.partition),
                    log_start_offset=0,
                    records=None if error else data,
                )
            )
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)]
        )

    def end(self, partition: int) -> int:
        return self.batches[partition][-1][0] + 1 if self.batches[partition] else 0

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = request.topics
        found = [
            ListOffsetsPartitionResponse(
                partition_index=wanted.partition_index,
                offset=0 if wanted.timestamp == EARLIEST else self.end(wanted.partition_index),
            )
            for wanted in topic.partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=found)])


def make(
    batches: dict[int, list[tuple[int, bytes]]], **options: Any
) -> tuple[ScriptedPartitions, VirtualClock, Consumer[bytes, bytes]]:
    scripted, clock = ScriptedCluster(), VirtualClock()
    return ScriptedPartitions(scripted, batches), clock, Consumer(cluster=make_cluster(scripted, clock), **options)


def test_records_before_the_offset_are_left_out_and_a_cut_batch_is_left_for_later() -> None:
    data = batch(0, 4) + batch(5, 9) + batch(10, 14)[:70]
    assert offsets_of(data, 3) == ([3, 4, 5, 6, 7, 8, 9], 10)
    assert offsets_of(data, 7) == ([7, 8, 9], 10)
    assert offsets_of(b"", 7) == ([], 7)


def test_old_messages_are_read() -> None:
    assert offsets_of(message(3, b"k", b"v", magic=1) + message(4, b"k", b"v", magic=0), 3) == ([3, 4], 5)


def test_markers_are_never_seen_but_move_the_offset() -> None:
    data = batch(0, 1, producer_id=7) + marker(2, 7, ControlType.COMMIT)
    assert offsets_of(data, 0) == ([0, 1], 3)
    assert offsets_of(data, 2) == ([], 3)


def test_aborted_transactions_are_seen_only_by_who_reads_uncommitted() -> None:
    data = (
        batch(0, 1, producer_id=7)
        + batch(2, 3, producer_id=8)
        + batch(4, 4)
        + marker(5, 7, ControlType.ABORT)
        + batch(6, 6, producer_id=7)
        + marker(7, 8, ControlType.COMMIT)
        + marker(8, 7, ControlType.COMMIT)
    )
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    assert offsets_of(data, 0, is_committed=True, aborted=aborted) == ([2, 3, 4, 6], 9)
    assert offsets_of(data, 0, aborted=aborted) == ([0, 1, 2, 3, 4, 6], 9)


def test_a_corrupt_batch_is_an_error() -> None:
    data = bytearray(batch(0, 1))
    data[-1] ^= 1
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        offsets_of(bytes(data), 0)


async def test_partitions_are_read_from_their_beginning_to_their_end() -> None:
    partitions = {0: [(4, batch(0, 4)), (9, batch(5, 9))], 1: [(2, batch(0, 2, compression=Compression.ZSTD))]}
    _, clock, consumer = make(partitions, auto_offset_reset="earliest")
    consumer.assign([KEY, OTHER])
    seen: dict[int, list[int]] = {0: [], 1: []}
    while sum(map(len, seen.values())) < 13:
        for record in await drive(clock, consumer.poll(max_records=2)):
            seen[record.partition].append(record.offset)
            assert record.value == b"%d" % record.offset
    assert seen == {0: list(range(10)), 1: [0, 1, 2]}
    assert await consumer.position(KEY) == 10
    assert consumer.high_watermark(KEY) == 10
    assert (consumer.lag(KEY), consumer.lead(KEY)) == (0, 10)
    assert await drive(clock, consumer.poll(timeout_ms=50)) == []
    await consumer.close()


async def test_latest_and_a_number_begin_there() -> None:
    served, clock, consumer = make({0: [(4, batch(0, 4))], 1: [(4, batch(0, 4))]})
    consumer.assign([KEY, OTHER])
    consumer.seek(OTHER, 3)
    records = await drive(clock, consumer.poll())
    assert [(record.partition, record.offset) for record in records] == [(1, 3), (1, 4)]
    assert await drive(clock, consumer.position(KEY)) == 5
    served.batches[0].append((5, batch(5, 5)))
    records = await drive(clock, consumer.poll())
    assert [(record.partition, record.offset) for record in records] == [(0, 5)]
    await consumer.close()


async def test_an_offset_that_is_gone_is_reset_or_raised() -> None:
    served, clock, consumer = make({0: [(4, batch(0, 4))]}, auto_offset_reset="earliest")
    served.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    consumer.assign([KEY])
    consumer.seek(KEY, 99)
    assert (await drive(clock, consumer.poll()))[0].offset == 0
    await consumer.close()
    served, clock, consumer = make({0: [(4, batch(0, 4))]}, auto_offset_reset="none")
    served.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    consumer.assign([KEY])
    consumer.seek(KEY, 99)
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE: partition flights-0, offset 99"):
        await drive(clock, consumer.poll())
    await consumer.close()


async def test_no_position_and_no_policy_is_an_error() -> None:
    _, clock, consumer = make({0: [(4, batch(0, 4))]}, auto_offset_reset="none")
    consumer.assign([KEY])
    with pytest.raises(NoOffsetForPartition, match="flights-0"):
        await drive(clock, consumer.poll())
    await consumer.close()


async def test_errors_that_may_pass_are_tried_again_and_others_raised() -> None:
    served, clock, consumer = make({0: [(4, batch(0, 4))]})
    served.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]
    consumer.assign([KEY])
    consumer.seek(KEY, 0)
    records = await drive(clock, consumer.poll(timeout_ms=10_000))
    assert [record.offset for record in records] == [0, 1, 2, 3, 4]
    served.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    with pytest.raises(ApiError, match="TOPIC_AUTHORIZATION_FAILED"):
        await drive(clock, consumer.poll(timeout_ms=10_000))
    await consumer.close()


async def test_paused_partitions_keep_what_was_fetched() -> None:
    served, clock, consumer = make({0: [(4, batch(0, 4))], 1: [(4, batch(0, 4))]}, auto_offset_reset="earliest")
    consumer.assign([KEY, OTHER])
    first = await drive(clock, consumer.poll(max_records=2))
    consumer.pause(KEY)
    assert consumer.paused == {KEY}
    while records := await drive(clock, consumer.poll(timeout_ms=50)):
        assert {record.partition for record in records} == {1}
    served.batches[0] = [(9, batch(5, 9))]
    consumer.resume(KEY)
    records = await drive(clock, consumer.poll())
    expected = [2, 3, 4] if first[0].partition == 0 else [0, 1, 2, 3, 4]
    assert [r.offset for r in records if r.partition == 0][: len(expected)] == expected
    await consumer.close()


async def test_what_was_fetched_before_a_seek_is_dropped() -> None:
    _, clock, consumer = make({0: [(4, batch(0, 4)), (9, batch(5, 9))]}, auto_offset_reset="earliest")
    consumer.assign([KEY])
    assert [r.offset for r in await drive(clock, consumer.poll(max_records=2))] == [0, 1]
    consumer.seek(KEY, 7)
    assert [r.offset for r in await drive(clock, consumer.poll())] == [7, 8, 9]
    consumer.seek_to_beginning()
    assert (await drive(clock, consumer.poll()))[0].offset == 0
    with pytest.raises(ValueError, match="not negative"):
        consumer.seek(KEY, -1)
    with pytest.raises(InvalidState, match="flights-7 is not assigned"):
        consumer.seek(TopicPartition("flights", 7), 1)
    await consumer.close()


async def test_a_record_that_cannot_be_deserialized_is_an_error_in_its_turn() -> None:
    _, clock, consumer = make({0: [(2, batch(0, 2))]}, auto_offset_reset="earliest", value_deserializer=refuse_two)
    consumer.assign([KEY])
    assert [r.value for r in await drive(clock, consumer.poll())] == ["0", "1"]
    for _ in range(2):
        with pytest.raises(SerializationFailed, match="value of the record at flights-0, offset 2"):
            await drive(clock, consumer.poll())
    consumer.seek(KEY, 3)
    assert await drive(clock, consumer.poll(timeout_ms=50)) == []
    await consumer.close()


def refuse_two(data: bytes) -> str:
    if data == b"2":
        raise ValueError("two")
    return data.decode()


async def test_one_task_at_a_time_uses_a_consumer_and_any_may_wake_it() -> None:
    _, clock, consumer = make({0: [(4, batch(0, 4))], 1: []}, auto_offset_reset="latest")
    with pytest.raises(InvalidState, match="nothing is read"):
        await consumer.poll()
    consumer.assign([KEY])
    polling = asyncio.ensure_future(consumer.poll(timeout_ms=60_000))
    await clock.advance_async(100)
    with pytest.raises(InvalidState, match="another task uses this consumer"):
        await consumer.poll()
    consumer.wakeup()
    with pytest.raises(WokenUp):
        await drive(clock, polling)
    await consumer.close()
    with pytest.raises(ClientClosed):
        await consumer.poll()


async def test_iteration_counts_as_consumed_what_was_given() -> None:
    _, clock, consumer = make({0: [(4, batch(0, 4))]}, auto_offset_reset="earliest")
    consumer.assign([KEY])
    seen: list[int] = []

    async def read() -> None:
        async for record in consumer:
            seen.append(record.offset)
            if len(seen) == 2:
                return

    await drive(clock, read())
    assert seen == [0, 1]
    assert await consumer.position(KEY) == 2
    await consumer.close()


async def test_offsets_are_found_by_time_and_at_both_ends() -> None:
    _, clock, consumer = make({0: [(4, batch(0, 4))], 1: [(4, batch(0, 4))]})
    assert await drive(clock, consumer.beginning_offsets([KEY])) == {KEY: 0}
    assert await drive(clock, consumer.end_offsets([KEY, OTHER])) == {KEY: 5, OTHER: 5}
    found = await drive(clock, consumer.offsets_for_times({KEY: 3}))
    assert found[KEY] is not None
    with pytest.raises(InvalidState, match="group_id"):
        await consumer.commit()
    with pytest.raises(InvalidState, match="group_id"):
        consumer.subscribe(["flights"])
    await consumer.close()


class Doubling(ConsumerInterceptor):
    def on_consume(self, records: list[Any]) -> list[Any]:
        return [*records, *records]


class Broken(ConsumerInterceptor):
    def on_consume(self, records: list[Any]) -> list[Any]:
        raise RuntimeError("broken")


async def test_interceptors_may_change_what_poll_gives_and_do_no_harm() -> None:
    _, clock, consumer = make(
        {0: [(1, batch(0, 1))]}, auto_offset_reset="earliest", interceptors=[Broken(), Doubling()]
    )
    consumer.assign([KEY])
    assert [record.offset for record in await drive(clock, consumer.poll())] == [0, 1, 0, 1]
    await consumer.close()


async def test_arrow_and_records_share_one_position() -> None:
    _, clock, consumer = make({0: [(4, batch(0, 4)), (9, batch(5, 9))]}, auto_offset_reset="earliest")
    consumer.assign([KEY])
    assert [r.offset for r in await drive(clock, consumer.poll(max_records=2))] == [0, 1]
    columns = await drive(clock, consumer.poll_arrow())
    assert columns.column("offset").to_pylist() == list(range(2, 10))
    assert await consumer.position(KEY) == 10
    assert (await drive(clock, consumer.poll_arrow(50))).num_rows == 0
    await consumer.close()


async def test_two_answers_of_one_partition_are_both_given_as_arrow() -> None:
    served, clock, consumer = make({0: [(4, batch(0, 4)), (9, batch(5, 9)), (14, batch(10, 14))]})
    served.batches_max = 1
    consumer.assign([KEY])
    consumer.seek(KEY, 0)
    first = await drive(clock, consumer.poll(max_records=1))
    await clock.advance_async(1_000)
    columns = await drive(clock, consumer.poll_arrow())
    assert [first[0].offset, *columns.column("offset").to_pylist()] == list(range(10))
    columns = await drive(clock, consumer.poll_arrow())
    assert columns.column("offset").to_pylist() == list(range(10, 15))
    await consumer.close()


async def test_an_answer_that_cannot_be_read_is_fetched_again() -> None:
    broken = bytearray(batch(5, 9))
    broken[-1] ^= 1
    served, clock, consumer = make({0: [(4, batch(0, 4)), (9, bytes(broken))]})
    consumer.assign([KEY])
    consumer.seek(KEY, 0)
    for poll in (consumer.poll, consumer.poll_arrow):
        assert len(await drive(clock, poll())) == 5
        with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
            await drive(clock, poll())
        served.batches[0][1] = (9, batch(5, 9))
        assert len(await drive(clock, poll())) == 5
        served.batches[0][1] = (9, bytes(broken))
        consumer.seek(KEY, 0)
    await consumer.close()
