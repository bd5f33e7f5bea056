"""The sockets on which clients arrive.

A `Listener` opens one named endpoint: IPv4 and IPv6 both where the host is empty, a wildcard or `localhost`, on the
same port even where that is 0 and the system chooses. It accepts for as long as the broker takes connections; above
max.connections it stops accepting and the kernel's backlog holds the rest, as Kafka does, and an address that has too
many (max.connections.per.ip) is closed at once. `Connection` objects take over from there.

The machine's own name, for advertised listeners without a host, is found here too, because it asks a name server.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count

from tailrace.broker.connection import Connection, ConnectionSettings
from tailrace.broker.connection_limits import ConnectionLimits
from tailrace.broker.listener_endpoints import WILDCARD_HOSTS
from tailrace.broker.request import ConnectionInfo
from tailrace.clock import Clock
from tailrace.settings.listeners import Endpoint as ListenerEndpoint

LOGGER = logging.getLogger(__name__)

PORT_TRIES_MAX = 20
"""How often a free port is asked for until both families have the same one."""
ACCEPT_BATCH_MAX = 64
"""Connections accepted in one turn of the loop, so that a flood of them does not keep others waiting."""
ACCEPT_RETRY_MS = 100
"""How long accepting rests when the process is out of file descriptors."""
CANONICAL_HOST_TIMEOUT_S = 1.0

_NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """Kernel settings of listening and accepted sockets; buffer sizes of -1 are the system's."""

    backlog: int
    send_buffer_bytes: int
    receive_buffer_bytes: int


class Listener:
    """One named endpoint and the connections that came through it."""

    def __init__(
        self,
        endpoint: ListenerEndpoint,
        socket_settings: SocketSettings,
        limits: ConnectionLimits,
        clock: Clock,
        on_slot_free: Callable[[], object],
    ) -> None:
        self.endpoint = endpoint
        self.port = endpoint.port
        self.connections: set[Connection] = set()
        self._socket_settings = socket_settings
        self._connection_settings: ConnectionSettings | None = None
        self._limits = limits
        self._clock = clock
        self._on_slot_free = on_slot_free
        self._sockets: list[socket.socket] = []
        self._accepting = False
        self._numbers = count()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where it listens, as the system says."""
        return [opened.getsockname()[:2] for opened in self._sockets]

    def open(self) -> None:
        """Bind and listen; OSError says where that failed. Nothing is accepted yet."""
        self._sockets = _bind(self.endpoint, self._socket_settings)
        self.port = self._sockets[0].getsockname()[1]

    def serve(self, connection_settings: ConnectionSettings) -> None:
        """Accept connections from now on, and have them served so."""
        self._connection_settings = connection_settings
        self.start_accepting()

    def start_accepting(self) -> None:
        """Go on accepting; without effect before `serve` and after `close`."""
        if not self._accepting and self._sockets and self._connection_settings is not None:
            self._accepting = True
            loop = asyncio.get_running_loop()
            for opened in self._sockets:
                loop.add_reader(opened.fileno(), self._accept, opened)

    def stop_accepting(self) -> None:
        """Leave new connections in the kernel's backlog."""
        if self._accepting:
            self._accepting = False
            loop = asyncio.get_running_loop()
            for opened in self._sockets:
                loop.remove_reader(opened.fileno())

    def close(self) -> None:
        """Stop listening; connections that are open stay."""
        self.stop_accepting()
        for opened in self._sockets:
            opened.close()
        self._sockets.clear()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPT_BATCH_MAX):
            if self._limits.is_full:
                LOGGER.warning("max.connections is reached: %s accepts nobody until one leaves", self.endpoint)
                self.stop_accepting()
                return
            delay_ms = self._limits.creation_delay_ms(self._clock.monotonic())
            if delay_ms > 0:
                self._rest(delay_ms)
                return
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                LOGGER.error("%s can't accept a connection: %s; it tries again soon", self.endpoint, error)
                self._rest(ACCEPT_RETRY_MS)
                return
            self._admit(accepted, str(address[0]), int(address[1]))

    def _rest(self, delay_ms: float) -> None:
        self.stop_accepting()
        self._clock.call_later(delay_ms, self._on_slot_free)

    def _admit(self, accepted: socket.socket, host: str, port: int) -> None:
        settings = self._connection_settings
        assert settings is not None, "nobody is accepted before serve"
        metrics = settings.metrics
        if not self._limits.try_open(host):
            LOGGER.info("a connection from %s is refused: max.connections.per.ip is reached", host)
            metrics.rejected += 1
            accepted.close()
            return
        metrics.created += 1
        metrics.open += 1
        local = accepted.getsockname()
        info = ConnectionInfo(
            id=f"{local[0]}:{local[1]}-{host}:{port}-{next(self._numbers)}",
            listener_name=self.endpoint.name,
            security_protocol=self.endpoint.security_protocol,
            peer_host=host,
            peer_port=port,
        )
        task = asyncio.get_running_loop().create_task(
            self._connect(accepted, Connection(settings, info, self._on_closed))
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, accepted: socket.socket, connection: Connection) -> None:
        self.connections.add(connection)
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._socket_settings.send_buffer_bytes >= 0:
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._socket_settings.send_buffer_bytes)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            LOGGER.info("connection %s was lost before it began: %s", connection.info.id, error)
            accepted.close()
            self._on_closed(connection)

    def _on_closed(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
            connection.settings.metrics.open -= 1
            connection.settings.metrics.closed += 1
            connection.settings.dispatcher.forget(connection.info)
            self._limits.close(connection.info.peer_host)
            self._on_slot_free()


def _bind(endpoint: ListenerEndpoint, settings: SocketSettings) -> list[socket.socket]:
    """Open the endpoint's sockets, all on one port."""
    for _ in range(PORT_TRIES_MAX):
        opened: list[socket.socket] = []
        port = endpoint.port
        try:
            for family, host in _addresses(endpoint):
                try:
                    opened.append(_listen(family, host, port, settings))
                except OSError as error:
                    if error.errno in _NO_SUCH_FAMILY and opened:
                        LOGGER.info("%s does not listen on %s: %s", endpoint, host, error)
                        continue
                    raise
                port = opened[0].getsockname()[1]
        except OSError as error:
            for one in opened:
                one.close()
            if error.errno == errno.EADDRINUSE and endpoint.port == 0:
                continue  # the port that is free for one family is taken in the other: ask for another one
            raise OSError(error.errno, f"can't listen on {endpoint}: {error.strerror or error}") from error
        return opened
    raise OSError(errno.EADDRINUSE, f"no port for {endpoint} is free in both families after {PORT_TRIES_MAX} tries")


def _addresses(endpoint: ListenerEndpoint) -> list[tuple[socket.AddressFamily, str]]:
    """Give what to bind, IPv4 first; only the first has to succeed where the system lacks the other family."""
    if endpoint.host in WILDCARD_HOSTS:
        return [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")]
    if endpoint.host == "localhost":
        return [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
    found = socket.getaddrinfo(endpoint.host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    unique = dict.fromkeys((socket.AddressFamily(family), str(address[0])) for family, _, _, _, address in found)
    return sorted(unique)


def _listen(family: socket.AddressFamily, host: str, port: int, settings: SocketSettings) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if settings.receive_buffer_bytes >= 0:
            # Set before listening: only then do accepted sockets begin with a window of this size.
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        opened.bind((host, port))
        opened.listen(settings.backlog)
    except OSError:
        opened.close()
        raise
    return opened


def resolve_ip_overrides(overrides: Mapping[str, int]) -> dict[str, int]:
    """Put addresses in place of host names; a name that does not resolve is named in the log and left out."""
    resolved: dict[str, int] = {}
    for host, limit in overrides.items():
        try:
            for _, _, _, _, address in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM):
                resolved[str(address[0])] = limit
        except OSError as error:
            LOGGER.error("max.connections.per.ip.overrides: %s does not resolve: %s", host, error)
    return resolved


async def find_canonical_host() -> str:
    """Give a name or an address by which this machine is reached, as Kafka advertises where no host is set.

    The full name counts only if it resolves; else the address that outgoing packets carry, else loopback. A name server
    that does not answer costs a second at most.
    """
    loop = asyncio.get_running_loop()
    try:
        return await asyncio.wait_for(loop.run_in_executor(None, _resolved_name), CANONICAL_HOST_TIMEOUT_S)
    except (OSError, TimeoutError) as error:
        address = _outgoing_address()
        LOGGER.info("this machine's name does not resolve (%s): clients are told %s", error, address)
        return address


def _resolved_name() -> str:
    name = socket.getfqdn()
    socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return name


def _outgoing_address() -> str:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # a documentation address: no packet is sent, the kernel only picks a route
        return str(probe.getsockname()[0])
    return "127.0.0.1"
