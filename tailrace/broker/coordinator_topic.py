"""An internal topic as the home of a coordinator: which partition a key belongs to, and what is coordinated here.

The topic is made when somebody first needs it. For each of its partitions that this broker leads there is a
`CoordinatorLog` and a shard, loaded when leadership comes and given up when it goes. `shard(key)` gives the one that
answers for a key, or raises what the client is to be told: NOT_COORDINATOR where another broker answers,
COORDINATOR_LOAD_IN_PROGRESS until everything is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from tailrace.broker.coordinator_log import CoordinatorLog, CoordinatorShard, CoordinatorState
from tailrace.broker.java_hash import java_hash
from tailrace.broker.metadata_store import MetadataDelta, MetadataStore, TopicRegistration
from tailrace.broker.partition import Partition
from tailrace.broker.replica_manager import ReplicaManager
from tailrace.broker.topic_administration import automatic_topic, create_topics
from tailrace.protocol.coordinator.record_codec import RecordTable
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.compression import Compression
from tailrace.settings.broker_config import BrokerConfig

S = TypeVar("S", bound=CoordinatorShard)


@dataclass(frozen=True, slots=True)
class _Administration:
    """What making a topic needs of a broker."""

    config: BrokerConfig
    metadata: MetadataStore


@dataclass(slots=True)
class _Coordinated(Generic[S]):
    """One partition that is coordinated here."""

    log: CoordinatorLog
    shard: S


class CoordinatorTopic(Generic[S]):
    """See the module's docstring. `default_partitions` holds for as long as the topic does not exist."""

    def __init__(
        self,
        name: str,
        *,
        table: RecordTable,
        replica_manager: ReplicaManager,
        make_shard: Callable[[CoordinatorLog], S],
        default_partitions: int,
        timeout_ms: float,
        compression: Compression = Compression.NONE,
    ) -> None:
        self.name = name
        self._table = table
        self._manager = replica_manager
        self._metadata = replica_manager.metadata
        self._make_shard = make_shard
        self._default_partitions = default_partitions
        self._timeout_ms = timeout_ms
        self._compression = compression
        self._coordinated: dict[int, _Coordinated[S]] = {}
        self._to_load: list[_Coordinated[S]] = []
        self._loader: asyncio.Task[None] | None = None
        self._is_stopped = False

    # Life

    def start(self) -> None:
        """Take up the partitions led from here; call it when the replica manager has started."""
        self._metadata.subscribe(self._on_metadata)
        self._follow()

    async def stop(self) -> None:
        """Answer all who wait; nothing is coordinated here any more."""
        self._is_stopped = True
        for number in list(self._coordinated):
            self._resign(number)
        if self._loader is not None:
            self._loader.cancel()
            await asyncio.wait([self._loader])

    async def loaded(self) -> None:
        """Return when nothing is being loaded any more."""
        if self._loader is not None:
            await asyncio.wait([self._loader])

    async def ensure_created(self) -> None:
        """Make the topic where it is not there yet; ApiError where it can't be made now."""
        if self._metadata.topic(self.name) is not None:
            return
        administration = _Administration(self._manager.config, self._metadata)
        (outcome,) = await create_topics(administration, [automatic_topic(administration, self.name)])
        if isinstance(outcome, ApiError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise outcome

    # Looking up

    @property
    def exists(self) -> bool:
        """Whether the topic has been made."""
        return self._metadata.topic(self.name) is not None

    @property
    def is_loading(self) -> bool:
        """Whether some partition can't tell yet what it knows."""
        return any(entry.log.state is CoordinatorState.LOADING for entry in self._coordinated.values())

    @property
    def partition_count(self) -> int:
        """How many partitions share the keys."""
        topic = self._metadata.topic(self.name)
        return self._default_partitions if topic is None else len(topic.partitions)

    def partition_of(self, key: str) -> int:
        """Give the partition that a group id or a transactional id belongs to."""
        return abs(java_hash(key)) % self.partition_count

    def leader_of(self, key: str) -> int:
        """Give the broker that coordinates a key, or -1 while none does."""
        registration = self._metadata.partition(self.name, self.partition_of(key))
        return -1 if registration is None else registration.leader

    def shard(self, key: str) -> S:
        """Give the shard that answers for a key, or raise why none does."""
        return self.shard_of_partition(self.partition_of(key))

    def shard_of_partition(self, number: int) -> S:
        """Give the shard of a partition, or raise why there is none."""
        entry = self._coordinated.get(number)
        if entry is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        if entry.log.state is CoordinatorState.ACTIVE:
            return entry.shard
        if entry.log.state is CoordinatorState.LOADING:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    def shards(self) -> Iterator[S]:
        """Give every shard that is loaded."""
        return (entry.shard for entry in list(self._coordinated.values()) if entry.log.is_active)

    # Following leadership

    def _on_metadata(self, delta: MetadataDelta) -> None:
        if self._is_stopped:
            return
        if any(self._is_ours(topic) for topic in (*delta.created_topics, *delta.changed_topics, *delta.deleted_topics)):
            self._follow()

    def _is_ours(self, topic: TopicRegistration) -> bool:
        return topic.name == self.name

    def _follow(self) -> None:
        """Take up what is led from here now, and give up what is not."""
        topic = self._metadata.topic(self.name)
        led: dict[int, Partition] = {}
        for number in range(0 if topic is None else len(topic.partitions)):
            partition = self._manager.partitions.get((self.name, number))
            if partition is not None and partition.is_leader:
                led[number] = partition
        for number, entry in list(self._coordinated.items()):
            if led.get(number) is not entry.log.partition:
                self._resign(number)
        for number, partition in led.items():
            if number not in self._coordinated:
                self._take_up(number, partition)

    def _take_up(self, number: int, partition: Partition) -> None:
        log = CoordinatorLog(
            partition,
            table=self._table,
            replica_manager=self._manager,
            compression=self._compression,
            timeout_ms=self._timeout_ms,
        )
        entry = self._coordinated[number] = _Coordinated(log, self._make_shard(log))
        if log.is_empty:
            log.activate(entry.shard)
            return
        self._to_load.append(entry)
        if self._loader is None or self._loader.done():
            self._loader = asyncio.get_running_loop().create_task(self._load())

    async def _load(self) -> None:
        """Load one partition after the other: on one event loop several at once would only be ready later."""
        while self._to_load:
            entry = self._to_load.pop(0)
            await entry.log.load(entry.shard)

    def _resign(self, number: int) -> None:
        entry = self._coordinated.pop(number)
        entry.log.close()
        entry.shard.resign()
