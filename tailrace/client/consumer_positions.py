"""The part of a consumer that says and sets where it is: positions, commits, pauses, offsets by time.

`Consumer` derives from this; the two share one state and one task at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from tailrace.client.cluster import Cluster
from tailrace.client.committed_offsets import CommittedOffsets
from tailrace.client.completed_fetch import AnyRecord
from tailrace.client.consumer_record import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp
from tailrace.client.errors import ClientClosed, ClientError, InvalidState, OperationTimedOut
from tailrace.client.offsets import EARLIEST, LATEST, FoundOffset, IsolationLevel, list_offsets
from tailrace.client.positions import Positions
from tailrace.client.rebalance_listener import ConsumerInterceptors
from tailrace.client.signal import Signal
from tailrace.client.subscription_state import PartitionState, Phase, SubscriptionState
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ConsumerConfig

_log = logging.getLogger("tailrace.client")

OnCommit = Callable[[Mapping[TopicPartition, OffsetAndMetadata], Exception | None], object]


class ConsumerPositions:
    """Positions, commits and pauses of a consumer. One task at a time may use it: a second one gets InvalidState."""

    def __init__(self, config: ConsumerConfig, cluster: Cluster, interceptors: ConsumerInterceptors | None) -> None:
        self.config = config
        self._cluster = cluster
        self._interceptors = interceptors
        self._signal = Signal(cluster.clock)
        self._subscription = SubscriptionState()
        self._offsets: CommittedOffsets | None = None
        self._positions: Positions
        self._iterated: deque[AnyRecord] = deque()
        """Records that poll gave to an iteration, and the iteration not yet to the user."""
        self._commits: set[asyncio.Task[None]] = set()
        self._user: asyncio.Task[Any] | None = None
        self._is_closed = False

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return frozenset(self._subscription.partitions)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to: those that were named, or those that the pattern has now."""
        return self._subscription.topics

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are not read for now."""
        return frozenset(key for key, state in self._subscription.partitions.items() if state.is_paused)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until they are resumed; what was fetched is kept."""
        with self._used("pause"):
            for state in self._states(partitions):
                state.is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on handing these out."""
        with self._used("resume"):
            for state in self._states(partitions):
                state.is_paused = False
            self._signal.give()

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on at an offset; the next poll gives the first record from there on."""
        place = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
        if place.offset < 0:
            raise ValueError(f"an offset is not negative: {place.offset}")
        with self._used("seek"):
            self._subscription.state_of(partition).seek(place.offset, place.leader_epoch)
            self._forget_iterated([partition])

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the first record there is; of all assigned partitions where none is named."""
        self._seek_to(EARLIEST, partitions, "seek_to_beginning")

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on with records to come; of all assigned partitions where none is named."""
        self._seek_to(LATEST, partitions, "seek_to_end")

    def seek_to_time(self, timestamp_ms: int, *partitions: TopicPartition) -> None:
        """Go on at the first record of that time or later, or at the end where there is none."""
        if timestamp_ms < 0:
            raise ValueError(f"a time is not negative: {timestamp_ms}")
        self._seek_to(timestamp_ms, partitions, "seek_to_time")

    async def position(self, partition: TopicPartition, *, timeout_ms: float | None = None) -> int:
        """Give the offset of the record that is handed out next, finding it where it is not known yet."""
        with self._used("position"):
            state = self._subscription.state_of(partition)
            deadline = self._deadline(timeout_ms)
            while not state.has_position:
                self._positions.update()
                left_ms = (deadline - self._cluster.clock.monotonic()) * 1000
                if left_ms <= 0:
                    raise OperationTimedOut(f"the position of {partition} was not found in time")
                await self._signal.wait(min(left_ms, self._pause_ms()))
                state = self._subscription.state_of(partition)
            first = next((r.offset for r in self._iterated if r.topic_partition == partition), None)
            return state.position if first is None else first

    def lag(self, partition: TopicPartition) -> int | None:
        """Say how many offsets are left to the end that this consumer sees; None before the first fetch."""
        return self._subscription.state_of(partition).lag(is_committed=self.config.is_read_committed)

    def lead(self, partition: TopicPartition) -> int | None:
        """Say how many offsets lie between the log's start and the position; None before the first fetch."""
        return self._subscription.state_of(partition).lead()

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Give the partition's end as the last fetch told it; None before the first one."""
        end = self._subscription.state_of(partition).high_watermark
        return None if end < 0 else end

    async def committed(
        self, *partitions: TopicPartition, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Give what the group has committed, None where there is nothing."""
        with self._used("committed"):
            return await self._group_offsets().fetch(partitions, timeout_ms=timeout_ms)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | ConsumerRecord[Any, Any] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets and wait for the coordinator: given ones, one record as read, or all that was handed out.

        CommitFailed where the group has given the partitions to others.
        """
        with self._used("commit"):
            wanted = self._to_commit(offsets)
            await self._group_offsets().commit(wanted, timeout_ms=timeout_ms)
            self._was_committed(wanted, None, None)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | ConsumerRecord[Any, Any] | None = None,
        *,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commit offsets in the background; `on_commit` is called with them and None, or what went wrong."""
        with self._used("commit_async"):
            self._start_commit(self._to_commit(offsets), on_commit)

    async def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find in each partition the first record of a time or later, None where there is none."""
        with self._used("offsets_for_times"):
            if any(timestamp < 0 for timestamp in timestamps_ms.values()):
                raise ValueError("a time is not negative")
            found = await self._list(timestamps_ms)
            return {
                key: OffsetAndTimestamp(place.offset, place.timestamp, place.leader_epoch)
                if place.offset >= 0
                else None
                for key, place in found.items()
            }

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Give the offset of the first record of each partition."""
        with self._used("beginning_offsets"):
            found = await self._list(dict.fromkeys(partitions, EARLIEST))
            return {key: place.offset for key, place in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Give the offset of the next record to come, as this consumer's isolation level sees it."""
        with self._used("end_offsets"):
            found = await self._list(dict.fromkeys(partitions, LATEST))
            return {key: place.offset for key, place in found.items()}

    async def _list(self, targets: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        isolation = IsolationLevel(int(self.config.is_read_committed))
        return await list_offsets(self._cluster, targets, isolation=isolation)

    def _seek_to(self, timestamp: int, partitions: Collection[TopicPartition], what: str) -> None:
        with self._used(what):
            for state in self._states(partitions or self._subscription.partitions):
                state.reset(timestamp)
            self._forget_iterated(partitions or self._subscription.partitions)

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        return [self._subscription.state_of(key) for key in partitions]

    def _group_offsets(self) -> CommittedOffsets:
        if self._offsets is None:
            raise InvalidState("offsets are committed for a group: give the consumer a group_id")
        return self._offsets

    def _to_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | ConsumerRecord[Any, Any] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self._group_offsets()
        if offsets is None:
            return self._consumed()
        if isinstance(offsets, ConsumerRecord):
            place = OffsetAndMetadata(offsets.offset + 1, leader_epoch=offsets.leader_epoch)
            return {offsets.topic_partition: place}
        wanted = {
            key: place if isinstance(place, OffsetAndMetadata) else OffsetAndMetadata(place)
            for key, place in offsets.items()
        }
        if any(place.offset < 0 for place in wanted.values()):
            raise ValueError("an offset to commit is not negative")
        return wanted

    def _consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Give the positions behind what the user was given."""
        consumed = {
            key: OffsetAndMetadata(state.position, leader_epoch=state.position_epoch)
            for key, state in self._subscription.partitions.items()
            if state.phase in (Phase.FETCHING, Phase.VALIDATING)
        }
        for record in reversed(self._iterated):
            if record.topic_partition in consumed:
                consumed[record.topic_partition] = OffsetAndMetadata(record.offset, leader_epoch=record.leader_epoch)
        return consumed

    def _start_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_commit: OnCommit | None) -> None:
        task = asyncio.create_task(self._commit_in_background(offsets, on_commit))
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)

    async def _commit_in_background(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_commit: OnCommit | None
    ) -> None:
        try:
            await self._group_offsets().commit(offsets)
        except (ApiError, ClientError) as error:
            if on_commit is None:
                _log.warning("%s: offsets were not committed: %s", self._cluster.client_id, error)
            self._was_committed(offsets, error, on_commit)
        else:
            self._was_committed(offsets, None, on_commit)

    def _was_committed(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None, on_commit: OnCommit | None
    ) -> None:
        if error is None and self._interceptors is not None:
            self._interceptors.on_commit(offsets)
        if on_commit is not None:
            on_commit(offsets, error)

    def _forget_iterated(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop records of partitions that go on elsewhere, or go."""
        if self._iterated:
            gone = set(partitions)
            kept = [record for record in self._iterated if record.topic_partition not in gone]
            self._iterated.clear()
            self._iterated.extend(kept)

    def _pause_ms(self) -> float:
        """Give the time until a partition that failed may be tried again."""
        now = self._cluster.clock.monotonic()
        retry = self._subscription.next_retry(now)
        longest = float(self.config.request_timeout_ms)
        return longest if retry is None else min(max((retry - now) * 1000, 1.0), longest)

    def _deadline(self, timeout_ms: float | None) -> float:
        timeout_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        return self._cluster.clock.monotonic() + timeout_ms / 1000

    @contextmanager
    def _used(self, what: str) -> Generator[None]:
        """Let one task at a time use the consumer; a listener that it calls is of the same task."""
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        task = asyncio.current_task()
        if self._user is not None:
            if self._user is not task:
                raise InvalidState(f"{what}: another task uses this consumer; give each task a consumer of its own")
            yield
            return
        self._user = task
        try:
            yield
        finally:
            self._user = None
