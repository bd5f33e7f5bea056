"""A request on its way through the broker, and the kinds of answer a handler may give.

A handler is `handle(broker, request) -> Result`. It answers at once with a response message, or with `NO_RESPONSE`, or
with a `Parked` whose answer comes later while the connection goes on dispatching, or it is a coroutine function and the
connection waits for it. `CloseConnection` and `ApiError` are what it may raise.

How long a request's views live: `records` and other views of the frame stay valid until `handle` returns, and for a
coroutine until it ends (the connection reads nothing meanwhile). What a `Parked` operation keeps, it has to copy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from tailrace.protocol.schema import Message

M = TypeVar("M", bound=Message)

LOGGER = logging.getLogger(__name__)


class Principal(NamedTuple):
    """Who is at the other end; prints as Kafka writes it, `User:ANONYMOUS`."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


@dataclass(slots=True)
class ConnectionInfo:
    """What handlers may know of a connection.

    `id` is Kafka's: local address, peer's address and a number that tells apart a reused pair of ports. The client's
    software is its name and version, once ApiVersions told them (KIP-511).
    """

    id: str
    listener_name: str
    security_protocol: str = "PLAINTEXT"
    principal: Principal = ANONYMOUS
    peer_host: str = ""
    peer_port: int = 0
    client_software: tuple[str, str] | None = None


@dataclass(slots=True)
class Request(Generic[M]):
    """One request: its header, its decoded body and where it came from.

    `received_at` is the clock's monotonic time in seconds; `size_bytes` is the length of the frame.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: M
    connection: ConnectionInfo
    received_at: float
    size_bytes: int = 0


class NoResponse(Enum):
    """The type of `NO_RESPONSE`."""

    NO_RESPONSE = 0


NO_RESPONSE: Final = NoResponse.NO_RESPONSE
"""The answer to a produce request with acks=0: nothing is sent."""


class CloseConnection(Exception):
    """Raised by a handler, or given to `Parked.fail`: the connection closes; the reason goes to the log."""


Answer: TypeAlias = Message | NoResponse
"""What finally leaves: a response, or nothing."""


@dataclass(slots=True, eq=False)
class Parked:
    """An answer that comes later; the connection sends it in its turn and dispatches further requests meanwhile.

    Exactly one `complete` or `fail` counts. A second one is a bug of the caller and is said so in the log, because the
    client has its answer already and nothing can be mended by raising into whoever came second.
    """

    answer: Answer | None = None
    error: Exception | None = None
    _callbacks: tuple[Callable[[Parked], object], ...] = ()
    """Nearly always one: a tuple costs nothing until it comes, and a list of a named type 0.35 µs."""

    @property
    def is_done(self) -> bool:
        """Whether the answer, or the error, is there."""
        return self.answer is not None or self.error is not None

    def complete(self, answer: Answer) -> None:
        """Give the answer and tell those who wait."""
        if self.is_done:
            LOGGER.error("a parked request was completed twice; the second answer is dropped: %r", answer)
            return
        self.answer = answer
        self._tell()

    def fail(self, error: Exception) -> None:
        """End in an error: `ApiError` is answered with its code, `CloseConnection` closes, others are our own fault."""
        if self.is_done:
            LOGGER.error("a parked request failed after it had been completed", exc_info=error)
            return
        self.error = error
        self._tell()

    def result(self) -> Answer | Parked:
        """Give what a handler returns: the answer where it is there already, else itself; raises the error."""
        if self.error is not None:
            raise self.error
        return self if self.answer is None else self.answer

    def add_done_callback(self, callback: Callable[[Parked], object]) -> None:
        """Call `callback(self)` when the answer is there; at once if it is there already."""
        if self.is_done:
            callback(self)
        else:
            self._callbacks += (callback,)

    def _tell(self) -> None:
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(self)


ImmediateResult: TypeAlias = Message | NoResponse | Parked
Result: TypeAlias = ImmediateResult | Coroutine[Any, Any, ImmediateResult]
"""What `handle` returns."""
