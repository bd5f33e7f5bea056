"""Connections: kept while they are used, left alone for a while when they fail, opened once."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from tailrace.client.errors import ConnectionLost, NoBrokerAvailable
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, drive, make_cluster


async def test_a_broker_that_cannot_be_reached_is_tried_less_and_less_often() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    attempts: list[float] = []
    connect = scripted.connect

    async def refuse(*arguments: object) -> object:
        attempts.append(clock.monotonic())
        return await connect(*arguments)  # type: ignore[arg-type]

    scripted.connect = refuse  # type: ignore[assignment,method-assign]
    cluster = make_cluster(scripted, clock)
    scripted.unreachable.add(scripted.addresses[0])
    for _ in range(6):
        with pytest.raises(NoBrokerAvailable):
            await drive(clock, cluster.any_connection())
    pauses = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert pauses == sorted(pauses)
    assert 0.04 <= pauses[0] <= 0.08
    assert 0.6 < pauses[-1] <= 1.25
    scripted.unreachable.clear()
    assert (await drive(clock, cluster.any_connection())).is_open
    await cluster.close()


async def test_an_idle_connection_is_closed_and_a_used_one_kept() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    cluster = make_cluster(scripted, clock, connections_max_idle_ms=10_000)
    connection = await cluster.any_connection()
    await clock.advance_async(9_000)
    await connection.request(MetadataRequest(), MetadataResponse)
    await clock.advance_async(9_000)
    assert connection.is_open
    await clock.advance_async(12_500)
    assert not connection.is_open
    other = await drive(clock, cluster.any_connection())
    scripted.scripts[ApiKey.METADATA] = lambda request: None
    waiting = asyncio.ensure_future(other.request(MetadataRequest(), MetadataResponse))
    await clock.advance_async(20_000)
    assert other.is_open, "an answer is waited for"
    await cluster.close()
    with pytest.raises(ConnectionLost):
        await waiting


async def test_lanes_have_connections_of_their_own() -> None:
    scripted = ScriptedCluster()
    cluster = make_cluster(scripted, VirtualClock())
    await cluster.metadata([])
    first = await cluster.connection_to(0)
    assert await cluster.connection_to(0, lane="coordinator") is not first
    assert await cluster.any_connection() is first
    await cluster.close()


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
async def test_bootstrap_addresses_are_tried_again_unless_told_not_to(strategy: str) -> None:
    scripted, clock = ScriptedCluster(brokers=3), VirtualClock()
    cluster = make_cluster(scripted, clock, metadata_recovery_strategy=strategy)
    scripted.addresses, known = scripted.addresses[1:], scripted.addresses
    scripted.addresses = known
    await cluster.metadata([])
    scripted.unreachable.update(known[1:])
    moved = cluster.known.nodes.pop(0)
    for stream in scripted.streams:
        stream.lose(None)
    if strategy == "rebootstrap":
        assert (await drive(clock, cluster.any_connection())).address == moved.address
    else:
        with pytest.raises(NoBrokerAvailable):
            await drive(clock, cluster.any_connection())
    await cluster.close()


async def test_who_waits_for_a_connection_is_told_that_the_client_was_closed_and_not_cancelled() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    scripted.scripts[ApiKey.API_VERSIONS] = lambda request: None
    cluster = make_cluster(scripted, clock)
    waiting = asyncio.ensure_future(cluster.any_connection())
    cancelled = asyncio.ensure_future(cluster.any_connection())
    for _ in range(5):
        await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(0)
    await cluster.close()
    with pytest.raises(NoBrokerAvailable, match="the client was closed while it connected to broker0:9092"):
        await waiting
    assert cancelled.cancelled()
