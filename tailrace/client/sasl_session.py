"""How long a broker believes who the client is, and what waits while it is told again (KIP-368).

A broker closes a connection that goes on after its session is over. So the first request after a good part of the
session begins an exchange; it and all that follow are held until the broker is convinced, and then sent in their order.
What was sent before is answered as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from tailrace.client.errors import AuthenticationFailed, ClientError, ConnectionLost
from tailrace.clock import Clock
from tailrace.protocol.schema import Message


@dataclass(slots=True)
class HeldRequest:
    """A request that is to be sent; `answer` is None where brokers do not answer it."""

    message: Message
    version: int
    response_class: type[Message]
    answer: asyncio.Future[Any] | None
    timeout_ms: int


class SaslSession:
    """One connection's session.

    `authenticate` goes through an exchange, and gives after how many milliseconds to do so again, 0 for never.
    """

    def __init__(
        self,
        clock: Clock,
        authenticate: Callable[[], Awaitable[float]],
        release: Callable[[HeldRequest], None],
        failed: Callable[[ClientError], None],
    ) -> None:
        self._clock = clock
        self._authenticate = authenticate
        self._release = release
        self._failed = failed
        self._due_at = inf
        self._held: list[HeldRequest] | None = None
        self._renewal: asyncio.Future[float] | None = None

    @property
    def held_count(self) -> int:
        """How many requests wait to be sent."""
        return 0 if self._held is None else len(self._held)

    async def begin(self) -> None:
        """Authenticate for the first time, before there is anything to hold."""
        self._believe(await self._authenticate())

    def is_holding(self) -> bool:
        """Whether requests are to be held; begins an exchange where one is due."""
        if self._held is None and self._clock.monotonic() >= self._due_at:
            self._due_at = inf
            self._held = []
            self._renewal = asyncio.ensure_future(self._authenticate())
            self._renewal.add_done_callback(self._renewed)
        return self._held is not None

    def hold(self, request: HeldRequest) -> None:
        """Keep a request until the broker is convinced."""
        assert self._held is not None, "requests are held only while the broker is told who we are"
        self._held.append(request)

    def close(self, error: ClientError) -> None:
        """Give up what is held: the connection has ended."""
        held, self._held = self._held, None
        self._due_at = inf
        if self._renewal is not None:
            self._renewal.cancel()
        kind = AuthenticationFailed if isinstance(error, AuthenticationFailed) else ConnectionLost
        for request in held or ():
            if request.answer is not None and not request.answer.done():
                request.answer.set_exception(kind(str(error)))

    def _renewed(self, renewal: asyncio.Future[float]) -> None:
        """Send what was held, or end the connection."""
        if renewal.cancelled():
            return
        error = renewal.exception()
        if isinstance(error, ClientError):
            self._failed(error)
        elif error is not None:
            failure = AuthenticationFailed(f"the broker could not be told again who the client is: {error!r}")
            failure.__cause__ = error
            self._failed(failure)
        else:
            self._believe(renewal.result())
            held, self._held = self._held, None
            for request in held or ():
                self._release(request)

    def _believe(self, lifetime_ms: float) -> None:
        self._due_at = self._clock.monotonic() + lifetime_ms / 1000 if lifetime_ms > 0 else inf
