"""What a client knows of a cluster, and the connections it has to it.

Lives here: bootstrap, metadata and its age, one connection to each broker, who leads a partition, and trying again with
backoff what may succeed later. Everything above (admin, producer, consumer) says what to ask and whom, and how often it
is tried is settled here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable
from random import Random
from typing import TypeVar

from tailrace.client.connection import Connection
from tailrace.client.deadline import Backoff
from tailrace.client.errors import (
    ClientError,
    NoBrokerAvailable,
    calls_for_metadata,
    error_of,
    is_retriable,
)
from tailrace.client.metadata import ClusterMetadata, Leader, TopicMetadata, read_metadata
from tailrace.client.settings import Address, ClientSettings
from tailrace.client.stream import OpenStream, open_stream
from tailrace.clock import Clock, SystemClock
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tailrace.protocol.topic_partition import TopicPartition

T = TypeVar("T")


class Cluster:
    """A cluster as one client sees it; close it to close its connections."""

    def __init__(
        self,
        settings: ClientSettings,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        connect: OpenStream = open_stream,
    ) -> None:
        self.settings = settings
        self.clock: Clock = SystemClock() if clock is None else clock
        self._random = Random() if random is None else random  # spreads retries; nothing secret depends on it
        self._connect = connect
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Task[Connection]] = {}
        self._metadata = ClusterMetadata()
        self._refreshed_at: dict[str, float] = {}
        self._is_stale = True

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    @property
    def known(self) -> ClusterMetadata:
        """What is known now, however old."""
        return self._metadata

    def expire_metadata(self) -> None:
        """Have metadata asked for anew before it is used next."""
        self._is_stale = True

    async def retrying(
        self,
        what: str,
        attempt: Callable[[], Awaitable[T]],
        *,
        timeout_ms: int | None = None,
        final: Container[ErrorCode] = (),
    ) -> T:
        """Run `attempt` until it succeeds, fails for good, or its time is over (OperationTimedOut).

        `final` are codes that would be tried again elsewhere: an unknown topic may be a producer's to come, but whoever
        describes it wants to know at once.
        """
        timeout_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        backoff = Backoff(self.clock, self.settings, self._random, timeout_ms=timeout_ms, what=what)
        while True:
            try:
                return await attempt()
            except (ApiError, ClientError) as error:
                if not is_retriable(error) or (isinstance(error, ApiError) and error.code in final):
                    raise
                if calls_for_metadata(error):
                    self.expire_metadata()
                await backoff.pause(error)

    async def metadata(
        self, topics: Iterable[str] | None = None, *, allow_auto_topic_creation: bool = False
    ) -> ClusterMetadata:
        """Ask for the metadata of some topics, or of all of them, in one attempt."""
        names = None if topics is None else list(topics)
        connection = await self.any_connection()
        wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        response = await connection.request(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=allow_auto_topic_creation), MetadataResponse
        )
        fresh = read_metadata(response)
        now = self.clock.monotonic()
        if self._is_stale:
            self._refreshed_at.clear()
        self._is_stale = False
        for name in fresh.topics:
            self._refreshed_at[name] = now
        self._metadata = self._metadata.updated(fresh, asked=names)
        return fresh

    def is_fresh(self, topic: str) -> bool:
        """Whether a topic is known, without an error, and not for too long."""
        refreshed_at = self._refreshed_at.get(topic)
        age_max = self.settings.metadata_max_age_ms / 1000
        if self._is_stale or refreshed_at is None or self.clock.monotonic() - refreshed_at > age_max:
            return False
        known = self._metadata.topics.get(topic)
        return known is not None and not known.error_code

    async def topic(self, name: str, *, allow_auto_topic_creation: bool = False) -> TopicMetadata:
        """Give what is known of a topic, asking where it is not known or too old; ApiError where it has an error."""
        if not self.is_fresh(name):
            await self.metadata([name], allow_auto_topic_creation=allow_auto_topic_creation)
        topic = self._metadata.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        error = error_of(topic.error_code, f"topic {name}")
        if error is not None:
            self._refreshed_at.pop(name, None)
            raise error
        return topic

    async def leader_of(self, topic_partition: TopicPartition, *, allow_auto_topic_creation: bool = False) -> Leader:
        """Say who leads a partition; a retriable ApiError where nobody does at the moment."""
        topic = await self.topic(topic_partition.topic, allow_auto_topic_creation=allow_auto_topic_creation)
        partition = topic.partitions.get(topic_partition.partition)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_partition}")
        if partition.leader_id not in self._metadata.nodes:
            self._refreshed_at.pop(topic_partition.topic, None)
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {topic_partition} has no leader")
        return Leader(partition.leader_id, partition.leader_epoch, topic.topic_id)

    def known_leader(self, topic_partition: TopicPartition) -> Leader | None:
        """Say who leads a partition as far as is known now; None where it has to be asked for."""
        if not self.is_fresh(topic_partition.topic):
            return None
        topic = self._metadata.topics[topic_partition.topic]
        partition = topic.partitions.get(topic_partition.partition)
        if partition is None or partition.leader_id not in self._metadata.nodes:
            return None
        return Leader(partition.leader_id, partition.leader_epoch, topic.topic_id)

    async def controller(self) -> Connection:
        """Give a connection to the controller, or to any broker where none is named."""
        if self._is_stale or not self._metadata.nodes:
            await self.metadata([])
        if self._metadata.controller_id in self._metadata.nodes:
            return await self.connection_to(self._metadata.controller_id)
        return await self.any_connection()

    async def connection_to(self, node_id: int) -> Connection:
        """Give the connection to a broker, opening it where there is none."""
        node = self._metadata.nodes.get(node_id)
        if node is None:
            raise NoBrokerAvailable(f"broker {node_id} is not in the cluster's metadata")
        return await self._open(node.address)

    async def any_connection(self) -> Connection:
        """Give a connection to some broker: an open one, else to one that is known, else by the bootstrap addresses."""
        for connection in self._connections.values():
            if connection.is_open:
                return connection
        known = [node.address for node in self._metadata.nodes.values()]
        failures: list[str] = []
        for address in dict.fromkeys([*known, *self.settings.bootstrap_servers]):
            try:
                return await self._open(address)
            except ClientError as error:
                failures.append(str(error))
        raise NoBrokerAvailable("; ".join(failures))

    async def _open(self, address: Address) -> Connection:
        """Open a connection once, for all who ask for it at the same time."""
        connection = self._connections.get(address)
        if connection is not None and connection.is_open:
            return connection
        task = self._opening.get(address)
        if task is None:
            opening = Connection.open(address, settings=self.settings, clock=self.clock, connect=self._connect)
            task = self._opening[address] = asyncio.create_task(opening)
            task.add_done_callback(lambda done: self._opened(address, done))
        return await asyncio.shield(task)

    def _opened(self, address: Address, task: asyncio.Task[Connection]) -> None:
        del self._opening[address]
        if not task.cancelled() and task.exception() is None:
            self._connections[address] = task.result()
