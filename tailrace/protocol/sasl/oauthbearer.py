r"""OAUTHBEARER (RFC 7628): a token from somewhere else says who the client is.

client → n,,\x01auth=Bearer TOKEN\x01key=value\x01...\x01
server → nothing                       or a JSON object with what is wrong, to which \x01 is the only answer
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, cast

from tailrace.protocol.sasl.mechanism import SaslFailure

_SEPARATOR: Final = "\x01"
_TOKEN = re.compile(r"[-_.~+/A-Za-z0-9]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")


class OauthBearerClient:
    """The client's side; `extensions` are Kafka's SASL extensions (KIP-342)."""

    name = "OAUTHBEARER"

    def __init__(self, token: str, *, authorization_id: str = "", extensions: Mapping[str, str] | None = None) -> None:
        if not _TOKEN.fullmatch(token):
            raise ValueError("a bearer token has letters, digits and -._~+/ only")
        pairs = [f"auth=Bearer {token}"]
        for name, value in (extensions or {}).items():
            if not _EXTENSION_NAME.fullmatch(name) or name == "auth" or not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"{name!r} cannot be a SASL extension")
            pairs.append(f"{name}={value}")
        escaped = authorization_id.replace("=", "=3D").replace(",", "=2C")
        header = f"n,a={escaped}," if authorization_id else "n,,"
        self._message = (header + _SEPARATOR + "".join(pair + _SEPARATOR for pair in pairs) + _SEPARATOR).encode()
        self._refusal = ""

    def first(self) -> bytes:
        """Show the token."""
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        """End the exchange; what the server says is why it refuses, and it wants that acknowledged."""
        if self._refusal:
            raise SaslFailure(f"the server does not take the token: {self._refusal}")
        if not challenge:
            return None
        self._refusal = _reason(challenge)
        return _SEPARATOR.encode()

    @property
    def refusal(self) -> str:
        """What the server said is wrong with the token; empty where it said nothing."""
        return self._refusal


def _reason(challenge: bytes) -> str:
    try:
        told = json.loads(challenge)
    except ValueError:
        return repr(challenge[:200])
    if not isinstance(told, dict):
        return repr(told)
    known = cast("dict[str, object]", told)
    return ", ".join(f"{key} {value}" for key, value in known.items()) or "no reason given"
