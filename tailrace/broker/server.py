"""A whole broker: its parts made in their order, its ports opened, and all of it stopped in the reverse.

`BrokerServer(config, clock)`; `await start()` returns when clients are answered; `await stop()` finishes the requests
that wait, closes the connections behind their answers, and leaves logs that need no recovery. A start that fails has
stopped what it had begun before it raises one of `START_ERRORS`; a second `stop` has no effect.

What is not needed for the first answer (the metrics' HTTP server, handlers that nobody has asked for) comes after it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from pathlib import Path

from tailrace.broker.authorizer import AllowAllAuthorizer
from tailrace.broker.broker import Broker, Endpoint
from tailrace.broker.broker_identity import BrokerIdentity, ForeignDirectory, establish_identity, metadata_directory
from tailrace.broker.coordinators import MODULES, Coordinators
from tailrace.broker.dispatch import Dispatcher
from tailrace.broker.dynamic_config import effective_config, follow_dynamic_config
from tailrace.broker.fetch_session import FetchSessionCache
from tailrace.broker.listener import find_canonical_host
from tailrace.broker.listener_endpoints import advertise, needs_canonical_host
from tailrace.broker.local_metadata_store import LocalMetadataStore
from tailrace.broker.metadata_store import BrokerRegistration, ConfigResource, MetadataDelta
from tailrace.broker.metrics import BrokerMetrics
from tailrace.broker.metrics.http_server import MetricsServer
from tailrace.broker.metrics.snapshot import Snapshot, take_snapshot
from tailrace.broker.network import Network
from tailrace.broker.producer_ids import ProducerIds
from tailrace.broker.quotas import UnlimitedQuotas
from tailrace.broker.replica_manager import ReplicaManager
from tailrace.broker.topic_adoption import adopt_topics
from tailrace.clock import Clock, TimerHandle
from tailrace.protocol.api_keys import ApiKey
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.settings.log_config import LogConfig
from tailrace.storage.directory_lock import DirectoryInUse, lock_directory
from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.log_manager import LogManager

LOGGER = logging.getLogger(__name__)

START_ERRORS = (ConfigError, OSError, DiskError, DirectoryInUse, ForeignDirectory, ValueError)
"""What a start may raise where the surroundings are wrong; each says in one line what and where."""

DRAIN_TIMEOUT_MS = 5_000
"""How long a stop waits for requests that wait for something, before it answers that their time is over."""
ANSWER_TIMEOUT_MS = 1_000
"""How long it then waits for clients to take their answers."""
PRELOAD_DELAY_MS = 20
PRELOAD_STEP_MS = 1
PRELOADED_APIS = (ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.INIT_PRODUCER_ID)
"""Handlers that nearly every client needs; loaded shortly after the start, one a turn of the loop."""


class BrokerServer:
    """One broker in this process, on the running event loop."""

    def __init__(self, config: BrokerConfig, clock: Clock, *, disk: Disk | None = None) -> None:
        self.config = config
        self._clock = clock
        self._disk = disk or Disk()
        self._metrics = BrokerMetrics()
        self._network = Network(config, clock, self._metrics)
        self._metrics_server: MetricsServer | None = None
        self._stack = AsyncExitStack()
        self._broker: Broker | None = None
        self._preloading: TimerHandle | None = None

    @property
    def broker(self) -> Broker:
        """The parts of the running broker."""
        assert self._broker is not None, "the broker has not started"
        return self._broker

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener, as bound."""
        return self._network.ports

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """What clients are told to connect to."""
        return self.broker.advertised_endpoints

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Where `/metrics` is served, None where it is turned off."""
        return None if self._metrics_server is None else self._metrics_server.address

    async def start(self) -> None:
        """Start; returns when clients are answered."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop in good order."""
        await self._stack.aclose()

    async def _start(self) -> None:
        stack = self._stack
        self._open_ports()
        stack.callback(self._network.stop_accepting)
        canonical_host = asyncio.ensure_future(self._find_host())
        stack.push_async_callback(_settle, canonical_host)
        broker = self._broker = await self._make_broker()
        stack.push_async_callback(self._drain, broker)
        broker.advertised_endpoints = advertise(self.config, self._network.ports, await canonical_host)
        await broker.metadata.register_broker(
            BrokerRegistration(broker.node_id, broker.advertised_endpoints, self.config.broker_rack)
        )
        follow_dynamic_config(broker)
        broker.metadata.subscribe(self._on_metadata)
        dispatcher = Dispatcher(broker)
        self._network.start(dispatcher)
        if self._metrics_server is not None:
            self._metrics_server.start()
        stack.callback(self._stop_preloading)
        self._preload(preload_steps(dispatcher, broker.coordinators), PRELOAD_DELAY_MS)

    def _open_ports(self) -> None:
        """Bind all ports before anything else: one that is taken should be heard of before the logs are loaded."""
        self._stack.callback(self._network.stop_accepting)
        self._network.open()
        if self.config.tailrace_metrics_port >= 0:
            server = MetricsServer(self.config.tailrace_metrics_host, self.config.tailrace_metrics_port, self._snapshot)
            server.open()
            self._metrics_server = server
            self._stack.push_async_callback(server.stop)

    async def _make_broker(self) -> Broker:
        """Make the parts, each of which stops with the stack."""
        stack, clock, disk, metrics = self._stack, self._clock, self._disk, self._metrics
        log_manager = self._make_log_manager(self.config)
        log_manager.lock_directories()
        stack.push_async_callback(log_manager.stop)
        self._lock_metadata_directory(log_manager)
        identity = establish_identity(disk, self.config)
        metadata = self._open_metadata(identity)
        config = effective_config(self.config, metadata, identity.node_id)
        log_manager.config = config
        await adopt_topics(disk, metadata, config, identity.node_id)

        def log_config(topic: str) -> LogConfig:
            return LogConfig.from_overrides(config, metadata.configs(ConfigResource.topic(topic)))

        await log_manager.load_all(log_config)
        replica_manager = ReplicaManager(
            node_id=identity.node_id,
            config=config,
            clock=clock,
            metadata=metadata,
            log_manager=log_manager,
            metrics=metrics,
        )
        stack.push_async_callback(replica_manager.stop)
        replica_manager.start()
        producer_ids = ProducerIds(disk, metadata_directory(config), clock)
        producer_ids.start(log_manager.logs.values())
        stack.push_async_callback(producer_ids.stop)
        coordinators = Coordinators(replica_manager, producer_ids)
        stack.push_async_callback(coordinators.stop)
        log_manager.start()
        return Broker(
            node_id=identity.node_id,
            cluster_id=identity.cluster_id,
            config=config,
            clock=clock,
            metadata=metadata,
            log_manager=log_manager,
            replica_manager=replica_manager,
            producer_ids=producer_ids,
            coordinators=coordinators,
            fetch_sessions=FetchSessionCache(clock, slots_max=config.max_incremental_fetch_session_cache_slots),
            authorizer=AllowAllAuthorizer(),
            quotas=UnlimitedQuotas(),
            metrics=metrics,
        )

    def _make_log_manager(self, config: BrokerConfig) -> LogManager:
        """Make the log manager; what it tells from its threads is taken up on the event loop."""
        loop = asyncio.get_running_loop()
        observe = self._metrics.log_flush_time.observe
        return LogManager(
            [Path(directory) for directory in config.log_directories],
            config,
            self._clock,
            self._disk,
            on_directory_offline=self._directory_failed,
            on_flush=lambda seconds: loop.call_soon_threadsafe(observe, seconds * 1000),
        )

    def _lock_metadata_directory(self, log_manager: LogManager) -> None:
        """Keep other brokers out of a metadata directory that is none of the log directories."""
        directory = metadata_directory(self.config)
        if directory not in [known.path for known in log_manager.directories]:
            self._disk.make_directory(directory)
            lock = lock_directory(self._disk, directory)
            self._stack.callback(lock.release)

    def _open_metadata(self, identity: BrokerIdentity) -> LocalMetadataStore:
        directory = metadata_directory(self.config)
        return LocalMetadataStore.open(self._disk, directory, cluster_id=identity.cluster_id, node_id=identity.node_id)

    async def _find_host(self) -> str:
        return await find_canonical_host() if needs_canonical_host(self.config) else ""

    def _snapshot(self) -> Snapshot:
        return take_snapshot(self.broker, self._network.memory.used)

    def _directory_failed(self, path: Path, reason: str) -> None:
        """Answer those who wait for a directory that went offline; may be called from a thread."""
        if self._broker is not None:
            self._broker.replica_manager.directory_offline(path)

    def _on_metadata(self, delta: MetadataDelta) -> None:
        """Follow dynamic limits on connections; `broker.config` has them already."""
        if delta.changed_configs:
            self._network.reconfigure(self.broker.config)

    def _preload(self, steps: list[Callable[[], object]], delay_ms: float) -> None:
        """Load the next module when the loop has had time for clients."""

        def load_next() -> None:
            steps[0]()
            self._preload(steps[1:], PRELOAD_STEP_MS)

        if steps:
            self._preloading = self._clock.call_later(delay_ms, load_next)

    def _stop_preloading(self) -> None:
        if self._preloading is not None:
            self._preloading.cancel()

    async def _drain(self, broker: Broker) -> None:
        """Answer what waits: fetches now, produce requests when their records are safe or their time is over."""
        network = self._network
        network.stop_accepting()
        network.begin_drain()
        broker.replica_manager.fetch_purgatory.expire_all()
        await broker.coordinators.stop_groups()
        if not await network.drained(DRAIN_TIMEOUT_MS):
            await broker.replica_manager.stop()
            await network.drained(ANSWER_TIMEOUT_MS)
        network.abort()


def preload_steps(dispatcher: Dispatcher, coordinators: Coordinators) -> list[Callable[[], object]]:
    """Give what is loaded behind the start: handlers, and the coordinators with what they have written down."""
    steps: list[Callable[[], object]] = [partial(dispatcher.preload, [key]) for key in PRELOADED_APIS]
    steps += [partial(import_module, name) for name in MODULES]
    return [*steps, coordinators.start]


async def _settle(future: asyncio.Future[str]) -> None:
    """Leave no task behind that a failed start no longer waits for."""
    future.cancel()
    await asyncio.wait([future])
