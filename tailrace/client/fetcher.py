"""Fetches what a consumer reads: one request to a node at a time, the next one sent before records are handed out.

What came waits in the order of its arrival; the first of it whose partition is not paused is next in line. Of each
partition at most two answers wait, so a consumer holds at most twice fetch.max.bytes of each node, and a node whose
partitions all wait for their reader is not asked. Fetches have a connection of their own: nothing else waits behind a
broker that waits for records. An error that passes is tried again after a pause; any other is raised in its turn.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tailrace.client.address import Address
from tailrace.client.cluster import Cluster
from tailrace.client.completed_fetch import AnyRecord, CompletedFetch, Decoding
from tailrace.client.errors import ClientError, broker_error, calls_for_metadata, known_code
from tailrace.client.fetch_session import FINAL_EPOCH, NO_SESSION, FetchSession, SessionFetch, Wanted
from tailrace.client.metadata import Node
from tailrace.client.subscription_state import NO_NODE, PartitionState, Phase, SubscriptionState
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ConsumerConfig

_log = logging.getLogger("tailrace.client")

_numbers = itertools.count()
BUFFERED_MAX: Final = 2
"""Answers of one partition that wait to be handed out."""
_NAMES_VERSION_MAX: Final = 12
"""The last version of Fetch that names topics; from 13 on it has their ids."""
_CLOSE_TIMEOUT_MS: Final = 1_000

_LATER: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""Errors of a partition that pass: with newer metadata, or with time."""

Requested = dict[TopicPartition, tuple[PartitionState, int, int]]
"""The partitions of a request, with the generation of their positions, and the offset that is asked for."""


class Fetcher:
    """The fetching half of one consumer; `changed` is called when something came or failed."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        decoding: Decoding,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._decoding = decoding
        self._changed = changed
        self._sessions: dict[int, FetchSession] = {}
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._completed: deque[CompletedFetch] = deque()
        self._lookup: asyncio.Task[None] | None = None
        self._lookup_not_before = 0.0
        self._is_closed = False
        self._failure: BaseException | None = None
        self._lane = f"fetch {next(_numbers)}"

    async def close(self) -> None:
        """Give up the fetches under way, and tell the brokers that their sessions are over."""
        self._is_closed = True
        tasks = [*self._in_flight.values()]
        busy = set(self._in_flight)
        if self._lookup is not None:
            tasks.append(self._lookup)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        endings = [self._end_session(node_id) for node_id in self._sessions if node_id not in busy]
        await asyncio.gather(*endings, return_exceptions=True)
        self._completed.clear()
        self._cluster.close_lane(self._lane)

    def send_fetches(self) -> None:
        """Ask every node that there is room for the answer of, and that no request is under way to."""
        now = self._cluster.clock.monotonic()
        wanted: dict[int, dict[TopicPartition, Wanted]] = defaultdict(dict)
        full: set[int] = set()
        has_unknown = False
        for key, state in self._subscription.partitions.items():
            if state.phase is not Phase.FETCHING and state.phase is not Phase.VALIDATING:
                continue
            leader = self._cluster.known.leader_of(key)
            if leader is None:
                has_unknown = True
                continue
            if state.learn_leader_epoch(leader.leader_epoch):
                self._changed()  # who looks after positions has to validate this one
            if not state.is_fetchable or state.not_before > now:
                continue
            replica = state.read_replica(now)
            node_id = replica if replica in self._cluster.known.nodes else leader.node_id
            if state.buffered_count >= BUFFERED_MAX:
                full.add(node_id)
            epoch = state.leader_epoch
            wanted[node_id][key] = Wanted(
                leader.topic_id, state.fetch_offset, epoch, self._config.max_partition_fetch_bytes
            )
        for node_id, partitions in wanted.items():
            if node_id not in self._in_flight and node_id not in full:
                self._start(node_id, partitions)
        if has_unknown:
            self.look_up_leaders()

    def collect(self, count_max: int) -> list[AnyRecord]:
        """Hand out up to so many records; an error of a partition is raised when nothing comes before it."""
        self._raise_failure()
        records: list[AnyRecord] = []
        while len(records) < count_max and (fetch := self._next_in_line()) is not None:
            try:
                if fetch.error_code:
                    if records:
                        break
                    self._drop(fetch)
                    self._handle_error(fetch)
                    continue
                taken = fetch.take(count_max - len(records))
            except (ApiError, ClientError, MalformedFrame):
                if records:
                    break
                self._retry_from_position(fetch)
                raise
            records += taken
            self._advance(fetch)
        return records

    def collect_completed(self, bytes_max: int) -> list[CompletedFetch]:
        """Hand out whole answers, some of which may be begun. Positions are behind them; see `give_back`."""
        self._raise_failure()
        taken: list[CompletedFetch] = []
        size = 0
        while size < bytes_max and (fetch := self._next_in_line()) is not None:
            if fetch.error_code:
                if taken:
                    break
                self._drop(fetch)
                self._handle_error(fetch)
                continue
            self._drop(fetch)
            fetch.state.advance(fetch.next_offset, fetch.last_epoch)
            taken.append(fetch)
            size += fetch.size_bytes
        return taken

    def give_back(self, fetches: Sequence[CompletedFetch]) -> None:
        """Take back answers that could not be read: they are fetched again, and may be right then."""
        first: dict[PartitionState, CompletedFetch] = {}
        for fetch in fetches:
            first.setdefault(fetch.state, fetch)
        for state, fetch in first.items():
            state.position = fetch.position
            self._retry_from_position(fetch)

    @property
    def has_completed(self) -> bool:
        """Whether something waits to be handed out."""
        return self._next_in_line() is not None

    def look_up_leaders(self) -> None:
        """Ask for the metadata of what is read, in the background."""
        now = self._cluster.clock.monotonic()
        if (self._lookup is None or self._lookup.done()) and self._lookup_not_before <= now and not self._is_closed:
            self._lookup_not_before = now + self._config.retry_backoff_ms / 1000
            self._lookup = asyncio.create_task(self._ask_for_leaders())

    def _next_in_line(self) -> CompletedFetch | None:
        """Give the first answer that may be handed out, and drop what is stale before it."""
        stale: list[CompletedFetch] = []
        found: CompletedFetch | None = None
        kept: set[PartitionState] = set()
        for fetch in self._completed:
            state = fetch.state
            if state in kept:
                continue  # it comes after one that waits for its partition to be resumed
            if not self._subscription.is_current(state, fetch.generation):
                stale.append(fetch)
            elif state.is_fetchable:
                assert fetch.position == state.position, (
                    f"{state.topic_partition}: what was fetched is not what is next"
                )
                found = fetch
                break
            else:
                kept.add(state)
        for fetch in stale:
            self._drop(fetch)
        return found

    def _advance(self, fetch: CompletedFetch) -> None:
        fetch.state.advance(fetch.position, fetch.epoch)
        if fetch.is_drained:
            self._drop(fetch)

    def _drop(self, fetch: CompletedFetch) -> None:
        self._completed.remove(fetch)
        if self._subscription.is_current(fetch.state, fetch.generation):
            fetch.state.buffered_count -= 1

    def _retry_from_position(self, fetch: CompletedFetch) -> None:
        """Fetch again from where the partition is, and throw away what was fetched behind."""
        state = fetch.state
        if self._subscription.is_current(state, fetch.generation):
            epoch, leader_epoch = state.position_epoch, state.leader_epoch
            state.seek(state.position, epoch)
            state.leader_epoch = leader_epoch
            self._back_off(state)

    def _handle_error(self, fetch: CompletedFetch) -> None:
        """Raise the error that came in place of records, or reset the position."""
        state, code = fetch.state, known_code(fetch.error_code)
        what = f"partition {state.topic_partition}, offset {fetch.fetch_offset}"
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.preferred_replica == fetch.node_id != NO_NODE:
                # A follower may be behind the leader; the leader knows whether the offset is gone.
                state.preferred_replica = NO_NODE
                state.seek(state.position, state.position_epoch)
                self._changed()
                return
            reset = self._reset_timestamp()
            if reset is not None:
                _log.info("%s: %s is out of range, going on by auto.offset.reset", self._cluster.client_id, what)
                state.reset(reset)
                self._changed()
                return
        self._retry_from_position(fetch)
        raise broker_error(code, what)

    def _raise_failure(self) -> None:
        """Raise what ended a fetch and is nothing that brokers or networks do."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _reset_timestamp(self) -> int | None:
        return reset_timestamp(self._config, self._cluster.clock.time_ms())

    def _start(self, node_id: int, partitions: Mapping[TopicPartition, Wanted]) -> None:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = FetchSession()
        states = self._subscription.partitions
        requested: Requested = {
            key: (states[key], states[key].generation, wanted.fetch_offset) for key, wanted in partitions.items()
        }
        task = asyncio.create_task(self._fetch(node_id, session, session.build(partitions), requested))
        self._in_flight[node_id] = task
        task.add_done_callback(lambda done: self._fetched(node_id, done))

    def _fetched(self, node_id: int, task: asyncio.Task[None]) -> None:
        del self._in_flight[node_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = error
        self._changed()

    async def _fetch(self, node_id: int, session: FetchSession, fetch: SessionFetch, requested: Requested) -> None:
        """Send one request, and keep what it answers."""
        config = self._config
        request = FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=int(config.is_read_committed),
            session_id=fetch.session_id,
            session_epoch=fetch.epoch,
            topics=fetch.topics,
            forgotten_topics_data=fetch.forgotten,
            rack_id=config.client_rack,
        )
        try:
            connection = await self._cluster.connection_to(node_id, lane=self._lane)
            version_max = None if fetch.has_ids else _NAMES_VERSION_MAX
            response = await connection.request(request, FetchResponse, version_max=version_max)
        except (ApiError, ClientError) as error:
            session.failed()
            self._fail(requested, error)
            return
        except asyncio.CancelledError:
            session.failed()
            raise
        if not session.answered(response):
            self._session_error(response.error_code, requested)
            return
        nodes = [Node(n.node_id, Address(n.host, n.port), n.rack) for n in response.node_endpoints]
        for topic in response.responses:
            name = session.topic_of(topic.topic, topic.topic_id)
            for data in topic.partitions:
                self._keep(node_id, TopicPartition(name, data.partition_index), data, requested, nodes)

    def _session_error(self, code: int, requested: Requested) -> None:
        """Begin the session anew at once where that is all that is needed."""
        if code in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
            return
        self._fail(requested, broker_error(known_code(code), "fetch"))

    def _fail(self, requested: Requested, error: ApiError | ClientError) -> None:
        """Leave all partitions of a request alone for a while."""
        _log.info("%s: a fetch of %d partitions failed: %s", self._cluster.client_id, len(requested), error)
        if calls_for_metadata(error):
            self._cluster.expire_metadata()
        for state, generation, _ in requested.values():
            if self._subscription.is_current(state, generation):
                state.preferred_replica = NO_NODE
                self._back_off(state)

    def _back_off(self, state: PartitionState) -> None:
        state.back_off(
            self._cluster.clock.monotonic(), self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        )

    def _keep(
        self, node_id: int, key: TopicPartition, data: PartitionData, requested: Requested, nodes: list[Node]
    ) -> None:
        """Take one partition's part of an answer, unless it is stale."""
        asked = requested.get(key)
        if asked is None or not self._subscription.is_current(*asked[:2]) or asked[0].fetch_offset != asked[2]:
            return
        state = asked[0]
        if data.error_code in _LATER:
            self._wait_for_leader(state, key, data, nodes)
            return
        if not data.error_code:
            state.attempts, state.not_before = 0, 0.0
            state.high_watermark = data.high_watermark
            state.last_stable_offset = data.last_stable_offset
            state.log_start_offset = data.log_start_offset
            if data.preferred_read_replica >= 0:
                state.preferred_replica = data.preferred_read_replica
                state.preferred_until = self._cluster.clock.monotonic() + self._config.metadata_max_age_ms / 1000
            if not data.records:
                return
        fetch = CompletedFetch(state, data, self._decoding, node_id=node_id)
        if not data.error_code:
            try:
                state.fetch_offset = fetch.next_offset
            except (ApiError, MalformedFrame):
                # The batch is corrupt: that is raised when it is its turn, and until then it is not fetched again.
                fetch.error_code = ErrorCode.CORRUPT_MESSAGE
        state.buffered_count += 1 if not fetch.error_code else BUFFERED_MAX
        self._completed.append(fetch)

    def _wait_for_leader(
        self, state: PartitionState, key: TopicPartition, data: PartitionData, nodes: list[Node]
    ) -> None:
        """Take the leader that the answer names, or ask for metadata, and try again later."""
        state.preferred_replica = NO_NODE
        leader = data.current_leader
        if leader.leader_id >= 0 and self._cluster.learn_leader(key, leader.leader_id, leader.leader_epoch, nodes):
            return
        error = broker_error(known_code(data.error_code), f"partition {key}")
        _log.debug("%s: %s", self._cluster.client_id, error)
        if calls_for_metadata(error) or data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH:
            self._cluster.expire_metadata()
        self._back_off(state)

    async def _ask_for_leaders(self) -> None:
        topics = {key.topic for key in self._subscription.partitions}
        try:
            await self._cluster.metadata(topics, allow_auto_topic_creation=self._config.allow_auto_create_topics)
        except (ApiError, ClientError) as error:
            _log.warning("%s: metadata was not refreshed: %s", self._cluster.client_id, error)
        self._changed()

    async def _end_session(self, node_id: int) -> None:
        """Tell a broker that it may forget a session."""
        session = self._sessions[node_id]
        if session.session_id == NO_SESSION or node_id not in self._cluster.known.nodes:
            return
        connection = await self._cluster.connection_to(node_id, lane=self._lane)
        request = FetchRequest(session_id=session.session_id, session_epoch=FINAL_EPOCH)
        await connection.request(request, FetchResponse, timeout_ms=_CLOSE_TIMEOUT_MS)


def reset_timestamp(config: ConsumerConfig, now_ms: int) -> int | None:
    """Say which offset auto.offset.reset means, as ListOffsets asks for it; None raises an error."""
    reset = config.offset_reset
    numbers: dict[str, int | None] = {"earliest": -2, "latest": -1, "none": None}
    return numbers[reset.word] if reset.word in numbers else now_ms - reset.duration_ms
