"""Where brokers listen, as people write it: `host:port,host:port`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

DEFAULT_PORT = 9092


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(given: str | Iterable[str]) -> tuple[Address, ...]:
    """Read addresses; a port may be left out. ValueError says what is wrong with which one."""
    parts = given.split(",") if isinstance(given, str) else given
    addresses = tuple(_parse_address(part.strip()) for part in parts if part.strip())
    if not addresses:
        raise ValueError(f"no address in {given!r}; host:port is expected")
    return addresses


def _parse_address(text: str) -> Address:
    text = text.rpartition("://")[2]  # as in a broker's listeners: PLAINTEXT://host:port
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
