"""A client's address as Java prints it, which is how groups show their members' hosts."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def client_host(peer_host: str) -> str:
    """Give `/127.0.0.1`, or `/0:0:0:0:0:0:0:1`: behind a slash, and IPv6 without its abbreviation."""
    try:
        address = ip_address(peer_host)
    except ValueError:
        return f"/{peer_host}"
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return f"/{address.ipv4_mapped}"
        scope = f"%{address.scope_id}" if address.scope_id else ""
        return "/" + ":".join(f"{int(group, 16):x}" for group in address.exploded.partition("%")[0].split(":")) + scope
    return f"/{address}"
