"""What users bring to a group: assignors and listeners that do what they want, or fail; polls that are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tailrace.client import Consumer, RebalanceListener, TopicPartition
from tailrace.client.assignors import Assignment, AssignmentInput, Assignor
from tailrace.testing.broker_process import BrokerProcess
from tests.client.group_servers import SETTINGS, Member, group_options, make_topic, produce, shared, start_server
from tests.waiting import until


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from start_server("tailrace", tmp_path_factory)


class EverythingToOne(Assignor):
    name = "everything-to-one"

    def assign(self, given: AssignmentInput) -> Assignment:
        first, *others = sorted(given.members)
        every = [TopicPartition(t, n) for t in given.topics() for n in range(given.partition_counts[t])]
        return {first: every, **{member_id: [] for member_id in others}}


class Failing(Assignor):
    name = "failing"

    def assign(self, given: AssignmentInput) -> Assignment:
        raise LookupError("no idea")


async def test_an_assignor_of_ones_own_decides(servers: str) -> None:
    topic = await make_topic(servers)
    options = group_options(servers, "range")
    del options["partition_assignment_strategy"]
    members = [Member.of(topic, **options, assignors=[EverythingToOne()]) for _ in range(2)]
    await until(lambda: all(member.events.log for member in members), "an assignment for each")
    await until(lambda: sorted(len(member.partitions) for member in members) == [0, 4], "all for one")
    for member in members:
        await member.stop()
    assert {partitions for member in members for what, partitions in member.events.log if what == "assigned"} == {
        (),
        (0, 1, 2, 3),
    }


async def test_an_assignor_that_fails_is_polls_error(servers: str) -> None:
    topic = await make_topic(servers)
    options = group_options(servers, "range")
    del options["partition_assignment_strategy"]
    async with Consumer(**options, assignors=[Failing()]) as consumer:
        consumer.subscribe([topic])
        with pytest.raises(LookupError, match="no idea"):
            await consumer.poll(10_000)


class Listener(RebalanceListener):
    """Fails once, and otherwise seeks; its methods are coroutines, and use the consumer."""

    def __init__(self, consumer: Consumer[bytes, bytes]) -> None:
        self.consumer = consumer
        self.calls: list[str] = []

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append("assigned")
        if len(self.calls) == 1:
            raise LookupError("the first time")

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append("revoked")
        await self.consumer.commit()


@pytest.mark.parametrize("protocol", ["range", "consumer"])
async def test_what_a_listener_raises_is_polls_error_once(servers: str, protocol: str) -> None:
    topic = await make_topic(servers, 1)
    await produce(servers, topic, range(5), 1)
    options = group_options(servers, protocol, enable_auto_commit=False)
    async with Consumer(**options) as consumer:
        listener = Listener(consumer)
        consumer.subscribe([topic], listener=listener)
        with pytest.raises(LookupError, match="the first time"):
            await consumer.poll(10_000)
        assert len(await consumer.poll(10_000)) == 5
    assert listener.calls == ["assigned", "revoked"]
    async with Consumer(**options) as consumer:
        place = (await consumer.committed(TopicPartition(topic, 0)))[TopicPartition(topic, 0)]
    assert place is not None
    assert place.offset == 5


class Slow(RebalanceListener):
    """Waits while it is told of partitions, the first time."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.is_waiting = asyncio.Event()

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(len(partitions))
        if len(self.told) == 1:
            self.is_waiting.set()
            await asyncio.Event().wait()


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky", "consumer"])
async def test_a_poll_that_is_cancelled_loses_no_assignment(servers: str, protocol: str) -> None:
    topic = await make_topic(servers, 2)
    await produce(servers, topic, range(10), 2)
    async with Consumer(**group_options(servers, protocol)) as consumer:
        listener = Slow()
        consumer.subscribe([topic], listener=listener)
        polling = asyncio.ensure_future(consumer.poll(10_000))
        await asyncio.wait_for(listener.is_waiting.wait(), 10)
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        seen = 0
        while seen < 10:
            records = await consumer.poll(10_000)
            assert records, "nothing came for ten seconds"
            seen += len(records)
        assert len(consumer.assignment) == 2


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["cooperative-sticky", "consumer"])
async def test_members_go_on_when_the_broker_was_killed_and_came_back(tmp_path: Path, protocol: str) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        servers = broker.bootstrap_servers
        topic = await make_topic(servers)
        options = group_options(servers, protocol, auto_commit_interval_ms=100)
        members = [Member.of(topic, **options) for _ in range(2)]
        await shared(*members, count=4)
        await produce(servers, topic, range(100))
        await until(lambda: sum(len(member.records) for member in members) >= 100, "what was produced before")
        broker.kill()
        await asyncio.to_thread(broker.start)
        await produce(servers, topic, range(100, 200))
        await until(lambda: len({v for member in members for v in member.values}) == 200, "what was produced after")
        await shared(*members, count=4)
        for member in members:
            await member.stop()
    assert sorted({v for member in members for v in member.values}) == list(range(200))
