"""The connections of one client: one to each broker and lane, opened once for all who ask, and not too often.

A broker that could not be reached is left alone for a while, which doubles (reconnect.backoff.ms), and each attempt has
longer than the one before (socket.connection.setup.timeout.ms). A connection that nothing is sent on is closed when it
was idle for connections.max.idle.ms; it is looked at that often, so it may take twice that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from tailrace.client.address import Address
from tailrace.client.connection import Authenticate, Connection, ConnectionSettings
from tailrace.client.deadline import JITTER
from tailrace.client.errors import ClientError, ConnectionLost
from tailrace.client.stream import OpenStream, SocketOpener
from tailrace.clock import Clock, TimerHandle
from tailrace.settings.client_config import ClientConfig

if TYPE_CHECKING:
    from tailrace.client.oauth import TokenProvider

_DOUBLINGS_MAX: Final = 20


@dataclass(slots=True)
class _Link:
    """One way to one broker."""

    address: Address
    connection: Connection | None = None
    opening: asyncio.Task[Connection] | None = None
    failures_count: int = 0
    not_before: float = 0.0
    idle_timer: TimerHandle | None = None
    requests_count: int = -1
    """How many requests the connection had sent when it was last looked at."""


class Links:
    """Opens, keeps and closes connections; `changed` is called when one was opened or could not be."""

    def __init__(
        self,
        config: ClientConfig,
        client_id: str,
        clock: Clock,
        random: Random,
        connect: OpenStream | None,
        changed: Callable[[], None],
        token_provider: TokenProvider | None = None,
    ) -> None:
        self._config = config
        self._client_id = client_id
        self._clock = clock
        self._random = random
        self._connect: OpenStream = connect or _make_opener(config)
        self._authenticate: Authenticate | None = None
        if config.is_authenticated:
            # What TLS and SASL need is imported where they are used: the command line starts sooner without.
            from tailrace.client.authentication import make_authenticator

            self._authenticate = make_authenticator(config, clock, random, token_provider)
        self._changed = changed
        self._links: dict[tuple[Address, str], _Link] = {}

    async def close(self) -> None:
        """Close every connection, and give up those that are being opened."""
        links = list(self._links.values())
        self._links.clear()
        opening = [link.opening for link in links if link.opening is not None]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for link in links:
            if link.idle_timer is not None:
                link.idle_timer.cancel()
            if link.connection is not None:
                link.connection.close()

    def close_lane(self, lane: str) -> None:
        """Close the connections of a lane that nobody needs any more."""
        for key in [key for key in self._links if key[1] == lane]:
            link = self._links.pop(key)
            if link.idle_timer is not None:
                link.idle_timer.cancel()
            if link.opening is not None:
                link.opening.cancel()
            if link.connection is not None:
                link.connection.close()

    def open_connection(self, address: Address, lane: str = "") -> Connection | None:
        """Give the connection where there is one, and begin to open it where there is none."""
        link = self._link(address, lane)
        if link.connection is not None and link.connection.is_open:
            return link.connection
        self._open(link)
        return None

    async def connection_to(self, address: Address, lane: str = "") -> Connection:
        """Give the connection, opening it where there is none; a ClientError says why it could not be opened."""
        link = self._link(address, lane)
        if link.connection is not None and link.connection.is_open:
            return link.connection
        opening = self._open(link)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            # Closing gives up what is being opened. Who waits for it is not cancelled by that, but told.
            task = asyncio.current_task()
            if opening.cancelled() and not (task is not None and task.cancelling()):
                raise ConnectionLost(f"the client was closed while it connected to {address}") from None
            raise

    def least_loaded(self) -> Connection | None:
        """Give the open connection with the fewest requests in flight, of those that share the brokers' main lane."""
        best: Connection | None = None
        for (_, lane), link in self._links.items():
            connection = link.connection
            if connection is None or not connection.is_open or lane:
                continue
            if best is None or connection.in_flight_count < best.in_flight_count:
                best = connection
        return best

    def in_order_of_hope(self, addresses: Iterable[Address]) -> list[Address]:
        """Sort addresses by when they may be tried, those first that did not fail."""
        return sorted(addresses, key=lambda address: self._link(address, "").not_before)

    def _link(self, address: Address, lane: str) -> _Link:
        link = self._links.get((address, lane))
        if link is None:
            link = self._links[address, lane] = _Link(address)
        return link

    def _open(self, link: _Link) -> asyncio.Task[Connection]:
        if link.opening is None:
            link.opening = asyncio.create_task(self._attempt(link))
            link.opening.add_done_callback(lambda task: self._opened(link, task))
        return link.opening

    async def _attempt(self, link: _Link) -> Connection:
        pause_ms = (link.not_before - self._clock.monotonic()) * 1000
        if pause_ms > 0:
            await self._clock.sleep(pause_ms)
        config = self._config
        longest = config.socket_connection_setup_timeout_max_ms
        doubled = config.socket_connection_setup_timeout_ms * 2 ** min(link.failures_count, _DOUBLINGS_MAX)
        settings = ConnectionSettings(
            client_id=self._client_id,
            request_timeout_ms=config.request_timeout_ms,
            setup_timeout_ms=min(doubled, longest),
        )
        return await Connection.open(
            link.address,
            settings=settings,
            clock=self._clock,
            connect=self._connect,
            authenticate=self._authenticate,
        )

    def _opened(self, link: _Link, task: asyncio.Task[Connection]) -> None:
        link.opening = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            link.connection = task.result()
            link.failures_count, link.not_before, link.requests_count = 0, 0.0, -1
            self._watch_idleness(link)
        elif isinstance(error, ClientError):
            config = self._config
            doubled = config.reconnect_backoff_ms * 2 ** min(link.failures_count, _DOUBLINGS_MAX)
            pause_ms = min(doubled, config.reconnect_backoff_max_ms) * self._random.uniform(1 - JITTER, 1 + JITTER)
            link.failures_count += 1
            link.not_before = self._clock.monotonic() + pause_ms / 1000
        self._changed()

    def _watch_idleness(self, link: _Link) -> None:
        """Look again when the connection can have been idle for too long."""
        idle_max_ms = self._config.connections_max_idle_ms
        connection = link.connection
        if link.idle_timer is not None:
            link.idle_timer.cancel()
            link.idle_timer = None
        if idle_max_ms < 0 or connection is None or not connection.is_open:
            return
        if connection.requests_count == link.requests_count and not connection.in_flight_count:
            connection.close()
            return
        link.requests_count = connection.requests_count
        link.idle_timer = self._clock.call_later(idle_max_ms, lambda: self._watch_idleness(link))


def _make_opener(config: ClientConfig) -> SocketOpener:
    tls = None
    if config.is_encrypted:
        from tailrace.client.tls import make_tls_context

        tls = make_tls_context(config)
    return SocketOpener(
        tls=tls, send_buffer_bytes=config.send_buffer_bytes, receive_buffer_bytes=config.receive_buffer_bytes
    )
