"""A consumer of assigned partitions: it fetches, decodes, and leaves out what readers must not see.

    async with Consumer(cluster, ConsumerSettings()) as consumer:
        consumer.assign({TopicPartition("flights", 0): EARLIEST})
        while records := await consumer.poll():
            ...

One fetch to each leader is under way while records are handed out, and a partition is not fetched while more than
`max_poll_records` of its records wait: memory is bounded by what one fetch gives. Groups are not here.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Final

from tailrace.client.cluster import Cluster
from tailrace.client.errors import (
    ClientError,
    NoOffsetForPartition,
    calls_for_metadata,
    error_of,
    is_retriable,
)
from tailrace.client.fetched import ConsumedRecord, decode_fetched
from tailrace.client.metadata import Leader
from tailrace.client.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID

__all__ = ["EARLIEST", "LATEST", "ConsumedRecord", "Consumer", "ConsumerSettings", "IsolationLevel"]

_NAMES_VERSION_MAX: Final = 12
"""The last version of Fetch that names topics; from 13 on it has their ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """What a consumer is told, with the defaults of Kafka 4.1's Java consumer; `auto_offset_reset` None raises."""

    auto_offset_reset: int | None = LATEST
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1024 * 1024
    max_poll_records: int = 500


@dataclass(slots=True)
class _Partition:
    """Where reading of one partition is: `position` is handed out, `fetch_offset` is fetched up to."""

    position: int
    fetch_offset: int
    high_watermark: int = -1
    records: deque[ConsumedRecord] = field(default_factory=deque[ConsumedRecord])
    not_before: float = 0.0
    attempts: int = 0


class Consumer:
    """Reads partitions of the cluster that `cluster` is connected to."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings | None = None) -> None:
        self._cluster = cluster
        self._settings = ConsumerSettings() if settings is None else settings
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._unplaced: dict[TopicPartition, int] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        self._turn: deque[TopicPartition] = deque()
        self._failure: Exception | None = None

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give up the fetches under way."""
        for task in self._fetches.values():
            task.cancel()
        await asyncio.gather(*self._fetches.values(), return_exceptions=True)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions and no others, each from an offset, or from EARLIEST or LATEST."""
        self._partitions.clear()
        self._unplaced.clear()
        self._turn.clear()
        for topic_partition, start in starts.items():
            self.seek(topic_partition, start)

    def seek(self, topic_partition: TopicPartition, start: int) -> None:
        """Go on reading a partition from an offset, or from EARLIEST or LATEST."""
        if topic_partition not in self._turn:
            self._turn.append(topic_partition)
        if start >= 0:
            self._unplaced.pop(topic_partition, None)
            self._partitions[topic_partition] = _Partition(start, start)
        else:
            self._partitions.pop(topic_partition, None)
            self._unplaced[topic_partition] = start

    def position(self, topic_partition: TopicPartition) -> int | None:
        """Give the offset of the next record; None where it has to be asked for first."""
        state = self._partitions.get(topic_partition)
        return None if state is None else state.position

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """Give the partition's end as the last fetch told it."""
        state = self._partitions.get(topic_partition)
        return None if state is None or state.high_watermark < 0 else state.high_watermark

    async def poll(self, *, timeout_ms: float = 1_000, max_records: int | None = None) -> list[ConsumedRecord]:
        """Give some records in the order of their partitions, or none when the time is over.

        An error that a later fetch cannot mend is raised here.
        """
        limit = self._settings.max_poll_records if max_records is None else max_records
        deadline = self._cluster.clock.monotonic() + timeout_ms / 1000
        await self._place()
        while True:
            self._start_fetches()
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            records = self._take(limit)
            if records:
                return records
            left_ms = (deadline - self._cluster.clock.monotonic()) * 1000
            if left_ms <= 0:
                return []
            await self._wait(left_ms)
            await self._place()

    async def _place(self) -> None:
        """Find the offsets of the partitions that are to be read from EARLIEST or LATEST."""
        if not self._unplaced:
            return
        found = await list_offsets(self._cluster, dict(self._unplaced), isolation=self._settings.isolation)
        for topic_partition, place in found.items():
            if self._unplaced.pop(topic_partition, None) is not None:
                self._partitions[topic_partition] = _Partition(place.offset, place.offset)

    def _take(self, limit: int) -> list[ConsumedRecord]:
        """Hand out buffered records, of the partition whose turn it is first."""
        taken: list[ConsumedRecord] = []
        for _ in range(len(self._turn)):
            topic_partition = self._turn[0]
            state = self._partitions.get(topic_partition)
            if state is not None:
                records = state.records
                while records and len(taken) < limit:
                    taken.append(records.popleft())
                    state.position = taken[-1].offset + 1
                if not records:
                    state.position = state.fetch_offset
            if len(taken) >= limit:
                break
            self._turn.rotate(-1)
        return taken

    async def _wait(self, left_ms: float) -> None:
        """Wait until a fetch is done, but not longer than there is time."""
        pause = asyncio.ensure_future(self._cluster.clock.sleep(min(left_ms, self._pause_ms())))
        try:
            await asyncio.wait([pause, *self._fetches.values()], return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()

    def _pause_ms(self) -> float:
        """Give the time until a partition that failed may be tried again."""
        now = self._cluster.clock.monotonic()
        waits = [state.not_before - now for state in self._partitions.values() if state.not_before > now]
        return max(min(waits) * 1000, _PAUSE_MS_MIN) if waits else float(self._cluster.config.request_timeout_ms)

    def _start_fetches(self) -> None:
        """Fetch what there is room for, from each leader that no fetch is under way to."""
        now = self._cluster.clock.monotonic()
        wanted: dict[int, list[tuple[TopicPartition, Leader]]] = defaultdict(list)
        unknown: list[TopicPartition] = []
        for topic_partition, state in self._partitions.items():
            if len(state.records) > self._settings.max_poll_records or state.not_before > now:
                continue
            leader = self._cluster.known_leader(topic_partition)
            if leader is None:
                unknown.append(topic_partition)
            else:
                wanted[leader.node_id].append((topic_partition, leader))
        for node_id, targets in wanted.items():
            if node_id not in self._fetches:
                self._start(node_id, self._fetch(node_id, targets))
        if unknown and _LOOKUP not in self._fetches:
            self._start(_LOOKUP, self._find_leaders(unknown))

    def _start(self, node_id: int, work: Coroutine[object, object, None]) -> None:
        task = self._fetches[node_id] = asyncio.create_task(work)
        task.add_done_callback(lambda done: self._fetched(node_id, done))

    def _fetched(self, node_id: int, task: asyncio.Task[None]) -> None:
        del self._fetches[node_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error if isinstance(error, Exception) else RuntimeError(str(error))

    async def _find_leaders(self, partitions: list[TopicPartition]) -> None:
        for topic_partition in partitions:
            try:
                await self._cluster.leader_of(topic_partition)
            except (ApiError, ClientError) as error:
                self._fail(topic_partition, error)

    async def _fetch(self, node_id: int, targets: list[tuple[TopicPartition, Leader]]) -> None:
        """Send one fetch to a leader, and buffer what it answers."""
        offsets = {key: self._partitions[key].fetch_offset for key, _ in targets}
        request = self._make_request(targets)
        has_ids = all(leader.topic_id != ZERO_UUID for _, leader in targets)
        try:
            connection = await self._cluster.connection_to(node_id)
            response = await connection.request(
                request, FetchResponse, version_max=None if has_ids else _NAMES_VERSION_MAX
            )
            error = error_of(response.error_code, "fetch")
            if error is not None:
                raise error
        except (ApiError, ClientError) as error:
            for topic_partition, _ in targets:
                self._fail(topic_partition, error)
            return
        names = {leader.topic_id: key.topic for key, leader in targets}
        for topic in response.responses:
            for data in topic.partitions:
                key = TopicPartition(topic.topic or names.get(topic.topic_id, ""), data.partition_index)
                state = self._partitions.get(key)
                if state is not None and state.fetch_offset == offsets.get(key):
                    self._buffer(key, state, data)

    def _make_request(self, targets: list[tuple[TopicPartition, Leader]]) -> FetchRequest:
        topics: dict[tuple[str, bytes], list[FetchPartition]] = defaultdict(list)
        for key, leader in targets:
            topics[key.topic, leader.topic_id].append(
                FetchPartition(
                    partition=key.partition,
                    current_leader_epoch=leader.leader_epoch,
                    fetch_offset=self._partitions[key].fetch_offset,
                    partition_max_bytes=self._settings.max_partition_fetch_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=self._settings.fetch_max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            isolation_level=self._settings.isolation,
            topics=[
                FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in topics.items()
            ],
        )

    def _buffer(self, key: TopicPartition, state: _Partition, data: PartitionData) -> None:
        """Decode a partition's answer, or take notice of its error."""
        error = error_of(data.error_code, f"partition {key}, offset {state.fetch_offset}")
        if error is not None:
            self._fail(key, error)
            return
        state.high_watermark = data.high_watermark
        state.attempts = 0
        records, state.fetch_offset = decode_fetched(key, data, state.fetch_offset, isolation=self._settings.isolation)
        state.records.extend(records)

    def _fail(self, key: TopicPartition, error: ApiError | ClientError) -> None:
        """Have a partition tried again later or elsewhere; what cannot be mended is raised by the next poll."""
        state = self._partitions.get(key)
        if state is None:
            return
        if calls_for_metadata(error):
            self._cluster.expire_metadata()
        if isinstance(error, ApiError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if self._settings.auto_offset_reset is None:
                self._failure = NoOffsetForPartition(f"{error}, and auto.offset.reset is none")
            else:
                self.seek(key, self._settings.auto_offset_reset)
        elif is_retriable(error):
            settings = self._cluster.config
            pause_ms = min(settings.retry_backoff_ms * 2 ** min(state.attempts, 10), settings.retry_backoff_max_ms)
            state.attempts += 1
            state.not_before = self._cluster.clock.monotonic() + pause_ms / 1000
        else:
            self._failure = error


_PAUSE_MS_MIN: Final = 1.0
"""A pause is never so short that the clock does not move."""

_LOOKUP: Final = -1
"""Stands in `_fetches` for the task that looks for leaders."""
