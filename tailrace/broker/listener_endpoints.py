"""From the endpoints in the settings to what is opened and what clients are told.

Pure: the settings have parsed and checked `listeners` and `advertised.listeners`; sockets are `listener.py`'s. Here is
which of them this version can open, and how an advertised endpoint without a host or a port is filled in.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.broker.broker import Endpoint
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.settings.listeners import Endpoint as ListenerEndpoint

WILDCARD_HOSTS = frozenset({"", "0.0.0.0", "::"})
"""Hosts that stand for every address of the machine."""


def endpoints_to_open(config: BrokerConfig) -> tuple[ListenerEndpoint, ...]:
    """Give the listeners for clients; ConfigError where there are none, or one this version does not speak."""
    endpoints = config.listener_endpoints
    if not endpoints:
        raise ConfigError("listeners", config.listeners, "at least one listener for clients, as PLAINTEXT://:9092")
    for endpoint in endpoints:
        if endpoint.security_protocol != "PLAINTEXT":
            protocol = endpoint.security_protocol
            raise ConfigError("listeners", endpoint, f"PLAINTEXT; this version does not speak {protocol}")
    return endpoints


def ignored_listeners(config: BrokerConfig) -> tuple[str, ...]:
    """Name the listeners that belong to a KRaft controller, which Tailrace does not have."""
    named = {text.strip().partition(":")[0].upper() for text in config.listeners.split(",")}
    return tuple(sorted(named - {endpoint.name for endpoint in config.listener_endpoints} - {""}))


def needs_canonical_host(config: BrokerConfig) -> bool:
    """Say whether the machine's own name has to be found, which may ask a name server."""
    return any(endpoint.host in WILDCARD_HOSTS for endpoint in config.advertised_endpoints)


def advertise(config: BrokerConfig, ports: Mapping[str, int], canonical_host: str) -> tuple[Endpoint, ...]:
    """Give what clients are told, now that the sockets are open: `ports` by listener name.

    `localhost` is told as 127.0.0.1: where it resolves to ::1 first, a client (librdkafka) might go there alone.
    """
    endpoints: list[Endpoint] = []
    for endpoint in config.advertised_endpoints:
        host = canonical_host if endpoint.host in WILDCARD_HOSTS else endpoint.host
        if host == "localhost" and config.advertised_listeners is None:
            host = "127.0.0.1"
        endpoints.append(Endpoint(endpoint.name, host, endpoint.port or ports[endpoint.name]))
    return tuple(endpoints)
