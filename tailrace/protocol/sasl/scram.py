"""SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password, and neither tells it.

    client → n,,n=user,r=NONCE
    server → r=NONCE+MORE,s=salt (base64),i=iterations
    client → c=biws,r=NONCE+MORE,p=proof (base64)
    server → v=signature (base64)          or e=error

As in Kafka, names and passwords are taken as UTF-8 without SASLprep, and channels are not bound. A server that asks for
fewer iterations than 4096 would learn the password too easily, one that asks for millions would keep us busy: neither
is believed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from enum import Enum, auto
from typing import Final

from tailrace.protocol.sasl.mechanism import SaslFailure

MECHANISM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 1_000_000

_GS2_HEADER: Final = "n,,"
_CHANNEL_BINDING: Final = "biws"
"""The header above in base64."""


class _Step(Enum):
    """What comes next from the server."""

    SERVER_FIRST = auto()
    SERVER_FINAL = auto()
    OVER = auto()


class ScramClient:
    """The client's side; `nonce` is printable without a comma, and never used twice."""

    def __init__(
        self, name: str, user: str, password: str, *, nonce: str, hash_name: str = "", extensions: str = ""
    ) -> None:
        self.name = name
        self._hash = hash_name or MECHANISM_HASHES[name]
        self._password = password.encode()
        self._nonce = nonce
        escaped = user.replace("=", "=3D").replace(",", "=2C")
        self._client_first = f"n={escaped},r={nonce}" + (f",{extensions}" if extensions else "")
        self._server_signature = b""
        self._step = _Step.SERVER_FIRST

    def first(self) -> bytes:
        """Say who we are."""
        return (_GS2_HEADER + self._client_first).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Prove that we know the password; then check that the server does."""
        step, self._step = self._step, _Step.OVER
        fields = _fields(challenge)
        if "e" in fields:
            raise SaslFailure(f"the server refuses: {fields['e']}")
        if step is _Step.SERVER_FIRST:
            self._step = _Step.SERVER_FINAL
            return self._prove(challenge.decode(), fields)
        if step is _Step.SERVER_FINAL:
            if not hmac.compare_digest(_decoded(fields, "v"), self._server_signature):
                raise SaslFailure("the server does not know the password either")
            return None
        raise SaslFailure("the server goes on after the end")

    def _prove(self, server_first: str, fields: dict[str, str]) -> bytes:
        nonce, salt = fields.get("r", ""), _decoded(fields, "s")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise SaslFailure("the server's nonce does not continue ours")
        if not fields.get("i", "").isdecimal() or not ITERATIONS_MIN <= int(fields["i"][:8]) <= ITERATIONS_MAX:
            raise SaslFailure(f"the server asks for {fields.get('i')!r} iterations, not {ITERATIONS_MIN} or more")
        salted = salted_password(self._hash, self._password, salt, int(fields["i"]))
        client_final = f"c={_CHANNEL_BINDING},r={nonce}"
        signed = f"{self._client_first},{server_first},{client_final}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = hmac.digest(stored_key, signed, self._hash)
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), signed, self._hash)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        return f"{client_final},p={base64.b64encode(proof).decode()}".encode()


def salted_password(hash_name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Derive what both sides know: RFC 5802's Hi."""
    return hashlib.pbkdf2_hmac(hash_name, password, salt, iterations)


def _fields(message: bytes) -> dict[str, str]:
    """Read `a=...,b=...`."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise SaslFailure("the server sent what is no text") from None
    fields: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key in fields:
            raise SaslFailure(f"the server sent what is no SCRAM message: {text!r}")
        fields[key] = value
    if "m" in fields:
        raise SaslFailure("the server asks for an extension that we do not know")
    return fields


def _decoded(fields: dict[str, str], key: str) -> bytes:
    try:
        return base64.b64decode(fields[key], validate=True)
    except (KeyError, binascii.Error):
        raise SaslFailure(f"the server sent no {key}= in base64") from None
