"""A consumer: what it hands out, what it leaves out, and where it goes on after an error."""

from __future__ import annotations

import pytest

from tailrace.client.consumer import EARLIEST, LATEST, Consumer, ConsumerSettings, IsolationLevel
from tailrace.client.errors import NoOffsetForPartition
from tailrace.client.fetched import decode_fetched
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
COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


def batch(first: int, last: int, **options: int) -> bytes:
    records = [Record(offset, offset, None, b"%d" % offset) for offset in range(first, last + 1)]
    is_transactional = "producer_id" in options
    return bytes(write_batch(records, base_offset=first, is_transactional=is_transactional, **options))  # type: ignore[arg-type]


def marker(offset: int, producer_id: int, control_type: ControlType) -> bytes:
    end = EndTxnMarker(control_type, 0)
    return bytes(write_end_txn_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset))


def offsets_of(
    data: bytes, start: int, isolation: IsolationLevel = UNCOMMITTED, aborted: list[AbortedTransaction] | None = None
) -> tuple[list[int], int]:
    partition = PartitionData(records=data, aborted_transactions=aborted)
    records, next_offset = decode_fetched(KEY, partition, start, isolation=isolation)
    return [record.offset for record in records], next_offset


class ScriptedPartitions:
    """Batches by partition, served as a broker does: from the batch that holds the offset."""

    def __init__(self, scripted: ScriptedCluster, batches: dict[int, list[tuple[int, bytes]]]) -> None:
        self.batches = batches
        self.errors: list[int] = []
        scripted.scripts[ApiKey.FETCH] = self.fetch
        scripted.scripts[ApiKey.LIST_OFFSETS] = self.list_offsets

    def fetch(self, request: FetchRequest) -> FetchResponse:
        topic = request.topics[0]
        answers = []
        for wanted in topic.partitions:
            error = self.errors.pop(0) if self.errors else 0
            data = b"".join(d for last, d in self.batches[wanted.partition] if last >= wanted.fetch_offset)
            answers.append(
                PartitionData(
                    partition_index=wanted.partition,
                    error_code=error,
                    high_watermark=self.end(wanted.partition),
                    records=None if error else data,
                )
            )
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)]
        )

    def end(self, partition: int) -> int:
        return self.batches[partition][-1][0] + 1

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
    batches: dict[int, list[tuple[int, bytes]]], settings: ConsumerSettings | None = None
) -> tuple[ScriptedPartitions, VirtualClock, Consumer]:
    scripted, clock = ScriptedCluster(), VirtualClock()
    return ScriptedPartitions(scripted, batches), clock, Consumer(make_cluster(scripted, clock), settings)


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
    assert offsets_of(data, 0, COMMITTED, aborted) == ([2, 3, 4, 6], 9)
    assert offsets_of(data, 0, UNCOMMITTED, aborted) == ([0, 1, 2, 3, 4, 6], 9)


def test_a_corrupt_batch_is_an_error() -> None:
    data = bytearray(batch(0, 1))
    data[-1] ^= 1
    with pytest.raises(ApiError, match="CORRUPT_MESSAGE"):
        offsets_of(bytes(data), 0)


async def test_partitions_are_read_from_their_beginning_to_their_end() -> None:
    partitions = {0: [(4, batch(0, 4)), (9, batch(5, 9))], 1: [(2, batch(0, 2, compression=Compression.ZSTD))]}
    _, clock, consumer = make(partitions)
    consumer.assign({KEY: EARLIEST, TopicPartition("flights", 1): EARLIEST})
    seen: dict[int, list[int]] = {0: [], 1: []}
    while sum(map(len, seen.values())) < 13:
        for record in await drive(clock, consumer.poll(max_records=2)):
            seen[record.partition].append(record.offset)
            assert record.value == b"%d" % record.offset
    assert seen == {0: list(range(10)), 1: [0, 1, 2]}
    assert consumer.position(KEY) == 10
    assert consumer.high_watermark(KEY) == 10
    assert await drive(clock, consumer.poll(timeout_ms=50)) == []
    await consumer.close()


async def test_latest_and_a_number_begin_there() -> None:
    served, clock, consumer = make({0: [(4, batch(0, 4))], 1: [(4, batch(0, 4))]})
    consumer.assign({KEY: LATEST, TopicPartition("flights", 1): 3})
    records = await drive(clock, consumer.poll())
    assert [(record.partition, record.offset) for record in records] == [(1, 3), (1, 4)]
    served.batches[0].append((5, batch(5, 5)))
    records = await drive(clock, consumer.poll())
    assert [(record.partition, record.offset) for record in records] == [(0, 5)]
    await consumer.close()


async def test_an_offset_that_is_gone_is_reset_or_raised() -> None:
    served, clock, consumer = make({0: [(4, batch(0, 4))]}, ConsumerSettings(auto_offset_reset=EARLIEST))
    served.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    consumer.assign({KEY: 99})
    assert (await drive(clock, consumer.poll()))[0].offset == 0
    await consumer.close()
    served, clock, consumer = make({0: [(4, batch(0, 4))]}, ConsumerSettings(auto_offset_reset=None))
    served.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    consumer.assign({KEY: 99})
    with pytest.raises(NoOffsetForPartition, match="partition flights-0, offset 99"):
        await drive(clock, consumer.poll())
    await consumer.close()


async def test_errors_that_may_pass_are_tried_again_and_others_raised() -> None:
    served, clock, consumer = make({0: [(4, batch(0, 4))]})
    served.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]
    consumer.assign({KEY: 0})
    records = await drive(clock, consumer.poll(timeout_ms=10_000))
    assert [record.offset for record in records] == [0, 1, 2, 3, 4]
    served.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(ApiError, match="TOPIC_AUTHORIZATION_FAILED"):
        await drive(clock, consumer.poll(timeout_ms=10_000))
    await consumer.close()
