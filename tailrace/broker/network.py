"""All listeners of a broker, and what their connections share: dispatcher, limits, memory for waiting requests.

Opening comes in two steps: `open` binds, so that a port in use fails before any log is loaded; `start` accepts, when
the broker can answer. In between, connections wait in the kernel's backlog. `drain` ends in good order: nobody new,
no request is begun, those that wait are answered, and each connection closes behind its last answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from tailrace.broker.busy_poll import BusyPoll
from tailrace.broker.connection import Connection, ConnectionSettings
from tailrace.broker.connection_limits import ConnectionLimits, RequestMemory
from tailrace.broker.dispatch import Dispatcher
from tailrace.broker.listener import Listener, SocketSettings, resolve_ip_overrides
from tailrace.broker.listener_endpoints import endpoints_to_open, ignored_listeners
from tailrace.broker.metrics import BrokerMetrics
from tailrace.clock import Clock, TimerHandle
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.broker_rules import parse_connection_overrides

LOGGER = logging.getLogger(__name__)

IDLE_CHECKS_PER_LIMIT = 4
"""An idle connection is closed at most a quarter of connections.max.idle.ms late."""
IDLE_CHECK_MS_MAX = 30_000


class Network:
    """The listeners of one broker."""

    def __init__(self, config: BrokerConfig, clock: Clock, metrics: BrokerMetrics) -> None:
        self.memory = RequestMemory(config.queued_max_request_bytes)
        self.listeners: list[Listener] = []
        self._clock = clock
        self._metrics = metrics
        self._config = config
        self._limits = ConnectionLimits(
            connections_max=config.max_connections,
            per_ip_max=config.max_connections_per_ip,
            per_ip_overrides=resolve_ip_overrides(parse_connection_overrides(config.max_connections_per_ip_overrides)),
            creation_rate_max=config.max_connection_creation_rate,
        )
        self._is_accepting = False
        self._idle_timer: TimerHandle | None = None
        self._all_closed: asyncio.Event | None = None

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener, as bound."""
        return {listener.endpoint.name: listener.port for listener in self.listeners}

    @property
    def connections(self) -> Iterator[Connection]:
        """Every open connection."""
        return (connection for listener in self.listeners for connection in tuple(listener.connections))

    def open(self) -> None:
        """Bind every listener; ConfigError or OSError says which one could not be."""
        config = self._config
        ignored = ignored_listeners(config)
        if ignored:
            LOGGER.info("listeners of the KRaft controller are not opened: %s", ", ".join(ignored))
        sockets = SocketSettings(
            backlog=config.socket_listen_backlog_size,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        )
        for endpoint in endpoints_to_open(config):
            listener = Listener(endpoint, sockets, self._limits, self._clock, self._on_slot_free)
            listener.open()
            self.listeners.append(listener)

    def start(self, dispatcher: Dispatcher) -> None:
        """Accept connections from now on."""
        config = self._config
        call_soon = asyncio.get_running_loop().call_soon
        busy_poll = BusyPoll(self._clock, call_soon, config.tailrace_busy_poll_max_us / 1_000_000)
        for listener in self.listeners:
            listener.serve(
                ConnectionSettings(
                    dispatcher=dispatcher,
                    clock=self._clock,
                    memory=self.memory,
                    busy_poll=busy_poll,
                    metrics=self._metrics.listener(listener.endpoint.name),
                    request_size_max=config.socket_request_max_bytes,
                    pending_count_max=config.queued_max_requests,
                )
            )
        self._is_accepting = True
        self._set_idle_timer()

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other limits; connections above a lower one stay open."""
        overrides = config.max_connections_per_ip_overrides
        if overrides != self._config.max_connections_per_ip_overrides:
            self._limits.per_ip_overrides = resolve_ip_overrides(parse_connection_overrides(overrides))
        self._limits.connections_max = config.max_connections
        self._limits.per_ip_max = config.max_connections_per_ip
        self._limits.creation_rate_max = config.max_connection_creation_rate
        self._config = config
        self._on_slot_free()

    def stop_accepting(self) -> None:
        """Close the listening sockets."""
        self._is_accepting = False
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        for listener in self.listeners:
            listener.close()

    def begin_drain(self) -> None:
        """Begin no further request; connections close behind the answers they wait for."""
        self._all_closed = asyncio.Event()
        for connection in self.connections:
            connection.drain()
        self._on_slot_free()

    async def drained(self, timeout_ms: float) -> bool:
        """Wait until every connection has closed, but not longer than `timeout_ms`; say whether they all have."""
        assert self._all_closed is not None, "begin_drain comes first"
        timer = self._clock.call_later(timeout_ms, self._all_closed.set)
        await self._all_closed.wait()
        timer.cancel()
        all_are_closed = self._limits.count == 0
        if not all_are_closed:
            self._all_closed.clear()
        return all_are_closed

    def abort(self) -> None:
        """Close what is still open, whatever waits."""
        for connection in self.connections:
            connection.abort("the broker stops")

    def _on_slot_free(self) -> None:
        if self._all_closed is not None and self._limits.count == 0:
            self._all_closed.set()
        if self._is_accepting and not self._limits.is_full:
            for listener in self.listeners:
                listener.start_accepting()

    def _set_idle_timer(self) -> None:
        idle_ms = self._config.connections_max_idle_ms
        if idle_ms > 0:
            self._idle_timer = self._clock.call_later(
                min(idle_ms / IDLE_CHECKS_PER_LIMIT, IDLE_CHECK_MS_MAX), self._close_idle
            )

    def _close_idle(self) -> None:
        """Close connections on which nothing moves; one that waits for an answer is not idle."""
        oldest = self._clock.monotonic() - self._config.connections_max_idle_ms / 1000
        for connection in self.connections:
            if connection.last_active < oldest and not connection.is_busy:
                connection.abort(f"idle for more than connections.max.idle.ms={self._config.connections_max_idle_ms}")
        self._set_idle_timer()
