"""Groups of Tailrace's consumers, on Tailrace and on Apache Kafka: shared, taken over, committed, static."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tailrace.client import CommitFailed, Consumer, InvalidState, OffsetAndMetadata, TopicPartition
from tests.client.group_servers import (
    PROTOCOLS,
    SERVERS,
    Events,
    Member,
    group_options,
    make_topic,
    produce,
    shared,
    start_server,
    unique,
)
from tests.waiting import until


@pytest.fixture(scope="module", params=SERVERS)
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from start_server(request.param, tmp_path_factory)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_members_share_partitions_and_take_them_over(servers: str, protocol: str) -> None:
    topic = await make_topic(servers)
    await produce(servers, topic, range(200))
    options = group_options(servers, protocol)
    first = Member.of(topic, **options)
    await until(lambda: len(first.records) == 200, "everything read by one member")
    second = Member.of(topic, **options)
    await shared(first, second, count=4)
    await produce(servers, topic, range(200, 400))
    await until(lambda: len(first.records) + len(second.records) == 400, "the rest read by both")
    assert len(second.records) == 100
    await first.stop()
    await shared(second, count=4)
    await produce(servers, topic, range(400, 500))
    await until(lambda: len(first.records) + len(second.records) >= 500, "the last read by the other")
    assert sorted(first.values + second.values) == list(range(500))
    await second.stop()
    is_incremental = protocol in ("cooperative-sticky", "consumer")
    revoked = [partitions for what, partitions in first.events.log if what == "revoked"]
    assert len(revoked[0]) == (2 if is_incremental else 4)
    assert not [event for event in first.events.log + second.events.log if event[0] == "lost"]


@pytest.mark.parametrize("protocol", ["range", "consumer"])
async def test_what_was_committed_is_where_the_next_member_begins(servers: str, protocol: str) -> None:
    topic = await make_topic(servers, 1)
    await produce(servers, topic, range(50), 1)
    options = group_options(servers, protocol, enable_auto_commit=False)
    key = TopicPartition(topic, 0)
    async with Consumer(**options) as consumer:
        consumer.subscribe([topic])
        assert await consumer.committed(key) == {key: None}
        async for record in consumer:
            if record.offset == 19:
                await consumer.commit(record)
                break
        assert (await consumer.committed(key))[key] == OffsetAndMetadata(20, "", record.leader_epoch)
        await consumer.commit({key: OffsetAndMetadata(21, "noted")})
        assert (await consumer.committed(key))[key] == OffsetAndMetadata(21, "noted", -1)
        done: list[object] = []
        consumer.commit_async({key: 22}, on_commit=lambda offsets, error: done.append((offsets[key].offset, error)))
        await until(lambda: done, "the commit's callback")
        assert done == [(22, None)]
    async with Consumer(**options) as consumer:
        consumer.subscribe([topic])
        async for record in consumer:
            assert record.offset == 22
            break


async def test_committing_for_a_group_that_has_other_members_is_refused(servers: str) -> None:
    topic = await make_topic(servers, 1)
    options = group_options(servers, "range")
    member = Member.of(topic, **options)
    await shared(member, count=1)
    async with Consumer(**options) as stranger:
        stranger.assign([TopicPartition(topic, 0)])
        with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
            await stranger.commit({TopicPartition(topic, 0): 1})
    await member.stop()


async def test_positions_are_committed_by_time(servers: str) -> None:
    topic = await make_topic(servers, 1)
    await produce(servers, topic, range(10), 1)
    key = TopicPartition(topic, 0)
    member = Member.of(topic, **group_options(servers, "range", auto_commit_interval_ms=50))
    group_id = member.consumer.config.group_id
    async with Consumer(bootstrap_servers=servers, group_id=group_id) as watcher:
        committed = [await watcher.committed(key)]

        async def look() -> None:
            committed.append(await watcher.committed(key))

        while (place := committed[-1][key]) is None or place.offset < 10:
            assert not member._task.done()
            await look()
    assert place.offset == 10
    await member.stop()


@pytest.mark.parametrize("kind", ["client", "server"])
async def test_a_pattern_finds_topics_that_come_later(servers: str, kind: str) -> None:
    prefix = unique("pattern")
    protocol = "consumer" if kind == "server" else "range"
    options = group_options(servers, protocol, metadata_max_age_ms=300)
    one, other = await make_topic(servers, 1), await make_topic(servers, 1)
    expression = f"{one}|{other}|{prefix}.*"
    if kind == "server":
        member = Member(
            lambda consumer, events: consumer.subscribe(server_pattern=expression, listener=events), **options
        )
    else:
        member = Member(lambda consumer, events: consumer.subscribe(pattern=expression, listener=events), **options)
    await until(lambda: {key.topic for key in member.consumer.assignment} == {one, other}, "both topics")
    await member.stop()
    assert member.events.log[0][0] == "assigned"


@pytest.mark.parametrize("protocol", ["range", "consumer"])
async def test_a_static_member_comes_back_without_a_rebalance(servers: str, protocol: str) -> None:
    topic = await make_topic(servers)
    options = group_options(servers, protocol)
    stays = Member.of(topic, **options, group_instance_id="stays")
    goes = Member.of(topic, **options, group_instance_id="goes")
    await shared(stays, goes, count=4)
    before, events = goes.partitions, len(stays.events.log)
    await goes.stop()
    again = Member.of(topic, **options, group_instance_id="goes")
    await shared(stays, again, count=4)
    assert again.partitions == before
    assert len(stays.events.log) == events
    await again.stop()
    await stays.stop()


async def test_a_topic_that_is_made_later_is_read(servers: str) -> None:
    topic = unique("later")
    member = Member.of(topic, **group_options(servers, "cooperative-sticky", allow_auto_create_topics=False))
    await until(lambda: member.events.log, "an assignment of nothing")
    from tailrace.client import Admin
    from tailrace.client.admin import NewTopic

    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(topic, 2, 1)])
    await shared(member, count=2)
    await member.stop()
    assert ("assigned", (0, 1)) in member.events.log


@pytest.mark.parametrize("protocol", ["range", "consumer"])
async def test_who_does_not_poll_leaves_and_comes_back(servers: str, protocol: str) -> None:
    topic = await make_topic(servers)
    options = group_options(servers, protocol)
    events = Events()
    async with Consumer(**options, max_poll_interval_ms=1_000) as idle:
        idle.subscribe([topic], listener=events)
        while not idle.assignment:
            await idle.poll(100)
        other = Member.of(topic, **options)
        await until(lambda: len(other.partitions) == 4, "everything for the other")
        assert events.log == [("assigned", (0, 1, 2, 3))]
        while len(events.log) < 3 or len(idle.assignment) != 2:
            await idle.poll(100)
        assert ("lost", (0, 1, 2, 3)) in events.log
        await shared(other, count=2)
        await other.stop()


async def test_unsubscribing_gives_up_everything(servers: str) -> None:
    topic = await make_topic(servers, 2)
    options = group_options(servers, "cooperative-sticky")
    member = Member.of(topic, **options)
    events = Events()
    async with Consumer(**options) as consumer:
        consumer.subscribe([topic], listener=events)
        while not consumer.assignment:
            await consumer.poll(100)
        with pytest.raises(InvalidState, match="unsubscribe first"):
            consumer.assign([TopicPartition(topic, 0)])
        await consumer.unsubscribe()
        assert (consumer.assignment, consumer.subscription) == (frozenset(), frozenset())
        assert events.log[-1][0] == "revoked"
        await shared(member, count=2)
        consumer.assign([TopicPartition(topic, 0)])
        assert await consumer.position(TopicPartition(topic, 0)) == 0
    await member.stop()
