"""The coordinator: time that passes, partitions that fail, a log that is slow, a broker that dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tailrace.broker.request import Parked
from tailrace.broker.topic_names import TRANSACTION_STATE_TOPIC
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.records.reader import read_records
from tests.broker.parts import Parts, abandon_parts, make_parts, stop_parts
from tests.broker.transactions.coordinated import Producer, answered, coordinate
from tests.waiting import DEADLINE_S, until

SWEEP_MS = 10_000
RETRY_MS = 100
WEEK_MS = 7 * 24 * 3_600_000


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    await parts.create_topic("t", partitions=2)
    yield parts
    await stop_parts(parts)


def last_stable(parts: Parts, topic: str = "t", number: int = 0) -> tuple[int, int]:
    log = parts.partition(topic, number).log
    return log.high_watermark, log.last_stable_offset


def written(parts: Parts) -> int:
    return parts.partition(TRANSACTION_STATE_TOPIC).log.log_end_offset


# Time


async def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(parts: Parts) -> None:
    producer = Producer(parts)
    await producer.init(timeout_ms=30_000)
    assert await producer.produce("t") == ErrorCode.NONE
    parts.clock.advance(29_000)
    assert producer.describe() == "Ongoing 0"
    parts.clock.advance(SWEEP_MS + 2_000)
    assert producer.describe() == "CompleteAbort 1"
    assert last_stable(parts) == (2, 2)
    assert await producer.produce("t") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.produce("t", 1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await producer.add("t", 1) == ErrorCode.PRODUCER_FENCED
    assert await producer.end(version=4) == ErrorCode.PRODUCER_FENCED


async def test_an_id_that_nobody_uses_is_forgotten(parts: Parts) -> None:
    await coordinate(parts)
    idle, busy = Producer(parts, "idle"), Producer(parts, "busy")
    await idle.init()
    await busy.init(timeout_ms=900_000)
    for _ in range(8):
        await parts.clock.advance_async(WEEK_MS // 8 + 3_600_000)
        await busy.produce("t")
        await busy.end()
    await parts.clock.advance_async(3_600_000)
    assert idle.describe() == "TRANSACTIONAL_ID_NOT_FOUND"
    assert busy.describe().startswith("CompleteCommit")
    assert await idle.end() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    data = bytes(
        parts.partition(TRANSACTION_STATE_TOPIC)
        .log.read(0, max_bytes=10**6, upper_offset=written(parts), min_one_message=True)
        .records
    )
    tombstones = [record.key for record in read_records(data) if record.value is None]
    assert [key[4:] for key in tombstones if key] == [b"idle"]


async def test_a_timeout_that_the_broker_does_not_allow_is_refused(parts: Parts) -> None:
    assert await Producer(parts).init(timeout_ms=900_001) == ErrorCode.INVALID_TRANSACTION_TIMEOUT


# Partitions that can't take a marker


async def test_a_marker_is_written_when_its_partition_has_replicas_again(parts: Parts) -> None:
    await parts.create_topic("two", replicas=(0, 1), isr=(0,))
    producer = Producer(parts)
    await producer.init()
    assert await producer.produce("two") == ErrorCode.NONE
    await parts.configure_topic("two", min_insync_replicas="2")
    assert await producer.end() == ErrorCode.NONE
    assert producer.describe() == "PrepareCommit 1"
    await parts.configure_topic("two", min_insync_replicas="1")
    parts.clock.advance(RETRY_MS)
    assert producer.describe() == "CompleteCommit 1"
    assert last_stable(parts, "two") == (2, 2)


async def test_a_deleted_topic_does_not_hold_its_transaction(parts: Parts) -> None:
    gone = await parts.create_topic("gone")
    producer = Producer(parts)
    await producer.init()
    await producer.produce("gone")
    await producer.produce("t")
    await parts.metadata.delete_topics([gone])
    assert await producer.end() == ErrorCode.NONE
    assert producer.describe() == "CompleteCommit 1"
    assert last_stable(parts) == (2, 2)


# A broker that dies


async def test_a_decision_that_was_answered_is_told_to_the_partitions_after_kill_9(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data")
    await parts.create_topic("two", replicas=(0, 1), isr=(0,))
    committed, aborted = Producer(parts, "committed"), Producer(parts, "aborted")
    for producer in (committed, aborted):
        await producer.init()
        assert await producer.produce("two") == ErrorCode.NONE
    await parts.configure_topic("two", min_insync_replicas="2")
    assert await committed.end() == ErrorCode.NONE
    assert await aborted.end(is_commit=False) == ErrorCode.NONE
    await parts.configure_topic("two", min_insync_replicas="1")
    abandon_parts(parts)
    parts = await make_parts(tmp_path / "data")
    await parts.broker.transactions.topic.loaded()
    for producer, state in ((committed, "CompleteCommit 1"), (aborted, "CompleteAbort 1")):
        producer.parts = parts
        assert producer.describe() == state
    assert last_stable(parts, "two") == (4, 4)
    log = parts.partition("two").log
    (only,) = log.collect_aborted_transactions(0, 4)
    assert only.producer_id == aborted.producer_id
    await stop_parts(parts)


async def test_an_open_transaction_goes_on_after_kill_9(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data")
    await parts.create_topic("t", partitions=2)
    producer = Producer(parts)
    await producer.init()
    await producer.produce("t")
    abandon_parts(parts)
    producer.parts = parts = await make_parts(tmp_path / "data")
    await parts.broker.transactions.topic.loaded()
    assert last_stable(parts) == (1, 0)
    assert await producer.produce("t") == ErrorCode.NONE
    assert await producer.produce("t", 1) == ErrorCode.NONE
    assert await producer.end() == ErrorCode.NONE
    assert (last_stable(parts), last_stable(parts, "t", 1)) == ((3, 3), (2, 2))
    await stop_parts(parts)


async def test_while_it_is_being_loaded_an_id_is_not_answered_for(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data")
    await parts.create_topic("t")
    producer = Producer(parts)
    await producer.init()
    await producer.produce("t")
    abandon_parts(parts)
    producer.parts = parts = await make_parts(tmp_path / "data")
    assert producer.describe() == "COORDINATOR_LOAD_IN_PROGRESS"
    assert await producer.add("t") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await producer.end() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    # The log itself knows that the transaction is open here, so its records need no coordinator.
    assert await producer.produce("t") == ErrorCode.NONE
    await parts.broker.transactions.topic.loaded()
    assert producer.describe() == "Ongoing 0"
    await stop_parts(parts)


async def test_records_that_nobody_can_vouch_for_yet_do_not_begin_a_transaction_out_of_order(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path / "data")
    await parts.create_topic("t")
    producer = Producer(parts)
    await producer.init()
    assert await producer.add("t") == ErrorCode.NONE
    abandon_parts(parts)
    producer.parts = parts = await make_parts(tmp_path / "data")
    assert await producer.produce("t", version=11, sequence=0) == ErrorCode.NOT_ENOUGH_REPLICAS
    await parts.broker.transactions.topic.loaded()
    assert await producer.produce("t", version=11, sequence=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.produce("t", version=11, sequence=0) == ErrorCode.NONE
    assert await producer.produce("t", version=11, sequence=1) == ErrorCode.NONE
    assert len(parts.broker.transactions.first_sequences) == 0
    await stop_parts(parts)


# A log that takes time: each write waits for the disk


@pytest.fixture
async def slow(parts: Parts) -> Parts:
    await coordinate(parts, flush_messages="1")
    return parts


async def test_who_comes_while_a_state_is_being_written_down_has_to_try_again(slow: Parts) -> None:
    producer = Producer(slow)
    await producer.init()
    adding = producer.begin_add("t")
    assert isinstance(adding, Parked)
    assert not adding.is_done
    assert await producer.add("t", 1) == ErrorCode.CONCURRENT_TRANSACTIONS
    answer = await answered(adding)
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
    assert producer.describe() == "Ongoing 0"


async def test_an_end_is_answered_when_it_is_on_disk_and_markers_come_after(slow: Parts) -> None:
    producer = Producer(slow)
    await producer.init()
    await producer.produce("t")
    ending = producer.begin_end(is_commit=True)
    assert isinstance(ending, Parked)
    assert not ending.is_done
    assert last_stable(slow) == (1, 0)
    assert (await answered(ending)).producer_epoch == 1
    await until(lambda: producer.describe() == "CompleteCommit 1")
    assert last_stable(slow) == (2, 2)


async def test_a_produce_that_adds_its_partition_waits_until_that_is_written_down(slow: Parts) -> None:
    producer = Producer(slow)
    await producer.init()
    appending = asyncio.ensure_future(producer.produce("t"))
    await asyncio.sleep(0)
    assert last_stable(slow) == (0, 0)
    assert await appending == ErrorCode.NONE
    assert last_stable(slow) == (1, 0)


async def test_a_produce_of_the_next_transaction_waits_for_the_end_of_the_last(slow: Parts) -> None:
    producer = Producer(slow)
    await producer.init()
    await producer.produce("t")
    await producer.end()
    appending = asyncio.ensure_future(producer.produce("t", 1))
    async with asyncio.timeout(DEADLINE_S):
        while not appending.done():
            await slow.clock.advance_async(5)
            await asyncio.wait([appending], timeout=0.01)
    assert await appending == ErrorCode.NONE
    assert producer.describe() == "Ongoing 1"


async def test_a_produce_whose_transaction_ends_while_it_waits_is_refused(slow: Parts) -> None:
    producer, newcomer = Producer(slow), Producer(slow)
    await producer.init()
    await producer.produce("t")
    appending = asyncio.ensure_future(producer.produce("t", 1))
    await asyncio.sleep(0)
    adding = slow.broker.transactions.topic.shard("x").transactions["x"]
    await until(lambda: not adding.is_pending)
    # The partition is added and written down, and before the records come somebody else takes over.
    assert await newcomer.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert await appending in (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)
    await until(lambda: producer.describe() == "CompleteAbort 1")
    for number in range(2):
        high_watermark, stable = last_stable(slow, "t", number)
        assert high_watermark == stable, "nothing may be left open"


# Replicas that take time


async def test_a_state_that_replicas_do_not_confirm_in_time_counts_when_they_do(parts: Parts) -> None:
    await parts.register_broker(1)
    await parts.create_topic(TRANSACTION_STATE_TOPIC, replicas=(0, 1), cleanup_policy="compact")
    producer = Producer(parts)
    waiting = asyncio.ensure_future(producer.init())
    await asyncio.sleep(0)
    parts.clock.advance(31_000)
    assert await waiting == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await producer.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    await parts.change_partition(TRANSACTION_STATE_TOPIC, isr=(0,))
    assert producer.describe() == "Empty 0"
    assert await producer.init() == ErrorCode.NONE
    assert producer.epoch == 1


async def test_requests_that_wait_are_told_when_the_coordinator_goes(parts: Parts) -> None:
    await parts.register_broker(1)
    await parts.create_topic(TRANSACTION_STATE_TOPIC, replicas=(0, 1), cleanup_policy="compact")
    producer = Producer(parts)
    waiting = asyncio.ensure_future(producer.init())
    await asyncio.sleep(0)
    await parts.change_partition(TRANSACTION_STATE_TOPIC, leader=1, leader_epoch=1)
    assert await waiting == ErrorCode.NOT_COORDINATOR
    assert producer.describe() == "NOT_COORDINATOR"
    producer.producer_id, producer.epoch = 5, 0
    assert await producer.produce("t") == ErrorCode.NOT_ENOUGH_REPLICAS
