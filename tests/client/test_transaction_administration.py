"""Transactions as an administrator sees them, and which of them are said to hang."""

from __future__ import annotations

import pytest

from tailrace.client.admin import Admin, HangingTransaction, PartitionProducer, TransactionState
from tailrace.client.errors import UnsupportedVersion
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages import describe_transactions, list_transactions
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, drive, make_cluster
from tests.client.test_group_administration import coordinated

FIRST, SECOND = TopicPartition("flights", 0), TopicPartition("flights", 1)


def producer(producer_id: int, *, start: int = -1, last_timestamp: int = 0) -> ProducerState:
    return ProducerState(
        producer_id=producer_id, last_timestamp=last_timestamp, current_txn_start_offset=start, coordinator_epoch=-1
    )


def remembered(scripted: ScriptedCluster, producers: dict[int, list[ProducerState]]) -> None:
    """Have partitions of `flights` remember producers."""

    def answer(request: DescribeProducersRequest) -> DescribeProducersResponse:
        (topic,) = request.topics
        partitions = [
            PartitionResponse(partition_index=number, active_producers=producers[number])
            for number in topic.partition_indexes
        ]
        return DescribeProducersResponse(topics=[TopicResponse(name=topic.name, partitions=partitions)])

    scripted.scripts[ApiKey.DESCRIBE_PRODUCERS] = answer


def transactions(scripted: ScriptedCluster, known: dict[str, tuple[int, list[int]]]) -> None:
    """Have transactional ids with their producer ids, and the partitions of `flights` that each has on its list."""

    def listed(request: list_transactions.ListTransactionsRequest) -> list_transactions.ListTransactionsResponse:
        states = [
            list_transactions.TransactionState(
                transactional_id=name, producer_id=producer_id, transaction_state="Ongoing"
            )
            for name, (producer_id, _) in known.items()
            if not request.producer_id_filters or producer_id in request.producer_id_filters
        ]
        return list_transactions.ListTransactionsResponse(transaction_states=states)

    def described(
        request: describe_transactions.DescribeTransactionsRequest,
    ) -> describe_transactions.DescribeTransactionsResponse:
        return describe_transactions.DescribeTransactionsResponse(
            transaction_states=[
                describe_transactions.TransactionState(
                    transactional_id=name,
                    error_code=0 if name in known else ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
                    transaction_state="PrepareAbort",
                    transaction_start_time_ms=-1,
                    topics=[describe_transactions.TopicData(topic="flights", partitions=known[name][1])]
                    if name in known
                    else [],
                )
                for name in request.transactional_ids
            ]
        )

    coordinated(scripted, lambda key: 0)
    scripted.scripts[ApiKey.LIST_TRANSACTIONS] = listed
    scripted.scripts[ApiKey.DESCRIBE_TRANSACTIONS] = described


async def test_transactions_are_listed_and_described() -> None:
    scripted = ScriptedCluster()
    transactions(scripted, {"b": (2, [0]), "a": (1, [])})
    admin = Admin(make_cluster(scripted, VirtualClock()))
    listed = await admin.list_transactions(running_longer_than_ms=5, transactional_id_pattern="a|b")
    assert [(one.transactional_id, one.producer_id, one.coordinator_id, one.state) for one in listed] == [
        ("a", 1, 0, TransactionState.ONGOING),
        ("b", 2, 0, TransactionState.ONGOING),
    ]
    (request,) = scripted.requests_of(list_transactions.ListTransactionsRequest)
    assert (request.duration_filter, request.transactional_id_pattern) == (5, "a|b")
    found = await admin.describe_transactions(["b", "nope"])
    assert not isinstance(found["b"], ApiError)
    assert found["b"].partitions == {FIRST}
    assert (found["b"].state, found["b"].start_time_ms) == (TransactionState.PREPARE_ABORT, None)
    assert isinstance(found["nope"], ApiError)
    assert found["nope"].code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


async def test_a_filter_that_a_broker_does_not_have_is_an_error() -> None:
    scripted = ScriptedCluster()
    scripted.versions[ApiKey.LIST_TRANSACTIONS] = (0, 0)
    transactions(scripted, {"a": (1, [])})
    admin = Admin(make_cluster(scripted, VirtualClock()))
    assert len(await admin.list_transactions()) == 1
    with pytest.raises(UnsupportedVersion, match="duration"):
        await admin.list_transactions(running_longer_than_ms=5)


async def test_producers_are_asked_of_the_leaders_or_of_one_broker() -> None:
    scripted = ScriptedCluster(brokers=2)
    remembered(scripted, {0: [producer(1, start=5)], 1: []})
    admin = Admin(make_cluster(scripted, VirtualClock()))
    found = await admin.describe_producers([FIRST, SECOND, TopicPartition("nope", 0)])
    (one,) = found[FIRST]  # type: ignore[misc]
    assert (one.producer_id, one.transaction_start_offset, one.coordinator_epoch) == (1, 5, None)
    assert found[SECOND] == []
    missing = found[TopicPartition("nope", 0)]
    assert isinstance(missing, ApiError)
    assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = [node for node, _, request in scripted.requests if isinstance(request, DescribeProducersRequest)]
    assert asked == [0, 1]
    await admin.describe_producers([FIRST], broker_id=1)
    assert scripted.requests[-1][0] == 1


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("known", "hanging"),
    [
        pytest.param({}, [FIRST, SECOND], id="nobody-knows-the-producer"),
        pytest.param({"a": (1, [0])}, [SECOND], id="the-coordinator-has-one-of-the-partitions"),
        pytest.param({"a": (1, [0, 1])}, [], id="the-coordinator-will-end-it"),
        pytest.param({"a": (2, [0, 1])}, [FIRST, SECOND], id="another-producer"),
    ],
)
async def test_a_transaction_hangs_where_its_coordinator_does_not_know_the_partition(
    known: dict[str, tuple[int, list[int]]], hanging: list[TopicPartition]
) -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    await clock.advance_async(HOUR_MS)
    now = clock.time_ms()
    old, young = producer(1, start=5, last_timestamp=now - HOUR_MS), producer(3, start=9, last_timestamp=now)
    remembered(scripted, {0: [old, young, producer(4)], 1: [old]})
    transactions(scripted, known)
    found = await Admin(make_cluster(scripted, clock)).find_hanging_transactions([FIRST, SECOND])
    expected = PartitionProducer(
        producer_id=1,
        producer_epoch=0,
        last_sequence=-1,
        last_timestamp=now - HOUR_MS,
        coordinator_epoch=None,
        transaction_start_offset=5,
    )
    assert found == [HangingTransaction(key, expected) for key in hanging]


async def test_nobody_is_asked_where_no_transaction_is_old() -> None:
    scripted = ScriptedCluster()
    remembered(scripted, {0: [producer(1)]})
    assert await Admin(make_cluster(scripted, VirtualClock())).find_hanging_transactions([FIRST]) == []


async def test_a_marker_is_written_by_the_leader() -> None:
    scripted = ScriptedCluster(brokers=2)
    codes = [0]

    def answer(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        partition = WritableTxnMarkerPartitionResult(partition_index=1, error_code=codes[0])
        topic = WritableTxnMarkerTopicResult(name="flights", partitions=[partition])
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])])

    scripted.scripts[ApiKey.WRITE_TXN_MARKERS] = answer
    admin = Admin(make_cluster(scripted, VirtualClock()))
    await admin.abort_transaction(SECOND, producer_id=7, producer_epoch=2, coordinator_epoch=3)
    node_id, _, request = scripted.requests[-1]
    assert node_id == 1
    (marker,) = request.markers  # type: ignore[attr-defined]
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 2, 3)
    assert marker.transaction_result is False
    codes[0] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(ApiError, match="TRANSACTION_COORDINATOR_FENCED: producer 7 on flights-1"):
        await admin.abort_transaction(SECOND, producer_id=7, producer_epoch=2, coordinator_epoch=3)


async def test_a_producer_is_fenced_when_its_transaction_has_ended() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    coordinated(scripted, lambda key: 0)
    codes = [int(ErrorCode.CONCURRENT_TRANSACTIONS), 0]
    scripted.scripts[ApiKey.INIT_PRODUCER_ID] = lambda request: InitProducerIdResponse(error_code=codes.pop(0))
    assert await drive(clock, Admin(make_cluster(scripted, clock)).fence_producers(["a"])) == {"a": None}
    assert [request.producer_id for request in scripted.requests_of(InitProducerIdRequest)] == [-1, -1]
