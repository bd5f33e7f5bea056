"""The client of a Spark process: one event loop on a thread of its own, and one set of connections for each cluster.

Spark calls a data source from ordinary functions, in processes that live for many tasks. Whoever asks for the client
of the same settings gets the same one, so a worker's later tasks find its connections open; they are closed when they
were idle for connections.max.idle.ms, because Spark does not say when a worker will get no more tasks. A process that
was forked begins anew.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

import uvloop

from tailrace.client.cluster import Cluster
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ClientConfig

T = TypeVar("T")

_CLOSE_TIMEOUT_S: Final = 2.0


class ClusterClient:
    """A cluster's client that ordinary functions can use."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.cluster = Cluster(config, name="tailrace-spark")
        self.bytes_per_offset: dict[TopicPartition, float] = {}
        """What an offset took so far, by partition: a fetch near the end of a range asks for no more than it needs."""
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="tailrace-spark", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the client's loop, and give what it gives."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether the client's thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Close the connections and end the thread."""
        if self.is_alive:
            closing = asyncio.run_coroutine_threadsafe(self.cluster.close(), self.loop)
            closing.add_done_callback(lambda _: self.loop.call_soon_threadsafe(self.loop.stop))
            self._thread.join(_CLOSE_TIMEOUT_S)


_Key = tuple[int, type[ClientConfig], tuple[tuple[str, str], ...]]
_clients: dict[_Key, ClusterClient] = {}
_lock = threading.Lock()


def client_of(settings: Mapping[str, str], config_class: type[ClientConfig]) -> ClusterClient:
    """Give this process's client for these settings."""
    key = (os.getpid(), config_class, tuple(sorted(settings.items())))
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = ClusterClient(config_class(settings))
            atexit.register(client.close)
        return client
