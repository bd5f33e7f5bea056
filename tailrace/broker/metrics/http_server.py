"""Serves `/metrics` on a port of its own.

The port is bound at once, so that a start can say where it is; prometheus-client and the HTTP server are imported on
the server's thread after that, because they would cost a start a third of its time. The thread asks the event loop for
a snapshot and waits for it: reading a broker's numbers from outside the loop would meet dictionaries that change.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

from tailrace.broker.metrics.snapshot import Snapshot

LOGGER = logging.getLogger(__name__)

BACKLOG = 16
SNAPSHOT_TIMEOUT_S = 10.0
"""How long a scrape waits for the event loop; Prometheus itself gives up after ten seconds."""


class MetricsServer:
    """One HTTP server on one thread; scrapes are answered on threads of their own."""

    def __init__(self, host: str, port: int, take: Callable[[], Snapshot]) -> None:
        self._host = host
        self._port = port
        self._take = take
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        assert self._socket is not None, "it is not open"
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def open(self) -> None:
        """Bind the port; scrapers that come before `start` wait."""
        family = socket.AF_INET6 if ":" in self._host or not self._host else socket.AF_INET
        opened = self._bind(family)
        opened.listen(BACKLOG)
        self._socket = opened

    def start(self) -> None:
        """Answer scrapes from now on; call it on the event loop whose state is told."""
        assert self._socket is not None, "open comes first"
        loop = asyncio.get_running_loop()
        # A daemon: a scrape that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._serve, args=(self._socket, loop), name="metrics", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Close the port and wait for the thread."""
        self._is_stopping = True
        if self._socket is not None:
            if self._thread is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a scrape
                except OSError as error:
                    LOGGER.debug("the metrics port was closed before: %s", error)
                await asyncio.to_thread(self._thread.join, SNAPSHOT_TIMEOUT_S)
            self._socket.close()
            self._socket = None

    def _bind(self, family: socket.AddressFamily) -> socket.socket:
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # an empty host is both families
            opened.bind((self._host, self._port))
        except OSError as error:
            opened.close()
            if error.errno == errno.EAFNOSUPPORT and not self._host:
                return self._bind(socket.AF_INET)
            where = f"{self._host}:{self._port}"
            raise OSError(error.errno, f"can't serve metrics on {where}: {error.strerror or error}") from error
        return opened

    def _serve(self, listening: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        """Answer scrapes until the socket is shut down; runs on the server's thread."""
        try:
            server = _make_http_server(listening, lambda: self._take_on(loop))
            while not self._is_stopping:
                server.handle_request()
        except Exception:
            LOGGER.exception("metrics are not served any more")

    def _take_on(self, loop: asyncio.AbstractEventLoop) -> Snapshot:
        """Have a snapshot taken on the event loop and wait for it."""
        result: Future[Snapshot] = Future()

        def take() -> None:
            try:
                result.set_result(self._take())
            except Exception as error:
                LOGGER.exception("no snapshot for a scrape")
                result.set_exception(error)

        loop.call_soon_threadsafe(take)
        return result.result(SNAPSHOT_TIMEOUT_S)


def _make_http_server(listening: socket.socket, take: Callable[[], Snapshot]) -> Any:
    """Import what it takes, and make a WSGI server on the bound socket."""
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    from prometheus_client import (
        CollectorRegistry,
        ProcessCollector,
        make_wsgi_app,  # pyright: ignore[reportUnknownVariableType]
    )

    from tailrace.broker.metrics.collector import BrokerCollector

    class ThreadingWsgiServer(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class QuietHandler(WSGIRequestHandler):
        timeout = SNAPSHOT_TIMEOUT_S

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
            LOGGER.debug(format, *args)

    registry = CollectorRegistry()
    registry.register(BrokerCollector(take))
    ProcessCollector(registry=registry)
    server = ThreadingWsgiServer(listening.getsockname()[:2], QuietHandler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.server_name, server.server_port = "tailrace", listening.getsockname()[1]
    server.setup_environ()
    server.set_app(cast("Any", make_wsgi_app(registry)))
    return server
