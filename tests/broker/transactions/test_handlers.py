"""What the handlers of transactions refuse, and what a marker waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from tailrace.broker.request import Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tailrace.protocol.schema import Message
from tests.broker.parts import Parts, batch, make_parts, stop_parts
from tests.broker.transactions.coordinated import Producer, answered

DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
ID = ResourceType.TRANSACTIONAL_ID


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data", texts={"transaction.state.log.num.partitions": "1"})
    await parts.create_topic("t", partitions=2)
    yield parts
    await stop_parts(parts)


def codes(value: Any) -> list[ErrorCode]:
    """Collect every error code in an answer, outermost first."""
    found: list[ErrorCode] = []
    for name in getattr(type(value), "__slots__", ()) or vars(value):
        item = getattr(value, name, None)
        if name in ("error_code", "partition_error_code"):
            found.append(ErrorCode(item))
        elif isinstance(item, list):
            found.extend(code for entry in item if hasattr(entry, "__slots__") for code in codes(entry))
    return found


async def ask(parts: Parts, module: ModuleType, message: Message, version: int) -> list[ErrorCode]:
    """Put a request as the dispatcher does: what the handler raises is made into its error response."""
    request = parts.request(message, version)
    try:
        answer = await answered(module.handle(parts.broker, request))
    except ApiError as error:
        answer = module.error_response(request, error.code, error.message)
    return codes(answer)


def additions(topic: str = "t") -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=topic, partitions=[0])]


def offsets(topic: str = "t", number: int = 0, metadata: str | None = "") -> list[TxnOffsetCommitRequestTopic]:
    partition = TxnOffsetCommitRequestPartition(partition_index=number, committed_offset=1, committed_metadata=metadata)
    return [TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])]


def markers(*places: tuple[str, int]) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=[number]) for topic, number in places]
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=5, producer_epoch=0, topics=topics)])


WRITERS = [
    (init_producer_id, InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 5),
    (
        add_partitions_to_txn,
        AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=additions()),
        3,
    ),
    (add_offsets_to_txn, AddOffsetsToTxnRequest(transactional_id="x", group_id="g"), 4),
    (end_txn, EndTxnRequest(transactional_id="x"), 5),
    (txn_offset_commit, TxnOffsetCommitRequest(transactional_id="x", group_id="g", topics=offsets()), 5),
]


@pytest.mark.parametrize(("module", "message", "version"), WRITERS, ids=lambda value: getattr(value, "__name__", None))
async def test_who_may_not_write_with_a_transactional_id(
    parts: Parts, module: ModuleType, message: Message, version: int
) -> None:
    parts.authorizer.deny(AclOperation.WRITE, ID, "x")
    assert [code for code in await ask(parts, module, message, version) if code] == [DENIED]


async def test_who_may_not_see_a_transactional_id(parts: Parts) -> None:
    producer = Producer(parts)
    await producer.init()
    await producer.produce("t")
    parts.authorizer.deny(AclOperation.DESCRIBE, ResourceType.TOPIC, "t")
    request = DescribeTransactionsRequest(transactional_ids=["x"])
    (state,) = parts.answer(describe_transactions, request, 0).transaction_states
    assert (state.transaction_state, state.topics) == ("Ongoing", [])
    parts.authorizer.deny(AclOperation.DESCRIBE, ID, "x")
    assert await ask(parts, describe_transactions, request, 0) == [DENIED]
    assert parts.answer(list_transactions, ListTransactionsRequest(), 2).transaction_states == []


async def test_a_group_or_topic_that_may_not_be_read_is_not_committed(parts: Parts) -> None:
    parts.authorizer.deny(AclOperation.READ, ResourceType.GROUP, "g")
    assert await ask(parts, add_offsets_to_txn, WRITERS[2][1], 4) == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert await ask(parts, txn_offset_commit, WRITERS[4][1], 5) == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    parts.authorizer.deny(AclOperation.READ, ResourceType.TOPIC, "t")
    request = TxnOffsetCommitRequest(transactional_id="x", group_id="other", topics=[*offsets(), *offsets("nothing")])
    assert await ask(parts, txn_offset_commit, request, 5) == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_a_topic_that_may_not_be_written_is_not_added(parts: Parts) -> None:
    parts.authorizer.deny(AclOperation.WRITE, ResourceType.TOPIC, "t")
    assert (await ask(parts, add_partitions_to_txn, WRITERS[1][1], 3))[-1] == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_only_brokers_add_for_others_and_write_markers(parts: Parts) -> None:
    transaction = AddPartitionsToTxnTransaction(transactional_id="x", topics=additions())
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    parts.authorizer.deny(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    assert await ask(parts, add_partitions_to_txn, request, 4) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    # An operator who may alter the cluster may end transactions by hand, without being a broker.
    assert await ask(parts, write_txn_markers, markers(("t", 0)), 1) == [ErrorCode.NONE]
    parts.authorizer.deny(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    assert await ask(parts, write_txn_markers, markers(("t", 0)), 1) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


async def test_loading_is_told_to_old_producers_in_a_code_they_know(parts: Parts) -> None:
    request = parts.request(WRITERS[4][1], 1)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert codes(txn_offset_commit.error_response(request, loading, None)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert codes(txn_offset_commit.error_response(parts.request(WRITERS[4][1], 2), loading, None)) == [loading]


async def test_offsets_whose_group_is_not_coordinated_here_are_not_committed(parts: Parts) -> None:
    assert await ask(parts, txn_offset_commit, WRITERS[4][1], 5) == [ErrorCode.NOT_COORDINATOR]


async def test_metadata_that_is_too_long_fails_its_partition_alone(parts: Parts) -> None:
    producer = Producer(parts)
    await producer.init()
    await parts.broker.groups.topic.ensure_created()
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=0,
        topics=[*offsets(metadata="m" * 5000), *offsets(number=1)],
    )
    assert await ask(parts, txn_offset_commit, request, 5) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]


async def test_one_request_has_one_transaction(parts: Parts) -> None:
    data = [
        PartitionProduceData(
            index=number,
            records=batch(b"v", producer_id=5 + number, producer_epoch=0, base_sequence=0, is_transactional=True),
        )
        for number in range(2)
    ]
    request = ProduceRequest(
        transactional_id="x", acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    assert await ask(parts, produce, request, 12) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


async def test_records_that_are_converted_first_belong_to_the_transaction_still(parts: Parts) -> None:
    await parts.create_topic("zipped", compression_type="zstd")
    producer = Producer(parts)
    await producer.init()
    assert await producer.produce("zipped") == ErrorCode.NONE
    assert await producer.produce("zipped") == ErrorCode.NONE
    appending = asyncio.ensure_future(producer.produce("zipped"))
    await asyncio.sleep(0)  # its records are with the thread that compresses them
    newcomer = Producer(parts)
    assert await newcomer.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await appending == ErrorCode.INVALID_PRODUCER_EPOCH
    log = parts.partition("zipped").log
    assert log.last_stable_offset == log.high_watermark == 3


async def test_a_marker_is_answered_when_its_replicas_have_it_or_the_time_is_over(parts: Parts) -> None:
    await parts.register_broker(1)
    await parts.create_topic("two", replicas=(0, 1))
    waiting = parts.handle(write_txn_markers, markers(("two", 0), ("t", 0)), 1)
    assert isinstance(waiting, Parked)
    parts.clock.advance(29_000)
    assert not waiting.is_done
    parts.clock.advance(2_000)
    assert sorted(codes(await answered(waiting))) == [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    waiting = parts.handle(write_txn_markers, markers(("two", 0)), 1)
    assert isinstance(waiting, Parked)
    await parts.change_partition("two", isr=(0,))
    assert codes(await answered(waiting)) == [ErrorCode.NONE]


async def test_no_marker_is_answered_at_once(parts: Parts) -> None:
    assert parts.answer(write_txn_markers, WriteTxnMarkersRequest(), 1).markers == []
