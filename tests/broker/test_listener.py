"""Where a broker listens, and how many connections it takes."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from tailrace.broker.broker import Endpoint
from tailrace.broker.connection_limits import ConnectionLimits
from tailrace.broker.listener import find_canonical_host, resolve_ip_overrides
from tailrace.broker.listener_endpoints import advertise, endpoints_to_open, ignored_listeners, needs_canonical_host
from tailrace.broker.metrics import BrokerMetrics
from tailrace.broker.network import Network
from tailrace.clock import SystemClock
from tailrace.protocol.messages.init_producer_id import InitProducerIdResponse
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.testing.virtual_clock import VirtualClock
from tests.broker.wire import connected, eventually, settled, stub_network


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")


@needs_ipv6
@pytest.mark.parametrize("host", ["", "localhost", "[::]"])
async def test_both_families_are_served_on_one_port(host: str) -> None:
    async with stub_network(
        listeners=f"PLAINTEXT://{host}:0", advertised_listeners="PLAINTEXT://localhost:9092"
    ) as stub:
        for address in ("127.0.0.1", "::1"):
            async with connected(stub.port, address) as wire:
                wire.order("now")
                await wire.obeyed()
        assert {port for _, port in stub.network.listeners[0].addresses} == {stub.port}


@needs_ipv6
async def test_an_ipv6_literal_is_served_alone() -> None:
    async with stub_network(listeners="PLAINTEXT://[::1]:0") as stub, connected(stub.port, "::1") as wire:
        wire.order("now")
        await wire.obeyed()
        with pytest.raises(ConnectionRefusedError):
            async with connected(stub.port, "127.0.0.1"):
                pass


async def test_a_port_in_use_is_named() -> None:
    async with stub_network() as stub:
        config = BrokerConfig({"listeners": f"PLAINTEXT://127.0.0.1:{stub.port}"})
        network = Network(config, SystemClock(), BrokerMetrics())
        with pytest.raises(OSError, match=f"can't listen on PLAINTEXT://127.0.0.1:{stub.port}: .*in use"):
            network.open()
        assert network.listeners == []


def test_a_listener_that_is_not_plaintext_is_refused() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://:9092,SASL_SSL://:9093"})
    with pytest.raises(ConfigError, match=r"SASL_SSL://:9093: expected PLAINTEXT"):
        endpoints_to_open(config)


def test_listeners_of_a_controller_are_left_out() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
        }
    )
    assert [endpoint.name for endpoint in endpoints_to_open(config)] == ["PLAINTEXT"]
    assert ignored_listeners(config) == ("CONTROLLER",)


@pytest.mark.parametrize(
    ("listeners", "advertised", "expected"),
    [
        ("PLAINTEXT://:0", None, Endpoint("PLAINTEXT", "machine", 5000)),
        ("PLAINTEXT://localhost:0", None, Endpoint("PLAINTEXT", "127.0.0.1", 5000)),
        ("PLAINTEXT://[::1]:9092", None, Endpoint("PLAINTEXT", "::1", 9092)),
        ("PLAINTEXT://:9092", "PLAINTEXT://broker.example:19092", Endpoint("PLAINTEXT", "broker.example", 19092)),
        ("PLAINTEXT://:0", "PLAINTEXT://localhost:0", Endpoint("PLAINTEXT", "localhost", 5000)),
    ],
)
def test_what_clients_are_told(listeners: str, advertised: str | None, expected: Endpoint) -> None:
    texts = {"listeners": listeners} | ({} if advertised is None else {"advertised.listeners": advertised})
    config = BrokerConfig(texts)
    assert advertise(config, {"PLAINTEXT": 5000}, "machine") == (expected,)
    assert needs_canonical_host(config) == (expected.host == "machine")


async def test_the_canonical_host_can_be_resolved() -> None:
    host = await find_canonical_host()
    assert socket.getaddrinfo(host, None)


async def test_beyond_max_connections_the_backlog_waits() -> None:
    async with stub_network(max_connections="2") as stub, connected(stub.port) as first:
        first.order("now")
        await first.obeyed()
        async with connected(stub.port) as second:
            second.order("now")
            await second.obeyed()
            async with connected(stub.port) as third:
                third.order("now")
                await settled()
                assert stub.handlers.orders == ["now", "now"]
                assert stub.metrics.listeners["PLAINTEXT"].open == 2
                first.close()
                assert isinstance((await third.obeyed())[1], InitProducerIdResponse)


async def test_an_address_has_only_so_many_connections() -> None:
    async with stub_network(max_connections_per_ip="5", max_connections_per_ip_overrides="127.0.0.1:1") as stub:
        async with connected(stub.port) as first, connected(stub.port) as second:
            assert await second.is_closed()
            first.order("now")
            await first.obeyed()
            assert stub.metrics.listeners["PLAINTEXT"].rejected == 1
        await eventually(lambda: stub.metrics.listeners["PLAINTEXT"].open == 0)
        async with connected(stub.port) as third:
            third.order("now")
            await third.obeyed()


async def test_more_connections_a_second_than_allowed_wait() -> None:
    clock = VirtualClock()
    async with stub_network(clock, max_connection_creation_rate="3") as stub:
        listener = stub.metrics.listener("PLAINTEXT")
        with ExitStack() as stack:
            for _ in range(5):
                stack.enter_context(socket.create_connection(("127.0.0.1", stub.port)))
            await eventually(lambda: listener.created == 3)
            await settled()
            assert listener.created == 3
            await clock.advance_async(340)
            await eventually(lambda: listener.created == 4)
            await clock.advance_async(340)
            await eventually(lambda: listener.created == 5)


async def test_an_idle_connection_is_closed_and_a_waiting_one_is_not() -> None:
    clock = VirtualClock()
    async with (
        stub_network(clock, connections_max_idle_ms="1000") as stub,
        connected(stub.port) as idle,
        connected(stub.port) as waiting,
    ):
        waiting.order("park")
        idle.order("now")
        await idle.obeyed()
        await eventually(lambda: len(stub.handlers.parked) == 1)
        await clock.advance_async(900)
        idle.order("now")
        await idle.obeyed()
        await clock.advance_async(900)
        assert stub.metrics.listeners["PLAINTEXT"].open == 2
        await clock.advance_async(500)
        assert await idle.is_closed()
        await eventually(lambda: stub.metrics.listeners["PLAINTEXT"].open == 1)
        stub.handlers.parked[0].complete(InitProducerIdResponse())
        await waiting.obeyed()


async def test_a_limit_that_is_raised_lets_the_backlog_in() -> None:
    async with stub_network(max_connections="1") as stub, connected(stub.port) as first, connected(stub.port) as second:
        first.order("now")
        await first.obeyed()
        second.order("now")
        await settled()
        assert stub.handlers.orders == ["now"]
        stub.network.reconfigure(BrokerConfig({"max.connections": "2"}))
        await second.obeyed()


def test_overrides_may_name_hosts(caplog: pytest.LogCaptureFixture) -> None:
    assert resolve_ip_overrides({"127.0.0.2": 3, "[::1]": 4}) == {"127.0.0.2": 3, "::1": 4}
    assert resolve_ip_overrides({"localhost": 3})["127.0.0.1"] == 3
    assert resolve_ip_overrides({"no-such-host.invalid": 3}) == {}
    assert "no-such-host.invalid" in caplog.text


def test_no_connection_comes_at_a_rate_of_zero() -> None:
    limits = ConnectionLimits(connections_max=10, per_ip_max=10, per_ip_overrides={}, creation_rate_max=0)
    assert limits.creation_delay_ms(5.0) > 0
