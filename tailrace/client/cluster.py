"""What a client knows of a cluster: its brokers, topics and leaders, and how old that knowledge is.

Lives here: bootstrap, metadata and its age, the refresh of what is watched, and trying again with backoff what may
succeed later. The connections are `links`'. Everything above (admin, producer, consumer) says what to ask and whom;
how often it is tried is settled here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from tailrace.client.address import Address, parse_addresses
from tailrace.client.connection import Connection
from tailrace.client.deadline import Backoff
from tailrace.client.errors import (
    ClientError,
    NoBrokerAvailable,
    broker_error,
    calls_for_metadata,
    error_of,
    is_retriable,
)
from tailrace.client.links import Links
from tailrace.client.metadata import ClusterMetadata, Leader, Node, TopicMetadata, read_metadata
from tailrace.client.stream import OpenStream
from tailrace.clock import Clock, SystemClock, TimerHandle
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ClientConfig

if TYPE_CHECKING:
    from tailrace.client.oauth import TokenProvider

T = TypeVar("T")

BOOTSTRAP_DEFAULT: Final = "localhost:9092"

_log = logging.getLogger("tailrace.client")


class Cluster:
    """A cluster as one client sees it; close it to close its connections.

    `version` counts what was learnt: who keeps something made of metadata compares it. `listeners` are called whenever
    metadata came or a connection was made or failed. `token_provider` gives OAUTHBEARER's tokens, where the settings do
    not say where they come from.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        connect: OpenStream | None = None,
        name: str = "",
        token_provider: TokenProvider | None = None,
    ) -> None:
        self.config = config
        self.client_id = config.client_id or name or "tailrace"
        self.clock: Clock = SystemClock() if clock is None else clock
        self.random = Random() if random is None else random  # spreads retries; nothing secret depends on it
        self.version = 0
        self.listeners: list[Callable[[], None]] = []
        self._bootstrap = parse_addresses(config.bootstrap_servers or BOOTSTRAP_DEFAULT)
        self._links = Links(config, self.client_id, self.clock, self.random, connect, self._notify, token_provider)
        self._metadata = ClusterMetadata()
        self._refreshed_at: dict[str, float] = {}
        self._is_stale = True
        self._watched: dict[str, bool] = {}
        self._refresh: asyncio.Task[None] | None = None
        self._refresh_timer: TimerHandle | None = None
        self._refusal: Exception | None = None

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)
        await self._links.close()

    @property
    def known(self) -> ClusterMetadata:
        """What is known now, however old."""
        return self._metadata

    def expire_metadata(self) -> None:
        """Have metadata asked for anew: at once in the background where topics are watched, else at its next use."""
        self._is_stale = True
        if self._watched and (self._refresh is None or self._refresh.done()):
            self._refresh = asyncio.create_task(self._refresh_watched())

    def take_refusal(self) -> Exception | None:
        """Give, once, the error with which the last refresh in the background failed, if no retry can mend it.

        A password that is wrong, say: whoever waits for metadata would wait for ever.
        """
        refusal, self._refusal = self._refusal, None
        return refusal

    def watch(self, topic: str, *, allow_auto_topic_creation: bool = False) -> None:
        """Keep what is known of a topic fresh from now on."""
        self._watched[topic] = allow_auto_topic_creation
        if self._refresh_timer is None:
            self._set_refresh_timer()

    def unwatch(self, topic: str) -> None:
        """Let a topic's metadata grow old again."""
        self._watched.pop(topic, None)

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
        timeout_ms = self.config.api_timeout_ms if timeout_ms is None else timeout_ms
        backoff = Backoff(self.clock, self.config, self.random, timeout_ms=timeout_ms, what=what)
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
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._metadata = ClusterMetadata()
            connection.close()
            raise NoBrokerAvailable(f"{connection.address} wants its clients to begin again with bootstrap.servers")
        if response.error_code:
            raise broker_error(ErrorCode(response.error_code), "metadata")
        fresh = read_metadata(response)
        now = self.clock.monotonic()
        if self._is_stale:
            self._refreshed_at.clear()
        self._is_stale = False
        self._refusal = None
        for name in fresh.topics:
            self._refreshed_at[name] = now
        self._metadata = self._metadata.updated(fresh, asked=names)
        self._notify()
        return fresh

    def learn_leader(
        self, topic_partition: TopicPartition, leader_id: int, leader_epoch: int, nodes: Iterable[Node]
    ) -> bool:
        """Take a leader that a broker named in an answer (KIP-951); say whether that was news."""
        learnt = self._metadata.with_leader(topic_partition, leader_id, leader_epoch, nodes)
        if learnt is None:
            return False
        self._metadata = learnt
        self.version += 1
        return True

    def learn_node(self, node: Node) -> None:
        """Take the address of a broker that was named outside of metadata, as coordinators are."""
        if self._metadata.nodes.get(node.node_id) != node:
            self._metadata = self._metadata.with_node(node)

    def is_fresh(self, topic: str) -> bool:
        """Whether a topic's metadata is there, young enough, and not under suspicion."""
        refreshed_at = self._refreshed_at.get(topic)
        age_max = self.config.metadata_max_age_ms / 1000
        if self._is_stale or refreshed_at is None or self.clock.monotonic() - refreshed_at > age_max:
            return False
        known = self._metadata.topics.get(topic)
        return known is not None and not known.error_code

    async def topic(self, name: str, *, allow_auto_topic_creation: bool = False) -> TopicMetadata:
        """Give what is known of a topic, asking where it is not known or too old; BrokerError where it has an error."""
        if not self.is_fresh(name):
            await self.metadata([name], allow_auto_topic_creation=allow_auto_topic_creation)
        topic = self._metadata.topics.get(name)
        if topic is None:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        error = error_of(topic.error_code, f"topic {name}")
        if error is not None:
            self._refreshed_at.pop(name, None)
            raise error
        return topic

    async def leader_of(self, topic_partition: TopicPartition, *, allow_auto_topic_creation: bool = False) -> Leader:
        """Say who leads a partition; a retriable BrokerError where nobody does at the moment."""
        topic = await self.topic(topic_partition.topic, allow_auto_topic_creation=allow_auto_topic_creation)
        if topic_partition.partition not in topic.partitions:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_partition}")
        leader = self._metadata.leader_of(topic_partition)
        if leader is None:
            self._refreshed_at.pop(topic_partition.topic, None)
            raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {topic_partition} has no leader")
        return leader

    def known_leader(self, topic_partition: TopicPartition) -> Leader | None:
        """Say who leads a partition as far as is known now; None where it has to be asked for."""
        return self._metadata.leader_of(topic_partition) if self.is_fresh(topic_partition.topic) else None

    async def controller(self) -> Connection:
        """Give a connection to the controller, or to any broker where none is named."""
        if self._is_stale or not self._metadata.nodes:
            await self.metadata([])
        if self._metadata.controller_id in self._metadata.nodes:
            return await self.connection_to(self._metadata.controller_id)
        return await self.any_connection()

    async def connection_to(self, node_id: int, *, lane: str = "") -> Connection:
        """Give the connection to a broker, opening it where there is none.

        What must not wait behind other requests, such as a heartbeat behind a long poll, has a lane of its own.
        """
        return await self._links.connection_to(self._address_of(node_id), lane)

    def close_lane(self, lane: str) -> None:
        """Close the connections of a lane that nobody needs any more."""
        self._links.close_lane(lane)

    def open_connection(self, node_id: int) -> Connection | None:
        """Give the connection to a broker where there is one, and begin to open it where there is none."""
        node = self._metadata.nodes.get(node_id)
        return None if node is None else self._links.open_connection(node.address)

    async def any_connection(self) -> Connection:
        """Give a connection to some broker: an open one, else to one that is known, else by the bootstrap addresses."""
        connection = self._links.least_loaded()
        if connection is not None:
            return connection
        known = [node.address for node in self._metadata.nodes.values()]
        may_begin_again = self.config.metadata_recovery_strategy.upper() == "REBOOTSTRAP"
        addresses = [*known, *self._bootstrap] if may_begin_again or not known else known
        failures: list[str] = []
        for address in self._links.in_order_of_hope(dict.fromkeys(addresses)):
            try:
                return await self._links.connection_to(address)
            except ClientError as error:
                if not is_retriable(error):
                    raise
                failures.append(str(error))
        raise NoBrokerAvailable("; ".join(failures))

    def _address_of(self, node_id: int) -> Address:
        node = self._metadata.nodes.get(node_id)
        if node is None:
            raise NoBrokerAvailable(f"broker {node_id} is not in the cluster's metadata")
        return node.address

    def _notify(self) -> None:
        self.version += 1
        for listener in self.listeners:
            listener()

    def _set_refresh_timer(self) -> None:
        self._refresh_timer = self.clock.call_later(self.config.metadata_max_age_ms, self._refresh_by_age)

    def _refresh_by_age(self) -> None:
        self._set_refresh_timer()
        self.expire_metadata()

    async def _refresh_watched(self) -> None:
        """Ask for the watched topics, first after a pause, so that nobody asks in a loop, until an answer comes."""
        pause_ms, attempt = float(self.config.retry_backoff_ms), 0
        while self._watched:
            await self.clock.sleep(pause_ms)
            try:
                await self.metadata(self._watched, allow_auto_topic_creation=any(self._watched.values()))
            except (ApiError, ClientError) as error:
                attempt += 1
                _log.warning("%s: metadata was not refreshed (attempt %d): %s", self.client_id, attempt, error)
                pause_ms = min(pause_ms * 2, float(self.config.retry_backoff_max_ms))
                if not is_retriable(error):
                    self._refusal = error
                    self._notify()
            else:
                return
