"""How connections prove who the client is, when they do so again, and what waits meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tailrace.client.cluster import Cluster
from tailrace.client.consumer import Consumer
from tailrace.client.errors import AuthenticationFailed, ClientError, ConnectionLost, NoBrokerAvailable
from tailrace.client.oauth import BearerToken
from tailrace.client.producer import Producer
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tailrace.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import AdminConfig
from tailrace.settings.config_error import ConfigError
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.sasl_server import SaslServer
from tests.client.scripted_cluster import ScriptedCluster, drive, make_cluster

USER = {"sasl_username": "alice", "sasl_password": "secret"}
SECURE = {"security_protocol": "SASL_PLAINTEXT"}


def make(
    server: SaslServer, mechanism: str, clock: VirtualClock | None = None, **settings: Any
) -> tuple[ScriptedCluster, Cluster]:
    scripted = ScriptedCluster()
    server.serve(scripted)
    options = {**SECURE, "sasl_mechanism": mechanism, **settings}
    return scripted, make_cluster(scripted, clock or VirtualClock(), **options)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_user_is_known_by_the_password(mechanism: str) -> None:
    server = SaslServer([mechanism], users={"alice": "secret"})
    scripted, cluster = make(server, mechanism, **USER)
    assert (await cluster.metadata()).cluster_id == "scripted"
    assert [handshake.mechanism for handshake in scripted.requests_of(SaslHandshakeRequest)] == [mechanism]
    assert all(b"secret" not in said for said in server.said) == (mechanism != "PLAIN")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_wrong_password_is_said_once_and_not_tried_again(mechanism: str) -> None:
    server = SaslServer([mechanism], users={"alice": "other"})
    scripted, cluster = make(server, mechanism, **USER)
    with pytest.raises(AuthenticationFailed, match=rf"broker0:9092 by {mechanism} failed: no such user or password"):
        await cluster.retrying("asking", cluster.metadata)
    assert len(scripted.requests_of(SaslHandshakeRequest)) == 1
    assert scripted.streams[0].is_closed


async def test_a_broker_that_does_not_know_the_password_is_not_talked_to() -> None:
    server = SaslServer(["SCRAM-SHA-256"], users={"alice": "secret"}, signs_truly=False)
    scripted, cluster = make(server, "SCRAM-SHA-256", **USER)
    with pytest.raises(AuthenticationFailed, match="the server does not know the password either"):
        await cluster.metadata()
    assert not scripted.requests_of(MetadataRequest)


async def test_a_mechanism_that_the_broker_does_not_have_is_named() -> None:
    _, cluster = make(SaslServer(["PLAIN", "GSSAPI"]), "SCRAM-SHA-256", **USER)
    with pytest.raises(AuthenticationFailed, match="the broker's mechanisms are PLAIN, GSSAPI"):
        await cluster.metadata()


async def test_a_token_is_shown_and_one_that_is_refused_is_said() -> None:
    server = SaslServer(["OAUTHBEARER"], tokens={"good"})
    scripted = ScriptedCluster()
    server.serve(scripted)
    tokens = [BearerToken("good", {"logicalCluster": "lkc"}), BearerToken("bad")]

    async def provide() -> BearerToken:
        return tokens.pop(0)

    config = AdminConfig({**SECURE, "bootstrap_servers": "broker0", "sasl_mechanism": "OAUTHBEARER"})
    for error in (None, r"the token is not valid \(status invalid_token\)"):
        cluster = Cluster(config, clock=VirtualClock(), connect=scripted.connect, token_provider=provide)
        if error is None:
            assert (await cluster.metadata()).cluster_id == "scripted"
        else:
            with pytest.raises(AuthenticationFailed, match=error):
                await cluster.metadata()
    assert server.said[0].endswith(b"\x01logicalCluster=lkc\x01\x01")
    assert server.said[-1] == b"\x01"


async def test_a_token_provider_that_fails_is_an_error_of_authentication() -> None:
    scripted = ScriptedCluster()
    SaslServer(["OAUTHBEARER"]).serve(scripted)

    async def provide() -> BearerToken:
        raise KeyError("token")

    config = AdminConfig({**SECURE, "bootstrap_servers": "broker0", "sasl_mechanism": "OAUTHBEARER"})
    cluster = Cluster(config, clock=VirtualClock(), connect=scripted.connect, token_provider=provide)
    with pytest.raises(AuthenticationFailed, match=r"the token provider raised KeyError\('token'\)"):
        await cluster.metadata()


async def test_a_token_provider_that_hangs_does_not_hold_the_connection_for_ever() -> None:
    scripted, clock = ScriptedCluster(), VirtualClock()
    SaslServer(["OAUTHBEARER"]).serve(scripted)

    async def provide() -> BearerToken:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    settings = {**SECURE, "sasl_mechanism": "OAUTHBEARER", "request_timeout_ms": 1_000}
    config = AdminConfig({"bootstrap_servers": "broker0", **settings})
    cluster = Cluster(config, clock=clock, connect=scripted.connect, token_provider=provide)
    with pytest.raises(NoBrokerAvailable, match="there was no bearer token in 1000 ms"):
        await drive(clock, cluster.metadata(), limit_ms=5_000)


LIFETIME_MS = 10_000


def order(scripted: ScriptedCluster) -> list[str]:
    """What was asked, in the order in which it came."""
    names = {SaslHandshakeRequest: "handshake", SaslAuthenticateRequest: "authenticate", MetadataRequest: "metadata"}
    return [names[type(request)] for _, _, request in scripted.requests if type(request) in names]


async def test_a_session_is_renewed_before_it_ends_and_requests_wait_in_order() -> None:
    clock = VirtualClock()
    server = SaslServer(["PLAIN"], users={"alice": "secret"}, session_lifetime_ms=LIFETIME_MS)
    scripted, cluster = make(server, "PLAIN", clock, **USER)
    connection = await cluster.any_connection()
    await clock.advance_async(LIFETIME_MS * 0.84)
    await connection.request(MetadataRequest(), MetadataResponse)
    assert order(scripted) == ["handshake", "authenticate", "metadata"]
    await clock.advance_async(LIFETIME_MS * 0.12)
    answers = [connection.submit(MetadataRequest(), MetadataResponse) for _ in range(3)]
    assert connection.in_flight_count == 3
    assert [(await answer).cluster_id for answer in answers] == ["scripted"] * 3
    assert order(scripted)[3:] == ["handshake", "authenticate", "metadata", "metadata", "metadata"]
    assert len(scripted.streams) == 1
    assert connection.requests_count == 5, (
        "versions and metadata: a connection that is idle stays so when it is renewed"
    )


async def test_a_session_that_is_not_renewed_ends_the_connection_and_what_was_held() -> None:
    clock = VirtualClock()
    server = SaslServer(["PLAIN"], users={"alice": "secret"}, session_lifetime_ms=LIFETIME_MS)
    _, cluster = make(server, "PLAIN", clock, **USER)
    connection = await cluster.any_connection()
    await clock.advance_async(LIFETIME_MS)
    server.users = {}
    answer = connection.submit(MetadataRequest(), MetadataResponse)
    with pytest.raises(AuthenticationFailed, match="no such user"):
        await answer
    assert not connection.is_open
    with pytest.raises(ConnectionLost, match="no such user"):
        connection.submit(MetadataRequest(), MetadataResponse)


async def test_a_connection_that_is_closed_while_it_is_renewed_gives_up_what_was_held() -> None:
    clock = VirtualClock()
    server = SaslServer(["PLAIN"], users={"alice": "secret"}, session_lifetime_ms=LIFETIME_MS)
    scripted, cluster = make(server, "PLAIN", clock, **USER)
    connection = await cluster.any_connection()
    await clock.advance_async(LIFETIME_MS)
    scripted.scripts[ApiKey.SASL_HANDSHAKE] = lambda request: None
    answer = connection.submit(MetadataRequest(), MetadataResponse)
    await asyncio.sleep(0)
    connection.close()
    with pytest.raises(ConnectionLost, match="was closed"):
        await answer


async def test_a_broker_that_does_not_answer_a_renewal_is_given_up() -> None:
    clock = VirtualClock()
    server = SaslServer(["PLAIN"], users={"alice": "secret"}, session_lifetime_ms=LIFETIME_MS)
    scripted, cluster = make(server, "PLAIN", clock, **USER, request_timeout_ms=1_000)
    connection = await cluster.any_connection()
    await clock.advance_async(LIFETIME_MS)
    scripted.scripts[ApiKey.SASL_HANDSHAKE] = lambda request: None
    with pytest.raises(ClientError):
        await drive(clock, connection.request(MetadataRequest(), MetadataResponse))
    assert not connection.is_open


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sasl_mechanism": "PLAIN"}, "sasl.username=None: expected the user"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": "a"}, "sasl.password=None"),
        ({"sasl_mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token.endpoint.url=None"),
    ],
)
async def test_settings_that_leave_it_open_who_the_client_is_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_cluster(ScriptedCluster(), VirtualClock(), **SECURE, **settings)


async def test_producers_and_consumers_say_at_once_that_they_are_not_let_in() -> None:
    clock = VirtualClock()
    server = SaslServer(["PLAIN"], users={"alice": "other"})
    _, cluster = make(server, "PLAIN", clock, **USER)
    producer = Producer(cluster=cluster)
    with pytest.raises(AuthenticationFailed, match="no such user"):
        await drive(clock, producer.send("flights", b"v"), limit_ms=1_000)
    await drive(clock, producer.close(flush=False))
    consumer = Consumer(cluster=cluster, group_id="g")
    consumer.subscribe(["flights"])
    with pytest.raises(AuthenticationFailed, match="no such user"):
        await drive(clock, consumer.poll(timeout_ms=60_000), limit_ms=5_000)
    alone = Consumer(cluster=cluster)
    alone.assign([TopicPartition("flights", 0)])
    with pytest.raises(AuthenticationFailed, match="no such user"):
        await drive(clock, alone.poll(timeout_ms=60_000), limit_ms=5_000)
    await drive(clock, alone.close())
