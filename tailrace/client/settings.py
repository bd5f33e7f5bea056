"""What a client can be told: addresses, limits and times, by Kafka's names with `_` for `.`, in Kafka's units.

Defaults are those of Kafka 4.1's Java clients, so that what people know of them holds here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What every client is told."""

    bootstrap_servers: tuple[Address, ...] = (Address("localhost", DEFAULT_PORT),)
    client_id: str = "tailrace"
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    default_api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    in_flight_requests_max: int = 64
    response_bytes_max: int = 256 * 1024 * 1024


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Read `host:port,host:port`; a port may be left out. ValueError says what is wrong with which one."""
    addresses = tuple(_parse_address(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise ValueError(f"no address in {text!r}; host:port is expected")
    return addresses


def _parse_address(text: str) -> Address:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} is no address; an IPv6 address is written [::1]:9092")
        port = rest[1:]
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    number = int(port) if port.isdecimal() else DEFAULT_PORT if not port else -1
    if not host or not 0 < number < 65536:
        raise ValueError(f"{text!r} is no address; host:port is expected, the port from 1 to 65535")
    return Address(host, number)
