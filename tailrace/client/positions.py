"""Finds where to go on: committed offsets, offsets by the reset policy, and what a new leader still has.

One pass looks after every partition that waits for something, each at the leader that it has now. What cannot be
answered yet is tried again after a pause; an error that stays is raised by the consumer's next poll.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tailrace.client.cluster import Cluster
from tailrace.client.consumer_record import OffsetAndMetadata
from tailrace.client.errors import (
    ClientError,
    LogTruncated,
    NoOffsetForPartition,
    UnsupportedVersion,
    broker_error,
    calls_for_metadata,
    is_retriable,
    known_code,
)
from tailrace.client.fetcher import reset_timestamp
from tailrace.client.metadata import Leader
from tailrace.client.offsets import LATEST, FoundOffset, IsolationLevel, ask_for_offsets
from tailrace.client.subscription_state import PartitionState, Phase, SubscriptionState
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ConsumerConfig

_log = logging.getLogger("tailrace.client")

Committed = Callable[[list[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]]

_CONSUMER: Final = -1
"""A consumer's id where replicas have one."""


class Positions:
    """Looks after the positions of one consumer; `committed` asks its group, where it has one."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        committed: Committed | None,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._committed = committed
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def close(self) -> None:
        """Give up what is asked for."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def update(self) -> None:
        """Begin to look after what waits; raise what went wrong before."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._task is not None and self._task.done() and not self._task.cancelled():
            unexpected, self._task = self._task.exception(), None
            if unexpected is not None:
                raise unexpected
        if (self._task is None or self._task.done()) and self._is_needed():
            self._task = asyncio.create_task(self._pass())
            self._task.add_done_callback(lambda _: self._changed())

    def _is_needed(self) -> bool:
        now = self._cluster.clock.monotonic()
        return any(self._subscription.in_phase(phase, now) for phase in _WAITING)

    async def _pass(self) -> None:
        """Look once after every partition that waits."""
        try:
            now = self._cluster.clock.monotonic()
            await self._begin(self._subscription.in_phase(Phase.STARTING, now))
            await self._reset(self._subscription.in_phase(Phase.RESETTING, now))
            await self._validate(self._subscription.in_phase(Phase.VALIDATING, now))
        except (ApiError, ClientError) as error:
            self._failure = error

    async def _begin(self, states: list[PartitionState]) -> None:
        """Go on at the committed offsets, or as the reset policy says."""
        if not states:
            return
        asked = {state: state.generation for state in states}
        committed: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self._committed is not None:
            try:
                committed = await self._committed([state.topic_partition for state in states])
            except (ApiError, ClientError) as error:
                if not is_retriable(error):
                    raise
                self._put_off(states, error)
                return
        missing: list[str] = []
        for state, generation in asked.items():
            if not self._subscription.is_current(state, generation) or state.phase is not Phase.STARTING:
                continue
            found = committed.get(state.topic_partition)
            reset = reset_timestamp(self._config, self._cluster.clock.time_ms())
            if found is not None:
                state.seek(found.offset, found.leader_epoch)
            elif reset is not None:
                state.reset(reset)
            else:
                missing.append(str(state.topic_partition))
        if missing:
            raise NoOffsetForPartition(
                f"no offset is committed for {', '.join(missing)}, and auto.offset.reset is none"
            )

    async def _reset(self, states: list[PartitionState]) -> None:
        """Find the offsets that the reset policy means."""
        isolation = IsolationLevel(int(self._config.is_read_committed))
        for node_id, asked in self._by_leader(states).items():
            generations = {state: state.generation for state in asked}
            targets = {state.topic_partition: state.reset_timestamp for state in asked}
            leaders = {state.topic_partition: leader for state, leader in asked.items()}
            found: dict[TopicPartition, FoundOffset] = {}
            try:
                failed = await ask_for_offsets(self._cluster, node_id, targets, leaders, isolation, found)
            except (ApiError, ClientError) as error:
                self._put_off(asked, error)
                continue
            for state, generation in generations.items():
                if not self._subscription.is_current(state, generation):
                    continue
                place = found.get(state.topic_partition)
                code = failed.get(state.topic_partition)
                if code is not None:
                    self._put_off([state], broker_error(known_code(code), f"partition {state.topic_partition}"))
                elif place is not None and place.offset >= 0:
                    state.seek(place.offset, place.leader_epoch)
                else:
                    state.reset(LATEST)  # there is no record of that time or later

    async def _validate(self, states: list[PartitionState]) -> None:
        """Ask the leaders where the epochs ended of which records were read."""
        for node_id, asked in self._by_leader(states).items():
            generations = {state: state.generation for state in asked}
            try:
                answers = await self._ask_for_ends(node_id, asked)
            except UnsupportedVersion:
                for state, leader in asked.items():
                    state.validated(leader.leader_epoch)  # a broker that cannot tell leaves no choice
                continue
            except (ApiError, ClientError) as error:
                self._put_off(asked, error)
                continue
            for state, leader in asked.items():
                answer = answers.get(state.topic_partition)
                if answer is not None and self._subscription.is_current(state, generations[state]):
                    self._take_end(state, leader, answer)

    def _take_end(self, state: PartitionState, leader: Leader, answer: EpochEndOffset) -> None:
        """Go on, or back to where the logs part."""
        if answer.error_code:
            error = broker_error(known_code(answer.error_code), f"partition {state.topic_partition}")
            self._put_off([state], error)
            return
        if answer.leader_epoch >= 0 and answer.end_offset >= state.position:
            state.validated(leader.leader_epoch)
            return
        what = f"partition {state.topic_partition}, offset {state.position} of leader epoch {state.position_epoch}"
        reset = reset_timestamp(self._config, self._cluster.clock.time_ms())
        if reset is None:
            raise LogTruncated(f"{what}: the new leader's log parts from it at {answer.end_offset}")
        _log.warning("%s: %s was truncated to %d", self._cluster.client_id, what, answer.end_offset)
        if answer.leader_epoch < 0 or answer.end_offset < 0:
            state.reset(reset)
        else:
            state.seek(answer.end_offset, answer.leader_epoch)
            state.leader_epoch = leader.leader_epoch

    async def _ask_for_ends(
        self, node_id: int, asked: Mapping[PartitionState, Leader]
    ) -> dict[TopicPartition, EpochEndOffset]:
        topics: dict[str, list[OffsetForLeaderPartition]] = defaultdict(list)
        for state, leader in asked.items():
            topic, partition = state.topic_partition
            topics[topic].append(
                OffsetForLeaderPartition(
                    partition=partition,
                    current_leader_epoch=leader.leader_epoch,
                    leader_epoch=state.position_epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=_CONSUMER,
            topics=[OffsetForLeaderTopic(topic=name, partitions=numbers) for name, numbers in topics.items()],
        )
        connection = await self._cluster.connection_to(node_id)
        response = await connection.request(request, OffsetForLeaderEpochResponse)
        return {
            TopicPartition(topic.topic, answer.partition): answer
            for topic in response.topics
            for answer in topic.partitions
        }

    def _by_leader(self, states: list[PartitionState]) -> dict[int, dict[PartitionState, Leader]]:
        """Sort partitions by who leads them; those that nobody is known to lead wait for metadata."""
        by_node: dict[int, dict[PartitionState, Leader]] = defaultdict(dict)
        unknown: list[PartitionState] = []
        for state in states:
            leader = self._cluster.known.leader_of(state.topic_partition)
            if leader is None:
                unknown.append(state)
            else:
                by_node[leader.node_id][state] = leader
        if unknown:
            self._cluster.expire_metadata()
            self._back_off(unknown)
        return by_node

    def _put_off(self, states: list[PartitionState] | Mapping[PartitionState, Leader], error: Exception) -> None:
        """Try again later what may succeed then, and raise what never will."""
        if not is_retriable(error):
            raise error
        _log.info("%s: %s", self._cluster.client_id, error)
        if calls_for_metadata(error):
            self._cluster.expire_metadata()
        self._back_off(list(states))

    def _back_off(self, states: list[PartitionState]) -> None:
        now = self._cluster.clock.monotonic()
        for state in states:
            state.back_off(now, self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)


_WAITING: Final = (Phase.STARTING, Phase.RESETTING, Phase.VALIDATING)
