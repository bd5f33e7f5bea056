"""A broker's parts for tests of handlers: real logs in a directory, real metadata, a clock that the test turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, TypeVar

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker, Endpoint
from tailrace.broker.coordinators import Coordinators
from tailrace.broker.fetch_session import FetchSessionCache
from tailrace.broker.local_metadata_store import LocalMetadataStore
from tailrace.broker.metadata_store import BrokerRegistration, ConfigResource, NewTopic, TopicRegistration
from tailrace.broker.metrics import BrokerMetrics
from tailrace.broker.partition import Partition
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.broker.producer_ids import ProducerIds
from tailrace.broker.quotas import UnlimitedQuotas
from tailrace.broker.replica_manager import ReplicaManager
from tailrace.broker.request import ConnectionInfo, Parked, Request
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.protocol.schema import Message
from tailrace.protocol.uuid import random_uuid
from tailrace.settings.broker_config import BrokerConfig
from tailrace.storage.disk import Disk
from tailrace.storage.log_manager import LogManager
from tailrace.testing.virtual_clock import VirtualClock

M = TypeVar("M", bound=Message)

NODE_ID = 0
LISTENER = "PLAINTEXT"
CLUSTER_ID = "vRzvDd_PQ2mNUl3Hds0u7w"
CONNECTION = ConnectionInfo("127.0.0.1:9092-127.0.0.1:50000-0", LISTENER)


@dataclass
class SelectiveAuthorizer:
    """Allows everything but what was denied."""

    denied: set[tuple[AclOperation, ResourceType, str]] = field(default_factory=set)

    def deny(self, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        self.denied.add((operation, resource_type, name))

    def authorize(
        self, connection: ConnectionInfo, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        return (operation, resource_type, resource_name) not in self.denied


@dataclass
class Parts:
    """A broker without sockets, and what a test wants to do with it."""

    broker: Broker
    clock: VirtualClock
    metadata: LocalMetadataStore
    authorizer: SelectiveAuthorizer
    disk: Disk

    @property
    def manager(self) -> ReplicaManager:
        return self.broker.replica_manager

    def partition(self, topic: str, number: int = 0) -> Partition:
        return self.manager.partition(topic, number)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: Sequence[int] = (NODE_ID,),
        isr: Sequence[int] | None = None,
        **configs: str,
    ) -> TopicRegistration:
        """Create a topic that this broker leads; settings by keyword, `min_insync_replicas="2"`."""
        partition = PartitionRegistration(tuple(replicas), tuple(replicas if isr is None else isr), replicas[0])
        topic = TopicRegistration(name, random_uuid(), (partition,) * partitions)
        overrides = {key.replace("_", "."): value for key, value in configs.items()}
        assert await self.metadata.create_topics([NewTopic(topic, overrides)]) == [True]
        return topic

    async def configure_topic(self, name: str, **configs: str) -> None:
        resource = ConfigResource.topic(name)
        values = {key.replace("_", "."): value for key, value in configs.items()}
        await self.metadata.change_configs(resource, expected=self.metadata.configs(resource), values=values)

    async def change_partition(self, topic: str, number: int = 0, **changes: Any) -> None:
        """Change a partition's leadership, as a controller would."""
        present = self.metadata.partition(topic, number)
        assert present is not None
        successor = replace(present, partition_epoch=present.partition_epoch + 1, **changes)
        await self.metadata.change_partition(topic, number, successor)

    async def register_broker(self, node_id: int) -> None:
        endpoint = Endpoint(LISTENER, f"broker-{node_id}", 9092)
        await self.metadata.register_broker(BrokerRegistration(node_id, (endpoint,), rack=f"rack-{node_id}"))

    def request(self, body: M, version: int, *, client_id: str | None = "test") -> Request[M]:
        assert body.api_key is not None
        return Request(body.api_key, version, 1, client_id, body, CONNECTION, self.clock.monotonic(), 100)

    def handle(self, module: ModuleType, body: Message, version: int, *, client_id: str | None = "test") -> Any:
        """Call a handler; what it returns may be a response, or `Parked`, or a coroutine."""
        return module.handle(self.broker, self.request(body, version, client_id=client_id))

    def answer(self, module: ModuleType, body: Message, version: int, *, client_id: str | None = "test") -> Any:
        """Call a handler that answers at once."""
        result = self.handle(module, body, version, client_id=client_id)
        assert isinstance(result, Message), result
        return result


async def make_parts(
    folder: Path, *, texts: Mapping[str, str] | None = None, disk: Disk | None = None, clock: VirtualClock | None = None
) -> Parts:
    """Start a broker's parts on a folder, which may hold what an earlier one left."""
    disk = disk or Disk()
    clock = clock or VirtualClock()
    config = BrokerConfig({"log.dirs": str(folder), "node.id": str(NODE_ID), **(texts or {})})
    disk.make_directory(folder, sync=False)
    metadata = LocalMetadataStore.open(disk, folder, cluster_id=CLUSTER_ID, node_id=NODE_ID)
    metrics = BrokerMetrics()
    managers: list[ReplicaManager] = []
    log_manager = LogManager(
        [Path(directory) for directory in config.log_directories],
        config,
        clock,
        disk,
        on_directory_offline=lambda path, _: [manager.directory_offline(path) for manager in managers],
    )
    await log_manager.load_all()
    manager = ReplicaManager(
        node_id=NODE_ID, config=config, clock=clock, metadata=metadata, log_manager=log_manager, metrics=metrics
    )
    managers.append(manager)
    producer_ids = ProducerIds(disk, folder, clock)
    producer_ids.start(log_manager.logs.values())
    coordinators = Coordinators(manager, producer_ids)
    authorizer = SelectiveAuthorizer()
    broker = Broker(
        node_id=NODE_ID,
        cluster_id=CLUSTER_ID,
        config=config,
        clock=clock,
        metadata=metadata,
        log_manager=log_manager,
        replica_manager=manager,
        producer_ids=producer_ids,
        coordinators=coordinators,
        fetch_sessions=FetchSessionCache(
            clock, slots_max=config.max_incremental_fetch_session_cache_slots, random=Random(1)
        ),
        authorizer=authorizer,
        quotas=UnlimitedQuotas(),
        metrics=metrics,
    )
    parts = Parts(broker, clock, metadata, authorizer, disk)
    await parts.register_broker(NODE_ID)
    manager.start()
    coordinators.start()
    return parts


async def stop_parts(parts: Parts) -> None:
    await parts.broker.coordinators.stop()
    await parts.manager.stop()
    await parts.broker.producer_ids.stop()
    await parts.broker.log_manager.stop()


def abandon_parts(parts: Parts) -> None:
    """End as kill -9 does: nothing is written any more, only the lock is given back."""
    for directory in parts.broker.log_manager.directories:
        directory.release()
    with suppress(ApiError):
        parts.broker.log_manager.executor.shutdown()


def batch(*values: bytes, key: bytes | None = b"key", timestamp: int = 1_700_000_000_000, **options: Any) -> bytearray:
    """Make a record batch as a producer sends it."""
    records = [Record(index, timestamp + index, key, value) for index, value in enumerate(values)]
    return write_batch(records, **options)


def sole(response: ProduceResponse) -> PartitionProduceResponse:
    """Give the answer about the only partition."""
    ((answer,),) = [topic.partition_responses for topic in response.responses]
    return answer


def completed(parked: Any) -> Any:
    """Give the answer of a parked request that must have one by now."""
    assert isinstance(parked, Parked)
    assert parked.answer is not None, parked.error
    return parked.answer
