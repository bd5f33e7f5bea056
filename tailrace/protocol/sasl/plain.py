r"""PLAIN (RFC 4616): user and password as they are, so for encrypted connections only.

authorization id \0 user \0 password        all UTF-8; Kafka takes no other authorization id than none or the user
"""

from __future__ import annotations

from tailrace.protocol.sasl.mechanism import SaslFailure


class PlainClient:
    """The client's side."""

    name = "PLAIN"

    def __init__(self, user: str, password: str, *, authorization_id: str = "") -> None:
        for part in (user, password, authorization_id):
            if "\0" in part:
                raise ValueError("PLAIN cannot carry a user or a password with a zero byte in it")
        self._message = f"{authorization_id}\0{user}\0{password}".encode()

    def first(self) -> bytes:
        """Give user and password."""
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        """End the exchange: the server has nothing to say."""
        if challenge:
            raise SaslFailure("the server sent a challenge, which PLAIN does not have")
        return None
