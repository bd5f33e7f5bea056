"""The exceptions of the protocol: bytes that are no message, and an answer that is an error code."""

from __future__ import annotations

from tailrace.protocol.error_codes import ErrorCode


class MalformedFrame(Exception):
    """Bytes that are not what their header says: the peer's fault, and the end of its connection."""


class ApiError(Exception):
    """An operation that ends in one of Kafka's error codes.

    `code` goes on the wire; the message, where the response has room for one, says what was wrong and with which value.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message or None

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name


class UnwritableMessage(ValueError):
    """A message of ours that the version asked for cannot carry: our own fault, never the peer's."""
