"""Replication with a second replica that a script plays: it fetches, and the leader's high watermark follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.broker.follower_replica import FollowerReplica
from tailrace.broker.handlers import delete_records, fetch, list_offsets, produce
from tailrace.broker.partition import Partition
from tailrace.broker.request import Parked
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from tailrace.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.parts import NODE_ID, Parts, batch, completed, make_parts, sole, stop_parts

FOLLOWER = 7
LAG_MAX_MS = 30_000


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    parts = await make_parts(tmp_path / "data")
    await parts.register_broker(FOLLOWER)
    yield parts
    await stop_parts(parts)


async def replicated(parts: Parts, name: str = "t", *, in_sync: bool = True, **configs: str) -> Partition:
    """Create a topic of two replicas that this broker leads."""
    isr = (NODE_ID, FOLLOWER) if in_sync else (NODE_ID,)
    await parts.create_topic(name, replicas=(NODE_ID, FOLLOWER), isr=isr, **configs)
    return parts.partition(name)


def send(parts: Parts, *values: bytes, acks: int = -1, timeout_ms: int = 1000) -> Parked:
    """Produce one batch and give the parked request."""
    data = [PartitionProduceData(index=0, records=batch(*values))]
    request = ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    parked = parts.handle(produce, request, 9)
    assert isinstance(parked, Parked), parked
    return parked


def follow(
    parts: Parts,
    offset: int,
    *,
    replica: int = FOLLOWER,
    log_start_offset: int = 0,
    epoch: int = -1,
    max_wait_ms: int = 0,
) -> PartitionData | Parked:
    """Fetch as the follower does, which says that it has everything before `offset`."""
    asked = FetchPartition(
        partition=0, fetch_offset=offset, log_start_offset=log_start_offset, partition_max_bytes=1 << 20
    )
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=epoch),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic_id=parts.partition("t").topic_id, partitions=[asked])],
    )
    result = parts.handle(fetch, request, 17)
    if isinstance(result, Parked):
        return result
    found = result.responses[0].partitions[0]
    assert isinstance(found, PartitionData)
    return found


def consume(parts: Parts, offset: int) -> PartitionData:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[asked])])
    found = parts.answer(fetch, request, 12).responses[0].partitions[0]
    assert isinstance(found, PartitionData)
    return found


async def until_isr(parts: Parts, expected: set[int]) -> None:
    """Wait until the metadata store has granted an ISR."""
    granted = asyncio.Event()
    partition = parts.partition("t")
    parts.metadata.subscribe(lambda _: granted.set() if set(partition.isr) == expected else None)
    await asyncio.wait_for(granted.wait(), 10)
    assert partition.pending_isr is None


# acks=all


async def test_acks_all_is_answered_when_the_follower_has_the_records(parts: Parts) -> None:
    partition = await replicated(parts)
    parked = send(parts, b"a", b"b")
    assert (parked.is_done, partition.log.high_watermark) == (False, 0)
    follow(parts, 0)
    assert not parked.is_done
    follow(parts, 1)
    assert (parked.is_done, partition.log.high_watermark) == (False, 1)
    follow(parts, 2)
    answer = sole(completed(parked))
    assert (answer.error_code, answer.base_offset, partition.log.high_watermark) == (0, 0, 2)


async def test_acks_1_does_not_wait_for_the_follower(parts: Parts) -> None:
    await replicated(parts)
    data = [PartitionProduceData(index=0, records=batch(b"a"))]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    assert sole(parts.answer(produce, request, 9)).base_offset == 0


async def test_each_request_is_answered_as_soon_as_its_own_records_are_replicated(parts: Parts) -> None:
    await replicated(parts)
    parked = [send(parts, b"a") for _ in range(3)]
    assert parts.manager.produce_purgatory.delayed_count == 3
    follow(parts, 2)
    assert [one.is_done for one in parked] == [True, True, False]
    follow(parts, 3)
    assert parts.manager.produce_purgatory.delayed_count == 0


async def test_a_follower_that_does_not_come_is_a_timeout_and_the_records_stay(parts: Parts) -> None:
    partition = await replicated(parts)
    parked = send(parts, b"a", timeout_ms=1000)
    parts.clock.advance(1000)
    answer = sole(completed(parked))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert partition.log.log_end_offset == 1
    follow(parts, 1)
    assert partition.log.high_watermark == 1


async def test_one_partition_that_lags_holds_only_its_own_answer(parts: Parts) -> None:
    await replicated(parts)
    await parts.create_topic("alone")
    data = [PartitionProduceData(index=0, records=batch(b"a"))]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="alone", partition_data=data),
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch(b"b"))]),
        ],
    )
    parked = parts.handle(produce, request, 9)
    parts.clock.advance(1000)
    codes = {topic.name: topic.partition_responses[0].error_code for topic in completed(parked).responses}
    assert codes == {"alone": ErrorCode.NONE, "t": ErrorCode.REQUEST_TIMED_OUT}


async def test_too_few_in_sync_replicas_before_the_append(parts: Parts) -> None:
    partition = await replicated(parts, in_sync=False, min_insync_replicas="2")
    data = [PartitionProduceData(index=0, records=batch(b"a"))]
    topics = [TopicProduceData(name="t", partition_data=data)]
    refused = sole(parts.answer(produce, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9))
    assert (refused.error_code, refused.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert partition.log.log_end_offset == 0
    taken = sole(parts.answer(produce, ProduceRequest(acks=1, topic_data=topics), 9))
    assert taken.error_code == ErrorCode.NONE
    # KIP-966: the high watermark rests while there are too few, so nobody reads what might be lost.
    assert partition.log.high_watermark == 0


async def test_too_few_in_sync_replicas_after_the_append(parts: Parts) -> None:
    partition = await replicated(parts, min_insync_replicas="2")
    parked = send(parts, b"a")
    # The follower fetched and left the ISR before anybody looked at the request.
    partition.log.update_high_watermark(1)
    await parts.change_partition("t", isr=(NODE_ID,))
    answer = sole(completed(parked))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0)


async def test_a_smaller_isr_acknowledges_what_the_lost_follower_had_not(parts: Parts) -> None:
    partition = await replicated(parts)
    parked = send(parts, b"a", timeout_ms=LAG_MAX_MS * 2)
    parts.clock.advance(LAG_MAX_MS + 1)
    await parts.change_partition("t", isr=(NODE_ID,))
    assert (sole(completed(parked)).error_code, partition.log.high_watermark) == (ErrorCode.NONE, 1)


async def test_a_leader_that_steps_down_says_so_to_those_who_wait(parts: Parts) -> None:
    await replicated(parts)
    parked = send(parts, b"a")
    await parts.change_partition("t", leader=FOLLOWER, leader_epoch=1)
    assert sole(completed(parked)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_topic_that_is_deleted_says_so_to_those_who_wait(parts: Parts) -> None:
    partition = await replicated(parts)
    parked = send(parts, b"a")
    await parts.metadata.delete_topics([partition.topic_id])
    assert sole(completed(parked)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# What readers see


async def test_consumers_read_to_the_high_watermark_and_followers_to_the_end(parts: Parts) -> None:
    await replicated(parts)
    send(parts, b"a")
    send(parts, b"b")
    follow(parts, 1)
    seen = consume(parts, 0)
    replicated_part = follow(parts, 1)
    assert isinstance(replicated_part, PartitionData)
    one_batch = len(batch(b"a"))
    assert (len(seen.records or b""), len(consume(parts, 1).records or b"")) == (one_batch, 0)
    assert len(replicated_part.records or b"") == one_batch
    assert (seen.high_watermark, replicated_part.high_watermark) == (1, 1)
    assert consume(parts, 2).error_code == ErrorCode.NONE
    assert consume(parts, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_follower_that_waits_is_woken_by_an_append_and_a_consumer_by_the_high_watermark(parts: Parts) -> None:
    await replicated(parts)
    following = follow(parts, 0, max_wait_ms=500)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20)
    request.topics = [FetchTopic(topic="t", partitions=[asked])]
    consuming = parts.handle(fetch, request, 12)
    assert isinstance(following, Parked)
    assert isinstance(consuming, Parked)
    producing = send(parts, b"a")
    assert (following.is_done, consuming.is_done, producing.is_done) == (True, False, False)
    follow(parts, 1)
    assert (consuming.is_done, producing.is_done) == (True, True)


async def test_latest_is_the_high_watermark_for_consumers_and_the_end_for_replicas(parts: Parts) -> None:
    await replicated(parts)
    send(parts, b"a", b"b", b"c")
    follow(parts, 1)

    def latest(replica: int) -> int:
        request = ListOffsetsRequest(
            replica_id=replica,
            topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
        )
        answer = parts.answer(list_offsets, request, 8).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        return int(answer.offset)

    assert (latest(-1), latest(FOLLOWER), latest(-2)) == (1, 3, 3)


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
async def test_a_new_leader_does_not_tell_offsets_until_its_epoch_is_replicated(
    parts: Parts, version: int, code: ErrorCode
) -> None:
    await replicated(parts)
    send(parts, b"a")
    await parts.change_partition("t", leader_epoch=1)

    def ask(timestamp: int) -> int:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])])
        return int(parts.answer(list_offsets, request, version).topics[0].partitions[0].error_code)

    assert (ask(-1), ask(1_700_000_000_000), ask(-2)) == (code, code, ErrorCode.NONE)
    follow(parts, 1)
    assert (ask(-1), ask(1_700_000_000_000), ask(-2)) == (0, 0, 0)


# The in-sync replicas


async def test_a_follower_that_catches_up_joins_the_isr(parts: Parts) -> None:
    partition = await replicated(parts, in_sync=False)
    data = [PartitionProduceData(index=0, records=batch(b"a", b"b"))]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    parts.clock.advance(LAG_MAX_MS + 1)
    parts.answer(produce, request, 9)
    follow(parts, 1)
    assert partition.pending_isr is None
    follow(parts, 2)
    assert partition.pending_isr == (NODE_ID, FOLLOWER)
    await until_isr(parts, {NODE_ID, FOLLOWER})
    registration = parts.metadata.partition("t", 0)
    assert registration is not None
    assert (registration.isr, registration.partition_epoch) == ((NODE_ID, FOLLOWER), 1)


async def test_an_isr_that_is_asked_for_counts_before_it_is_granted(parts: Parts) -> None:
    partition = await replicated(parts, in_sync=False)
    parts.clock.advance(LAG_MAX_MS + 1)
    follow(parts, 0)
    assert partition.maximal_isr == (NODE_ID, FOLLOWER)
    parked = send(parts, b"a")
    assert (parked.is_done, partition.log.high_watermark) == (False, 0)
    follow(parts, 1)
    assert parked.is_done
    await until_isr(parts, {NODE_ID, FOLLOWER})


async def test_a_follower_below_the_start_of_the_leaders_epoch_may_not_join(parts: Parts) -> None:
    partition = await replicated(parts, in_sync=False)
    data = [PartitionProduceData(index=0, records=batch(b"a", b"b"))]
    parts.clock.advance(LAG_MAX_MS + 1)
    parts.answer(produce, ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)]), 9)
    await parts.change_partition("t", leader_epoch=1)
    partition.log.high_watermark = 1
    follow(parts, 1)
    assert partition.pending_isr is None
    follow(parts, 2)
    assert partition.pending_isr == (NODE_ID, FOLLOWER)
    await until_isr(parts, {NODE_ID, FOLLOWER})


async def test_a_follower_that_lags_leaves_the_isr_and_the_high_watermark_moves(parts: Parts) -> None:
    partition = await replicated(parts)
    parked = send(parts, b"a", timeout_ms=LAG_MAX_MS * 10)
    parts.clock.advance(LAG_MAX_MS)
    assert partition.pending_isr is None
    parts.clock.advance(LAG_MAX_MS)
    assert partition.pending_isr == (NODE_ID,)
    # Not granted yet: the follower still counts.
    assert partition.log.high_watermark == 0
    await until_isr(parts, {NODE_ID})
    assert (partition.log.high_watermark, sole(completed(parked)).error_code) == (1, ErrorCode.NONE)


async def test_a_follower_that_keeps_pace_with_a_busy_leader_stays_in_sync(parts: Parts) -> None:
    partition = await replicated(parts)
    for number in range(10):
        send(parts, b"a", timeout_ms=10 * LAG_MAX_MS)
        follow(parts, number)  # always one record behind, but where the leader was at the fetch before
        parts.clock.advance(LAG_MAX_MS // 3)
    assert (partition.pending_isr, set(partition.isr)) == (None, {NODE_ID, FOLLOWER})


async def test_an_isr_change_that_somebody_forestalled_is_forgotten(parts: Parts) -> None:
    partition = await replicated(parts, in_sync=False)
    parts.clock.advance(LAG_MAX_MS + 1)
    follow(parts, 0)
    assert partition.pending_isr == (NODE_ID, FOLLOWER)
    await parts.change_partition("t", leader_epoch=1)  # is in the store before the task with the proposal runs
    assert (partition.isr, partition.pending_isr) == ((NODE_ID,), None)
    await parts.manager.stop()
    assert (partition.isr, partition.pending_isr, partition.partition_epoch) == ((NODE_ID,), None, 1)


async def test_a_fetch_from_a_followers_earlier_life_is_refused(parts: Parts) -> None:
    partition = await replicated(parts)
    send(parts, b"a")
    follow(parts, 0, epoch=6)
    stale = follow(parts, 1, epoch=5)
    assert isinstance(stale, PartitionData)
    assert (stale.error_code, partition.log.high_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


# DeleteRecords


async def test_deleting_records_waits_for_the_followers_log_start(parts: Parts) -> None:
    partition = await replicated(parts)
    send(parts, b"a")
    send(parts, b"b")
    follow(parts, 2)

    def delete(timeout_ms: int) -> Parked:
        asked = [DeleteRecordsPartition(partition_index=0, offset=-1)]
        request = DeleteRecordsRequest(timeout_ms=timeout_ms, topics=[DeleteRecordsTopic(name="t", partitions=asked)])
        parked = parts.handle(delete_records, request, 2)
        assert isinstance(parked, Parked)
        return parked

    parked = delete(1000)
    assert (parked.is_done, partition.log.log_start_offset) == (False, 2)
    follow(parts, 2, log_start_offset=1)
    assert not parked.is_done
    follow(parts, 2, log_start_offset=2)
    answer = completed(parked).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)

    send(parts, b"c")
    follow(parts, 3, log_start_offset=2)
    late = delete(1000)
    parts.clock.advance(1000)
    answer = completed(late).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT


# The rule as a property


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 3)),
            st.tuples(st.just("fetch"), st.integers(0, 2), st.integers(0, 30)),
            st.tuples(st.just("isr"), st.sets(st.sampled_from([7, 8, 9]))),
        ),
        max_size=40,
    ),
    min_isr=st.integers(1, 4),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_high_watermark_never_falls_and_never_passes_an_in_sync_replica(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[object, ...]], min_isr: int
) -> None:
    parts = await make_parts(tmp_path_factory.mktemp("property") / "data")
    try:
        followers = (7, 8, 9)
        await parts.create_topic("t", replicas=(NODE_ID, *followers), min_insync_replicas=str(min_isr))
        parts.clock.advance(LAG_MAX_MS + 1)  # nobody is caught up merely because the leader is new
        partition = parts.partition("t")
        log = partition.log
        before = 0
        for step in steps:
            isr_before = partition.isr
            if step[0] == "append":
                partition.append_as_leader(batch(*[b"x"] * int(str(step[1]))), acks=1)
            elif step[0] == "fetch":
                follower = partition.followers[followers[int(str(step[1]))]]
                offset = min(int(str(step[2])), log.log_end_offset)
                partition.follower_fetched(
                    follower,
                    fetch_offset=offset,
                    log_start_offset=0,
                    broker_epoch=-1,
                    leader_end=log.log_end_offset,
                )
                for task in list(parts.manager._tasks):
                    await task
            else:
                assert isinstance(step[1], set)
                await parts.change_partition("t", isr=(NODE_ID, *sorted(step[1])))
            ends = [partition.followers[replica].log_end_offset for replica in partition.isr if replica != NODE_ID]
            assert before <= log.high_watermark <= log.log_end_offset
            if log.high_watermark > before:
                members = set(isr_before) & set(partition.isr) - {NODE_ID}
                assert all(partition.followers[one].log_end_offset >= log.high_watermark for one in members)
                assert max(len(isr_before), len(partition.isr)) >= partition.effective_min_isr
            if len(partition.isr) >= partition.effective_min_isr and not _may_join(partition):
                assert log.high_watermark == max(before, min([log.log_end_offset, *ends]))
            before = log.high_watermark
    finally:
        await stop_parts(parts)


def _may_join(partition: Partition) -> bool:
    """Whether a follower outside the ISR holds the high watermark back because it is caught up."""
    return any(
        follower.is_caught_up(
            leader_end_offset=partition.log.log_end_offset,
            now_ms=partition._surroundings.clock.monotonic() * 1000,
            lag_max_ms=LAG_MAX_MS,
        )
        for node, follower in partition.followers.items()
        if node not in partition.isr
    )


def test_a_follower_is_caught_up_where_the_leader_was_at_its_fetch_before() -> None:
    follower = FollowerReplica(7)

    def fetched(offset: int, now_ms: float, leader_end: int) -> bool:
        return follower.fetched(
            fetch_offset=offset, log_start_offset=0, now_ms=now_ms, leader_end_offset=leader_end, broker_epoch=1
        )

    assert fetched(0, 100, 10)
    assert follower.last_caught_up_ms == 0
    assert fetched(10, 200, 20)
    assert follower.last_caught_up_ms == 100
    assert fetched(25, 300, 25)
    assert follower.last_caught_up_ms == 300
    assert follower.is_caught_up(leader_end_offset=30, now_ms=400, lag_max_ms=100)
    assert not follower.is_caught_up(leader_end_offset=30, now_ms=401, lag_max_ms=100)
    assert follower.is_caught_up(leader_end_offset=25, now_ms=10_000, lag_max_ms=100)
