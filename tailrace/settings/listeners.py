"""Where a broker listens and what it tells clients: the endpoints in `listeners` and `advertised.listeners`.

Reads `name://host:port` lists with the security protocol of each name, and holds Kafka's rules on them. Sockets and the
resolution of host names are the broker's affair.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tailrace.settings.config_error import ConfigError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ENDPOINT = re.compile(r"([^:/]+)://(?:\[([0-9A-Fa-f:.%\w]*)\]|([0-9A-Za-z\-%._]*)):([0-9]{1,5})")


class Endpoint(NamedTuple):
    """One listener. An empty host means every address; port 0 a free port."""

    name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """Read `listener.security.protocol.map`: the security protocol of each listener name."""
    protocols: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = (word.strip().upper() for word in part.rpartition(":"))
        if not name or protocol not in SECURITY_PROTOCOLS:
            expected = f"a list of name:protocol, with protocols from {', '.join(SECURITY_PROTOCOLS)}"
            raise ConfigError("listener.security.protocol.map", text, expected)
        protocols[name] = protocol
    return protocols


def parse_endpoints(key: str, text: str, protocols: dict[str, str]) -> tuple[Endpoint, ...]:
    """Read a list of endpoints; raises ConfigError for a malformed one, an unknown name, or a name given twice."""
    found: dict[str, Endpoint] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _ENDPOINT.fullmatch(part)
        if match is None or int(match[4]) > 65535:
            raise ConfigError(key, text, "a list of name://host:port, IPv6 addresses in brackets")
        name = match[1].upper()
        if name not in protocols:
            raise ConfigError(key, text, f"listener names that listener.security.protocol.map has, not {name}")
        if name in found:
            raise ConfigError(key, text, f"each listener name once, not {name} again")
        found[name] = Endpoint(name, protocols[name], match[2] or match[3] or "", int(match[4]))
    return tuple(found.values())


def check_ports(key: str, text: str, endpoints: tuple[Endpoint, ...]) -> None:
    """Raise ConfigError where two listeners take one port, unless one is for IPv4 and the other for IPv6."""
    used: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port:
            used.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in used.items():
        families = {_family(endpoint.host) for endpoint in sharing}
        if len(sharing) > 2 or (len(sharing) == 2 and families != {4, 6}):
            raise ConfigError(key, text, f"a port for each listener, not {port} for {len(sharing)} of them")


def _family(host: str) -> int:
    if ":" in host:
        return 6
    return 4 if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", host) else 0
