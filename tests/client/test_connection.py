"""One connection: versions are agreed on, answers find who waits for them, and a late answer ends it."""

from __future__ import annotations

import asyncio

import pytest

from tailrace.client.connection import Connection, ConnectionSettings
from tailrace.client.errors import ConnectionLost, RequestTimedOut, UnsupportedVersion
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest
from tailrace.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, drive


async def connect(scripted: ScriptedCluster, clock: VirtualClock, **settings: int) -> Connection:
    options = ConnectionSettings(**settings)  # type: ignore[arg-type]
    return await Connection.open(scripted.addresses[0], settings=options, clock=clock, connect=scripted.connect)


async def test_the_latest_common_version_is_used() -> None:
    scripted = ScriptedCluster()
    scripted.versions[ApiKey.METADATA] = (0, 7)
    connection = await connect(scripted, VirtualClock())
    response = await connection.request(MetadataRequest(topics=None), MetadataResponse)
    assert response.cluster_id == "scripted"
    assert [version for _, version, request in scripted.requests if isinstance(request, MetadataRequest)] == [7]
    assert scripted.requests_of(ApiVersionsRequest)[0].client_software_name == "tailrace"


async def test_a_broker_with_older_api_versions_is_asked_again() -> None:
    scripted = ScriptedCluster()
    scripted.versions[ApiKey.API_VERSIONS] = (0, 2)
    connection = await connect(scripted, VirtualClock())
    assert [version for _, version, _ in scripted.requests] == [2]
    assert connection.version_for(MetadataRequest) == 13


async def test_versions_that_do_not_meet_are_refused() -> None:
    scripted = ScriptedCluster()
    scripted.versions[ApiKey.DELETE_TOPICS] = (7, 9)
    del scripted.versions[ApiKey.DESCRIBE_CLUSTER]
    connection = await connect(scripted, VirtualClock())
    with pytest.raises(UnsupportedVersion, match="versions 7-9 of DeleteTopicsRequest"):
        connection.version_for(DeleteTopicsRequest)
    with pytest.raises(UnsupportedVersion, match="does not serve DescribeClusterRequest"):
        await connection.request(DescribeClusterRequest(), DescribeClusterResponse)
    assert connection.version_for(InitProducerIdRequest) == 5, "version 6 is not stable"
    assert connection.version_for(MetadataRequest, 9) == 9


async def test_a_request_without_an_answer_times_out_and_ends_the_connection() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    scripted.scripts[ApiKey.METADATA] = lambda request: None
    connection = await connect(scripted, clock)
    first = asyncio.ensure_future(connection.request(MetadataRequest(), MetadataResponse, timeout_ms=1000))
    second = asyncio.ensure_future(connection.request(MetadataRequest(), MetadataResponse))
    await clock.advance_async(999)
    assert not first.done()
    await clock.advance_async(1)
    with pytest.raises(RequestTimedOut, match="in 1000 ms"):
        await first
    with pytest.raises(ConnectionLost):
        await second
    assert not connection.is_open
    assert clock.timer_count == 0
    with pytest.raises(ConnectionLost):
        await connection.request(MetadataRequest(), MetadataResponse)


async def test_who_waits_is_told_when_the_connection_is_lost() -> None:
    scripted = ScriptedCluster()
    scripted.scripts[ApiKey.METADATA] = lambda request: None
    connection = await connect(scripted, VirtualClock())
    waiting = asyncio.ensure_future(connection.request(MetadataRequest(), MetadataResponse))
    await asyncio.sleep(0)
    scripted.streams[0].lose(OSError("reset by peer"))
    with pytest.raises(ConnectionLost, match="reset by peer"):
        await waiting


@pytest.mark.parametrize(
    "garbage", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x04\x00\x00\x99\x99", b"\0\0\0\0"]
)
async def test_what_is_no_answer_ends_the_connection(garbage: bytes) -> None:
    scripted = ScriptedCluster()
    scripted.scripts[ApiKey.METADATA] = lambda request: None
    connection = await connect(scripted, VirtualClock(), response_bytes_max=1 << 20)
    waiting = asyncio.ensure_future(connection.request(MetadataRequest(), MetadataResponse))
    await asyncio.sleep(0)
    scripted.streams[0].send([garbage])
    with pytest.raises(ConnectionLost, match="what is no answer"):
        await waiting
    assert scripted.streams[0].is_closed


async def test_requests_above_the_limit_wait_for_a_slot() -> None:
    scripted, held = ScriptedCluster(), []
    scripted.scripts[ApiKey.METADATA] = held.append
    clock = VirtualClock()
    connection = await connect(scripted, clock, in_flight_max=2)
    tasks = [asyncio.ensure_future(connection.request(MetadataRequest(), MetadataResponse)) for _ in range(3)]
    await clock.advance_async(1)
    assert connection.in_flight_count == 2
    tasks[0].cancel()
    scripted.streams[0].answer_oldest(MetadataResponse(cluster_id="answered"))
    await clock.advance_async(1)
    assert len(held) == 3, "an answer makes room, even if nobody waits for it any more"
    connection.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results[1:]] == [ConnectionLost] * 2


async def test_a_broker_that_never_accepts_is_given_up() -> None:
    clock = VirtualClock()

    async def never(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    opening = Connection.open(
        ScriptedCluster().addresses[0],
        settings=ConnectionSettings(),
        clock=clock,
        connect=never,  # type: ignore[arg-type]
    )
    with pytest.raises(ConnectionLost, match="no connection after 10000 ms"):
        await drive(clock, opening)
