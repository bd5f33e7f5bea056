"""Transactions of a producer against a scripted coordinator: what is asked in which order, and what errors do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tailrace.client.errors import (
    AbortableError,
    AuthorizationFailed,
    FatalError,
    InvalidState,
    OperationTimedOut,
    ProducerFenced,
    TransactionAborted,
)
from tailrace.client.group_metadata import ConsumerGroupMetadata
from tailrace.client.producer import Producer
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.topic_partition import TopicPartition
from tests.client.scripted_cluster import drive
from tests.client.scripted_coordinator import TransactionalSetup
from tests.client.scripted_log import Setup

versions = pytest.mark.parametrize("version", [1, 2])
FLIGHTS_0 = TopicPartition("flights", 0)


async def ready(setup: TransactionalSetup) -> Producer[Any, Any]:
    await drive(setup.clock, setup.producer.init_transactions())
    return setup.producer


async def closed(setup: TransactionalSetup) -> None:
    await drive(setup.clock, setup.producer.close())


@pytest.mark.parametrize(
    ("version", "steps"),
    [
        (1, ["init", "add partitions", "produce v11", "add offsets", "offsets v4", "commit v4"]),
        (2, ["init", "produce v13", "offsets v5", "commit v5"]),
    ],
)
async def test_a_transaction_step_by_step(version: int, steps: list[str]) -> None:
    setup = TransactionalSetup(version=version)
    producer = await ready(setup)
    await producer.begin_transaction()
    await producer.send("flights", b"1", partition=0)
    await drive(setup.clock, producer.flush())
    group = ConsumerGroupMetadata("readers", generation_id=4, member_id="m", group_instance_id="i")
    await drive(setup.clock, producer.send_offsets_to_transaction({FLIGHTS_0: 12}, group))
    await drive(setup.clock, producer.commit_transaction())
    assert setup.coordinator.steps == steps
    assert setup.log.values == {0: [b"1"]}
    assert setup.log.headers[0][1].is_transactional
    assert setup.coordinator.offsets == {("readers", "flights", 0): (12, "")}
    sent = setup.coordinator.requests[-2]
    assert (sent.generation_id, sent.member_id, sent.group_instance_id) == (4, "m", "i")
    assert setup.log.requests[0].transactional_id == "pilot"
    await closed(setup)


@versions
async def test_each_transaction_goes_on_where_the_one_before_it_ended(version: int) -> None:
    """Version 2 raises the epoch each time and begins with 0 again; version 1 goes on with both."""
    setup = TransactionalSetup(version=version)
    producer = await ready(setup)
    for number in range(3):
        async with producer.transaction():
            await producer.send("flights", b"%d" % number, partition=0)
            await producer.send("flights", b"%d!" % number, partition=0)
    headers = [(header.producer_epoch, header.base_sequence) for _, header in setup.log.headers]
    assert headers == ([(0, 0), (0, 2), (0, 4)] if version == 1 else [(0, 0), (1, 0), (2, 0)])
    assert setup.log.values[0] == [b"0", b"0!", b"1", b"1!", b"2", b"2!"]
    await closed(setup)


@versions
async def test_what_was_not_sent_is_given_up_by_an_abort(version: int) -> None:
    setup = TransactionalSetup(version=version, linger_ms=60_000)
    producer = await ready(setup)
    await producer.begin_transaction()
    delivery = await producer.send("flights", b"never", partition=0)
    await drive(setup.clock, producer.abort_transaction())
    with pytest.raises(TransactionAborted):
        delivery.result()
    assert setup.log.values == {}
    async with producer.transaction():
        await producer.send("flights", b"kept", partition=0)
    assert setup.log.values == {0: [b"kept"]}
    await closed(setup)


@versions
async def test_nothing_is_asked_about_an_empty_transaction(version: int) -> None:
    setup = TransactionalSetup(version=version)
    producer = await ready(setup)
    async with producer.transaction():
        pass
    await producer.begin_transaction()
    await drive(setup.clock, producer.abort_transaction())
    assert setup.coordinator.steps == ["init"]
    await closed(setup)


async def test_the_order_of_calls_is_held_to() -> None:
    setup = TransactionalSetup()
    producer = setup.producer
    with pytest.raises(InvalidState, match="has not called init_transactions"):
        await producer.send("flights", b"v")
    with pytest.raises(InvalidState, match="has not called init_transactions"):
        await producer.begin_transaction()
    await ready(setup)
    with pytest.raises(InvalidState, match="has no transaction"):
        await producer.send("flights", b"v")
    with pytest.raises(InvalidState):
        await producer.commit_transaction()
    with pytest.raises(InvalidState):
        await producer.send_offsets_to_transaction({FLIGHTS_0: 1}, "readers")
    with pytest.raises(InvalidState):
        await producer.init_transactions()
    await producer.begin_transaction()
    with pytest.raises(InvalidState, match="is in a transaction"):
        await producer.begin_transaction()
    await closed(setup)
    plain = Setup()
    with pytest.raises(InvalidState, match=r"no transactional\.id"):
        plain.producer.transaction()
    await drive(plain.clock, plain.producer.close())


@versions
async def test_a_block_that_raises_is_aborted(version: int) -> None:
    setup = TransactionalSetup(version=version)
    producer = await ready(setup)

    async def transact() -> None:
        async with producer.transaction():
            await (await producer.send("flights", b"undone", partition=0))
            raise KeyError("in the block")

    with pytest.raises(KeyError, match="in the block"):
        await drive(setup.clock, transact())
    assert setup.coordinator.steps[-1].startswith("abort")
    async with producer.transaction():
        await producer.send("flights", b"done", partition=0)
    assert setup.coordinator.steps[-1].startswith("commit")
    await closed(setup)


PASSING = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
]


@versions
async def test_errors_that_pass_are_not_seen(version: int) -> None:
    setup = TransactionalSetup(version=version)
    for api in (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ):
        setup.coordinator.errors[api].extend(PASSING)
    setup.coordinator.errors[ApiKey.FIND_COORDINATOR].append(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    setup.log.errors = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    producer = await ready(setup)

    async def transact() -> None:
        async with producer.transaction():
            await producer.send("flights", b"1", partition=0)
            await producer.send_offsets_to_transaction({FLIGHTS_0: 3}, "readers")

    await drive(setup.clock, transact())
    assert setup.log.values == {0: [b"1"]}
    assert setup.coordinator.offsets == {("readers", "flights", 0): (3, "")}
    assert setup.coordinator.steps[-1].startswith("commit")
    await closed(setup)


@versions
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ],
)
async def test_a_record_that_is_refused_spoils_the_transaction_and_no_more(version: int, code: ErrorCode) -> None:
    setup = TransactionalSetup(version=version)
    setup.log.errors = [code]
    producer = await ready(setup)
    await producer.begin_transaction()
    delivery = await producer.send("flights", b"refused", partition=0)
    with pytest.raises(AbortableError, match=code.name):
        await drive(setup.clock, producer.commit_transaction())
    assert delivery.exception() is not None
    with pytest.raises(AbortableError):
        await producer.send("flights", b"more")
    with pytest.raises(AbortableError):
        await producer.commit_transaction()
    await drive(setup.clock, producer.abort_transaction())
    if version == 1:
        assert setup.coordinator.steps[-2:] == ["abort v4", "raise"], "the numbers begin anew, in a new epoch"
    async with producer.transaction():
        await producer.send("flights", b"kept", partition=0)
    assert setup.log.values == {0: [b"kept"]}
    assert (setup.log.headers[-1][1].producer_epoch, setup.log.headers[-1][1].base_sequence) == (1, 0)
    await closed(setup)


async def test_a_block_whose_commit_is_spoilt_is_aborted_and_can_be_run_again() -> None:
    setup = TransactionalSetup()
    setup.log.errors = [ErrorCode.TRANSACTION_ABORTABLE]
    producer = await ready(setup)
    for attempt in range(2):
        try:
            async with producer.transaction():
                await producer.send("flights", b"%d" % attempt, partition=0)
        except AbortableError:
            assert attempt == 0
    assert setup.log.values == {0: [b"1"]}
    assert [step for step in setup.coordinator.steps if "v5" in step] == ["abort v5", "commit v5"]
    await closed(setup)


@pytest.mark.parametrize(
    ("api", "code", "kind"),
    [
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TOPIC_AUTHORIZATION_FAILED, AbortableError),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.TRANSACTION_ABORTABLE, AbortableError),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.UNKNOWN_PRODUCER_ID, AbortableError),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.INVALID_TXN_STATE, FatalError),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ApiKey.ADD_PARTITIONS_TO_TXN, ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced),
        (ApiKey.END_TXN, ErrorCode.TRANSACTION_ABORTABLE, AbortableError),
        (ApiKey.END_TXN, ErrorCode.INVALID_TXN_STATE, FatalError),
        (ApiKey.END_TXN, ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced),
        (ApiKey.END_TXN, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FatalError),
    ],
)
async def test_what_the_coordinator_refuses_is_told_by_kind(
    api: ApiKey, code: ErrorCode, kind: type[Exception]
) -> None:
    setup = TransactionalSetup(version=1)
    setup.coordinator.errors[api].append(code)
    producer = await ready(setup)
    await producer.begin_transaction()
    delivery = await producer.send("flights", b"v", partition=0)
    with pytest.raises(kind, match=code.name) as caught:
        await drive(setup.clock, producer.commit_transaction())
    if issubclass(kind, AbortableError):
        await drive(setup.clock, producer.abort_transaction())
        async with producer.transaction():
            await producer.send("flights", b"again", partition=0)
        assert setup.log.values[0][-1] == b"again"
    else:
        assert delivery.done(), "a producer that can do nothing more leaves nobody waiting"
        for call in (producer.begin_transaction, producer.abort_transaction, lambda: producer.send("flights", b"v")):
            with pytest.raises(type(caught.value)):
                await call()
    await closed(setup)
    assert delivery.done()


@versions
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AbortableError),
        (ErrorCode.ILLEGAL_GENERATION, AbortableError),
        (ErrorCode.UNKNOWN_MEMBER_ID, AbortableError),
        (ErrorCode.STALE_MEMBER_EPOCH, AbortableError),
        (ErrorCode.FENCED_INSTANCE_ID, AbortableError),
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FatalError),
    ],
)
async def test_offsets_that_are_refused_are_told_by_kind(version: int, code: ErrorCode, kind: type[Exception]) -> None:
    setup = TransactionalSetup(version=version)
    setup.coordinator.errors[ApiKey.TXN_OFFSET_COMMIT].append(code)
    producer = await ready(setup)
    await producer.begin_transaction()
    with pytest.raises(kind, match=code.name):
        await drive(setup.clock, producer.send_offsets_to_transaction({FLIGHTS_0: 3}, "readers"))
    with pytest.raises(kind):
        await producer.commit_transaction()
    if issubclass(kind, AbortableError):
        await drive(setup.clock, producer.abort_transaction())
        await producer.begin_transaction()
    await closed(setup)
    assert setup.coordinator.offsets == {}


async def test_init_can_be_called_again_once_it_is_allowed_and_is_the_end_where_it_is_refused() -> None:
    setup = TransactionalSetup()
    errors = setup.coordinator.errors[ApiKey.INIT_PRODUCER_ID]
    errors.append(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(AuthorizationFailed):
        await drive(setup.clock, setup.producer.init_transactions())
    await ready(setup)
    await closed(setup)
    setup = TransactionalSetup()
    setup.coordinator.errors[ApiKey.INIT_PRODUCER_ID].append(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    with pytest.raises(FatalError, match="INVALID_TRANSACTION_TIMEOUT"):
        await drive(setup.clock, setup.producer.init_transactions())
    with pytest.raises(FatalError):
        await setup.producer.init_transactions()
    await closed(setup)


async def test_a_commit_that_takes_too_long_can_be_waited_for_again() -> None:
    setup = TransactionalSetup(max_block_ms=1_000)
    producer = await ready(setup)
    await producer.begin_transaction()
    await producer.send("flights", b"v", partition=0)
    setup.coordinator.errors[ApiKey.END_TXN].extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 8)
    with pytest.raises(OperationTimedOut, match="commit_transaction was not done in 1000 ms"):
        await drive(setup.clock, producer.commit_transaction())
    with pytest.raises(InvalidState, match="commit_transaction is not done yet"):
        await producer.abort_transaction()
    with pytest.raises(InvalidState):
        await producer.begin_transaction()
    for _ in range(10):
        try:
            await drive(setup.clock, producer.commit_transaction())
            break
        except OperationTimedOut:
            continue
    await producer.begin_transaction()
    await closed(setup)
    assert setup.coordinator.steps.count("commit v5") == 9


async def test_offsets_that_take_too_long_spoil_the_transaction() -> None:
    setup = TransactionalSetup(max_block_ms=1_000)
    producer = await ready(setup)
    await producer.begin_transaction()
    setup.coordinator.errors[ApiKey.TXN_OFFSET_COMMIT].extend([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 50)
    waiting = asyncio.ensure_future(producer.send_offsets_to_transaction({FLIGHTS_0: 3}, "readers"))
    await setup.clock.advance_async(10)
    with pytest.raises(InvalidState, match="send_offsets_to_transaction is not done yet"):
        await producer.commit_transaction()
    with pytest.raises(AbortableError, match="not committed in 1000 ms"):
        await drive(setup.clock, waiting)
    await drive(setup.clock, producer.abort_transaction())
    await closed(setup)
    assert setup.coordinator.steps[-1] == "abort v5"


@versions
async def test_records_that_may_have_been_written_are_aborted_in_doubt(version: int) -> None:
    """The answer is lost until the delivery timeout: the transaction is aborted, and the next one is in order."""
    setup = TransactionalSetup(version=version, delivery_timeout_ms=500, request_timeout_ms=400, linger_ms=0)
    producer = await ready(setup)
    setup.log.loses_answers = 1_000
    await producer.begin_transaction()
    await producer.send("flights", b"in doubt", partition=0)
    with pytest.raises(AbortableError):
        await drive(setup.clock, producer.commit_transaction())
    setup.log.loses_answers = 0
    await drive(setup.clock, producer.abort_transaction())

    async def transact() -> None:
        async with producer.transaction():
            await producer.send("flights", b"sure", partition=0)

    await drive(setup.clock, transact())
    assert setup.log.values[0] == [b"in doubt", b"sure"]
    assert [header.producer_epoch for _, header in setup.log.headers] == [0, 1]
    await closed(setup)


@versions
async def test_closing_aborts_what_is_open(version: int) -> None:
    setup = TransactionalSetup(version=version)
    producer = await ready(setup)
    await producer.begin_transaction()
    delivery = await producer.send("flights", b"v", partition=0)
    await drive(setup.clock, producer.flush())
    await closed(setup)
    assert delivery.result().offset == 0
    assert setup.coordinator.steps[-1].startswith("abort")
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_bulks_and_long_batches_belong_to_the_transaction() -> None:
    setup = TransactionalSetup(version=1, partitions=3)
    producer = await ready(setup)
    async with producer.transaction():
        await producer.send_batch(
            "flights", [b"%d" % number for number in range(30)], keys=[b"%d" % n for n in range(30)]
        )
    assert sorted(value for values in setup.log.values.values() for value in values if value) == sorted(
        b"%d" % number for number in range(30)
    )
    assert all(header.is_transactional for _, header in setup.log.headers)
    with pytest.raises(InvalidState):
        await producer.send_batch("flights", [b"outside"])
    await closed(setup)
