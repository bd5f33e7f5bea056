"""What every SASL mechanism has in common on the client's side, and how it fails."""

from __future__ import annotations

from typing import Protocol


class SaslFailure(Exception):
    """The exchange came to nothing: the server refused, or did not prove that it knows the secret, too."""


class ClientMechanism(Protocol):
    """One exchange from the client's side: `first`, then `answer` for each challenge until it gives None."""

    name: str

    def first(self) -> bytes:
        """Give what the client says first."""
        ...

    def answer(self, challenge: bytes) -> bytes | None:
        """Give the answer to a challenge, or None where the exchange is over; SaslFailure where it came to nothing."""
        ...
