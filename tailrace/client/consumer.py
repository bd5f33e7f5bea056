"""A consumer: reads partitions, of its own choice or as a member of a group, and hands out their records.

    async with Consumer(bootstrap_servers="localhost:9092", group_id="board") as consumer:
        consumer.subscribe(["flights"])
        async for record in consumer:
            ...

Records of one partition come in order. What was handed out is committed now and then, and when the consumer is closed
or loses partitions, unless enable.auto.commit is false: every record is read at least once. A consumer belongs to one
task at a time; only `wakeup` may be called by others. Rebalances happen inside of `poll`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar, Unpack, cast, overload

from tailrace.client.assignors import Assignor
from tailrace.client.cluster import Cluster
from tailrace.client.committed_offsets import CommittedOffsets
from tailrace.client.completed_fetch import Decoding
from tailrace.client.consumer_group_member import GroupMember, PartitionOwner
from tailrace.client.consumer_positions import ConsumerPositions, OnCommit
from tailrace.client.consumer_record import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp
from tailrace.client.errors import ClientError, InvalidState, WokenUp
from tailrace.client.fetcher import Fetcher
from tailrace.client.group_coordinator import GroupCoordinator
from tailrace.client.group_membership import make_member
from tailrace.client.group_metadata import ConsumerGroupMetadata
from tailrace.client.metadata import PartitionMetadata
from tailrace.client.offsets import EARLIEST, LATEST, IsolationLevel
from tailrace.client.positions import Positions
from tailrace.client.rebalance_listener import ConsumerInterceptor, ConsumerInterceptors, RebalanceListener
from tailrace.client.subscribed_topics import SubscribedTopics
from tailrace.client.subscription_state import SubscriptionKind
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client.consumer import ConsumerOptions
from tailrace.settings.client_config import ConsumerConfig

__all__ = [
    "EARLIEST",
    "LATEST",
    "Consumer",
    "ConsumerConfig",
    "ConsumerRecord",
    "IsolationLevel",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OnCommit",
]

K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger("tailrace.client")
_numbers = itertools.count(1)

ARROW_BYTES_MAX: Final = 8 * 1024 * 1024
"""What one `poll_arrow` gives unless told otherwise: more records a batch cost less each, too many miss the cache."""


class Consumer(ConsumerPositions, Generic[K, V]):
    """Reads records from a cluster: the one at `bootstrap_servers`, or one that is connected to already.

    Options have Kafka's names with `_` for `.`, and Kafka's defaults; times are milliseconds, sizes bytes. Without
    deserializers keys and values are bytes. A consumer belongs to one event loop.
    """

    @overload
    def __init__(
        self: Consumer[bytes, bytes],
        config: ConsumerConfig | None = None,
        *,
        assignors: Sequence[Assignor] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        cluster: Cluster | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        config: ConsumerConfig | None = None,
        *,
        key_deserializer: Callable[[bytes], K] | None = None,
        value_deserializer: Callable[[bytes], V] | None = None,
        assignors: Sequence[Assignor] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        cluster: Cluster | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    def __init__(
        self,
        config: ConsumerConfig | None = None,
        *,
        key_deserializer: Callable[[bytes], Any] | None = None,
        value_deserializer: Callable[[bytes], Any] | None = None,
        assignors: Sequence[Assignor] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        cluster: Cluster | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        config = _merge(config, options)
        self._owned: Cluster | None = None
        if cluster is None:
            cluster = self._owned = Cluster(config, name=_default_name(config))
        super().__init__(config, cluster, ConsumerInterceptors(interceptors) if interceptors else None)
        decoding = Decoding(config.is_read_committed, config.check_crcs, key_deserializer, value_deserializer)
        subscription, changed = self._subscription, self._signal.give
        self._fetcher = Fetcher(cluster, config, subscription, decoding, changed)
        self._topics = SubscribedTopics(cluster, config, subscription)
        self._owner = PartitionOwner(subscription, self._commit_before_revocation, self._forget_iterated)
        self._member: GroupMember | None = None
        self._assignors = assignors
        self._coordinator: GroupCoordinator | None = None
        if config.group_id is not None:
            self._coordinator = GroupCoordinator(cluster, config.group_id)
            self._offsets = CommittedOffsets(cluster, self._coordinator, self.group_metadata, self._commit_refused)
        committed = None if self._offsets is None else self._offsets.fetch
        self._positions = Positions(cluster, config, subscription, committed, changed)
        self._commits_at = 0.0
        self._is_woken = False
        cluster.listeners.append(changed)

    async def __aenter__(self) -> Consumer[K, V]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        server_pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read topics as a member of the group: named ones, or all whose whole name matches a pattern.

        `server_pattern` is in RE2's syntax, and the coordinator evaluates it; that needs group.protocol=consumer.
        Partitions come when the consumer polls; `listener` is told of them.
        """
        if isinstance(topics, str):
            raise TypeError(f"topics are a list of names, not one text: {topics!r}")
        names = frozenset(topics)
        if bool(names) + (pattern is not None) + (server_pattern is not None) != 1:
            raise ValueError("subscribe to topics, or by a pattern, or by a server_pattern")
        if self._coordinator is None:
            raise InvalidState("a group assigns what is subscribed to: give the consumer a group_id, or use assign")
        if server_pattern is not None and not self.config.uses_consumer_protocol:
            raise InvalidState("a server_pattern needs group_protocol=consumer")
        with self._used("subscribe"):
            kind = SubscriptionKind.TOPICS if names else SubscriptionKind.PATTERN
            kind = SubscriptionKind.SERVER_PATTERN if server_pattern is not None else kind
            compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
            self._subscription.subscribe(kind, topics=names, pattern=compiled, server_pattern=server_pattern)
            self._owner.listener = listener
            self._topics.forget()
            if self._member is None:
                self._member = make_member(
                    self._cluster,
                    self.config,
                    self._coordinator,
                    self._assignors,
                    self._topics,
                    self._owner,
                    self._signal.give,
                )
            self._member.subscription_changed()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, without a group's help; a group_id still serves to commit."""
        with self._used("assign"):
            wanted = [TopicPartition(*key) for key in partitions]
            gone = self.assignment - set(wanted)
            if gone and self.config.commits_by_itself:
                self._start_commit(self._consumed(), None)
            self._subscription.assign(wanted)
            self._forget_iterated(gone)
            for key in wanted:
                self._cluster.watch(key.topic, allow_auto_topic_creation=self.config.allow_auto_create_topics)

    async def unsubscribe(self) -> None:
        """Give up all partitions, and leave the group."""
        with self._used("unsubscribe"):
            await self._leave("the consumer unsubscribed")
            for topic in self._subscription.topics | {key.topic for key in self._subscription.partitions}:
                self._cluster.unwatch(topic)
            self._subscription.unsubscribe()
            self._iterated.clear()

    async def poll(self, timeout_ms: float = 1_000, max_records: int | None = None) -> list[ConsumerRecord[K, V]]:
        """Give records as soon as there are any, at most max.poll.records, or none when the time is over.

        Raises what a retry cannot mend: AuthorizationFailed, NoOffsetForPartition, SerializationFailed and the like;
        and WokenUp where another task called `wakeup`.
        """
        with self._used("poll"):
            limit = self.config.max_poll_records if max_records is None else max_records
            deadline = self._cluster.clock.monotonic() + timeout_ms / 1000
            while True:
                await self._look_after()
                records = self._fetcher.collect(limit)
                self._fetcher.send_fetches()
                if records:
                    await asyncio.sleep(0)  # fetches and heartbeats go on, however fast somebody polls
                    return self._intercepted(records)
                await self._wait(deadline)
                if self._cluster.clock.monotonic() >= deadline and not self._fetcher.has_completed:
                    return []

    async def poll_arrow(self, timeout_ms: float = 1_000, *, max_bytes: int = ARROW_BYTES_MAX) -> Any:
        """Give records as a pyarrow.RecordBatch, empty when the time is over; about `max_bytes` of them.

        Columns: topic, partition, offset, timestamp, timestamp_type, key, value, headers (`arrow_reader.SCHEMA`). No
        record is an object on the way. Deserializers and interceptors have no part in it. Needs tailrace[arrow].
        """
        from tailrace.client.arrow_poll import empty_batch, take_arrow

        with self._used("poll_arrow"):
            deadline = self._cluster.clock.monotonic() + timeout_ms / 1000
            while True:
                await self._look_after()
                completed = self._fetcher.collect_completed(max_bytes)
                self._fetcher.send_fetches()
                if completed:
                    batch = take_arrow(self._fetcher, completed)
                    self._fetcher.send_fetches()
                    await asyncio.sleep(0)
                    if batch.num_rows:
                        return batch
                    continue
                await self._wait(deadline)
                if self._cluster.clock.monotonic() >= deadline and not self._fetcher.has_completed:
                    return empty_batch()

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Give record after record, for ever. Only those that were given count as consumed."""
        while True:
            while self._iterated:
                yield cast("ConsumerRecord[K, V]", self._iterated.popleft())
            self._iterated.extend(await self.poll())

    async def iterated(self) -> deque[ConsumerRecord[K, V]]:
        """Give the queue from which iteration takes its records, after polling where it is empty.

        What is left in it does not count as consumed. It is always the same one: seeking takes records out of it.
        """
        while not self._iterated:
            self._iterated.extend(await self.poll())
        return self._iterated

    def wakeup(self) -> None:
        """Have the task that polls, or the next one that does, get WokenUp. Any task of the loop may call this."""
        self._is_woken = True
        self._signal.give()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Say who this is to its group, for a transactional producer that commits its offsets."""
        if self._coordinator is None:
            raise InvalidState("this consumer has no group_id")
        if self._member is None or not self._subscription.uses_group:
            return ConsumerGroupMetadata(self._coordinator.group_id)
        return self._member.metadata()

    async def partitions_for(self, topic: str) -> list[PartitionMetadata]:
        """Give a topic's partitions."""
        with self._used("partitions_for"):
            found = await self._cluster.retrying(f"looking for topic {topic}", lambda: self._cluster.topic(topic))
            return list(found.partitions.values())

    async def close(self, *, leave_group: bool = True) -> None:
        """Commit where the consumer does that by itself, give up all partitions, leave the group, and stop."""
        if self._is_closed:
            return
        with self._used("close"):
            try:
                if leave_group:
                    await self._leave("the consumer is closed")
                elif self._member is not None:
                    await self._commit_before_revocation()
                    await self._member.close()
            finally:
                self._is_closed = True
                await self._stop()

    async def _leave(self, reason: str) -> None:
        if self._member is not None and self._subscription.uses_group:
            await self._member.leave(reason)
        else:
            await self._commit_before_revocation()

    async def _stop(self) -> None:
        self._cluster.listeners.remove(self._signal.give)
        await asyncio.gather(*self._commits, return_exceptions=True)
        await self._topics.close()
        await self._positions.close()
        await self._fetcher.close()
        if self._coordinator is not None:
            self._coordinator.close()
        if self._interceptors is not None:
            self._interceptors.close()
        if self._owned is not None:
            await self._owned.close()

    async def _look_after(self) -> None:
        """Do what is due besides fetching: the group's business, commits, positions."""
        if self._is_woken:
            self._is_woken = False
            raise WokenUp("wakeup was called")
        if self._subscription.kind is SubscriptionKind.NONE:
            raise InvalidState("nothing is read: subscribe to topics or assign partitions first")
        refusal = self._cluster.take_refusal()
        if refusal is not None:
            raise refusal
        if self.config.commits_by_itself:
            self._commit_by_time()
        if self._member is not None and self._subscription.uses_group:
            await self._member.poll()
        self._positions.update()

    def _intercepted(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[K, V]]:
        return records if self._interceptors is None else self._interceptors.on_consume(records)

    async def _wait(self, deadline: float) -> None:
        """Wait until something has changed or is due, but not longer than there is time."""
        left_ms = (deadline - self._cluster.clock.monotonic()) * 1000
        if left_ms <= 0:
            await asyncio.sleep(0)
        elif not self._is_woken:
            await self._signal.wait(min(left_ms, self._pause_ms()))

    def _commit_by_time(self) -> None:
        """Commit in the background what was handed out before this poll, where it is time for that."""
        now = self._cluster.clock.monotonic()
        interval_s = self.config.auto_commit_interval_ms / 1000
        if not self._commits_at:
            self._commits_at = now + interval_s
        elif now >= self._commits_at and not self._commits:
            self._commits_at = now + interval_s
            consumed = self._consumed()
            if consumed:
                self._start_commit(consumed, None)

    async def _commit_before_revocation(self) -> None:
        """Commit what was handed out before it goes; where that fails, others read it again."""
        if not self.config.commits_by_itself or self._offsets is None:
            return
        consumed = self._consumed()
        try:
            await self._offsets.commit(consumed, timeout_ms=self.config.request_timeout_ms)
        except (ApiError, ClientError) as error:
            _log.warning("%s: offsets were not committed: %s", self._cluster.client_id, error)
        else:
            self._was_committed(consumed, None, None)

    def _commit_refused(self, code: int) -> None:
        if self._member is not None and self._subscription.uses_group:
            self._member.commit_refused(code)


def _merge(config: ConsumerConfig | None, options: ConsumerOptions) -> ConsumerConfig:
    if config is not None and not options:
        return config
    return ConsumerConfig({**(config.given if config is not None else {}), **options})


def _default_name(config: ConsumerConfig) -> str:
    return f"tailrace-consumer-{config.group_id or 'alone'}-{config.group_instance_id or next(_numbers)}"
