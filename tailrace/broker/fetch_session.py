"""Incremental fetch sessions (KIP-227): what a client fetches is remembered, and only what changed travels.

A full fetch with epoch 0 opens a session, epochs 1, 2, ... continue it, epoch -1 fetches without one (and closes the
one it names). `FetchSessionCache.open_context` reads a request and gives a `FetchContext`: which partitions to fetch,
and how the answer is made from what was found. From v13 on partitions are known by topic id (KIP-516), before by name;
a session stays with the kind it was opened with.

The cache is bounded by `max.incremental.fetch.session.cache.slots`. A session gives up its slot when it was idle for
two minutes, or to a more important one: followers before consumers, then the one with more partitions.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, ValuesView
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from tailrace.clock import Clock
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tailrace.protocol.uuid import ZERO_UUID

if TYPE_CHECKING:
    from tailrace.broker.partition import Partition

TOPIC_ID_VERSION_FIRST = 13
NO_SESSION = 0
EPOCH_INITIAL = 0
EPOCH_FINAL = -1
EPOCH_LAST = 2**31 - 1
EVICTION_MS = 120_000

PartitionKey: TypeAlias = tuple[str | bytes, int]
TopicNames: TypeAlias = Callable[[bytes], str | None]
EvictableKey: TypeAlias = tuple[bool, int, int]


@dataclass(slots=True, eq=False)
class SessionPartition:
    """A partition as the client asked for it, and as it was last answered.

    `topic` is None while nothing is known by the topic id (UNKNOWN_TOPIC_ID). `high_watermark` and
    `local_log_start_offset` are what the client was told; -1 makes sure that it is told again. `found` is where the
    replica manager found it the last time, so that it need not look again in each request of a session.
    """

    topic: str | None
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int
    high_watermark: int = -1
    local_log_start_offset: int = -1
    found: Partition | None = None

    def update(self, asked: FetchPartition) -> None:
        """Take over what a later request says."""
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset

    def remember(self, found: PartitionData) -> None:
        """Note what the client is told."""
        self.high_watermark = found.high_watermark
        self.local_log_start_offset = found.log_start_offset

    def is_news(self, found: PartitionData) -> bool:
        """Say whether the client has to hear this, and note it if so."""
        news = bool(found.records)
        if self.high_watermark != found.high_watermark:
            self.high_watermark = found.high_watermark
            news = True
        if self.local_log_start_offset != found.log_start_offset:
            self.local_log_start_offset = found.log_start_offset
            news = True
        if found.error_code:
            # The next answer without an error has to be sent too, or the client would not learn of it.
            self.high_watermark = -1
            return True
        return news or found.preferred_read_replica >= 0 or found.diverging_epoch.epoch >= 0


Found: TypeAlias = tuple[SessionPartition, PartitionData]


class FetchSession:
    """The partitions one client fetches, in the order in which they come next."""

    __slots__ = (
        "counted_size",
        "created_ms",
        "epoch",
        "evictable_key",
        "id",
        "is_old",
        "last_used_ms",
        "partitions",
        "privileged",
        "uses_topic_ids",
    )

    def __init__(self, session_id: int, *, privileged: bool, uses_topic_ids: bool, created_ms: float) -> None:
        self.id = session_id
        self.privileged = privileged
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = created_ms
        self.last_used_ms = created_ms
        self.epoch = 1
        self.partitions: dict[PartitionKey, SessionPartition] = {}
        self.counted_size = 0
        """How many partitions it had when it was last used."""
        self.is_old = False
        """Whether it was then old enough for any other to take its slot."""
        self.evictable_key: EvictableKey | None = None


class FetchContext:
    """One fetch request: what to fetch and how to answer. This one is without a session."""

    __slots__ = ("_partitions",)

    error: ErrorCode = ErrorCode.NONE
    """Where it is not NONE, nothing is to be fetched and `response([])` carries it."""

    def __init__(self, partitions: dict[PartitionKey, SessionPartition]) -> None:
        self._partitions = partitions

    @property
    def partitions(self) -> ValuesView[SessionPartition]:
        """What to fetch, in this order."""
        return self._partitions.values()

    def response(self, found: Iterable[Found]) -> FetchResponse:
        """Make the answer from what was found in each partition."""
        return _response(NO_SESSION, found)


class FailedContext(FetchContext):
    """A request whose session id or epoch is wrong: the client starts again with a full fetch."""

    __slots__ = ("error",)

    def __init__(self, error: ErrorCode) -> None:
        super().__init__({})
        self.error = error

    def response(self, found: Iterable[Found]) -> FetchResponse:
        """Make the answer that carries the error."""
        return FetchResponse(error_code=self.error)


class FullContext(FetchContext):
    """A full fetch that asks for a session; everything is answered, and remembered if there is room."""

    __slots__ = ("_cache", "_privileged", "_uses_topic_ids")

    def __init__(
        self,
        partitions: dict[PartitionKey, SessionPartition],
        cache: FetchSessionCache,
        *,
        privileged: bool,
        uses_topic_ids: bool,
    ) -> None:
        super().__init__(partitions)
        self._cache = cache
        self._privileged = privileged
        self._uses_topic_ids = uses_topic_ids

    def response(self, found: Iterable[Found]) -> FetchResponse:
        """Make the answer and open the session."""
        results = list(found)
        for partition, data in results:
            partition.remember(data)
        session = self._cache.create(self._partitions, privileged=self._privileged, uses_topic_ids=self._uses_topic_ids)
        return _response(NO_SESSION if session is None else session.id, results)


class IncrementalContext(FetchContext):
    """A fetch within a session: partitions without news are left out of the answer."""

    __slots__ = ("_epoch", "_session")

    def __init__(self, session: FetchSession) -> None:
        self._partitions = session.partitions
        self._session = session
        self._epoch = session.epoch

    def response(self, found: Iterable[Found]) -> FetchResponse:
        """Make the answer from what is news; partitions that gave records go to the end of the order."""
        session = self._session
        if session.epoch != self._epoch:
            # The client used the session again while this request was parked: it cannot mean this answer any more.
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id)
        news: list[Found] = []
        partitions = session.partitions
        for entry in found:
            partition, data = entry
            if partition.is_news(data):
                news.append(entry)
                if data.records and len(partitions) > 1:
                    key = _key(partition, session.uses_topic_ids)
                    if partitions.pop(key, None) is not None:
                        partitions[key] = partition
        return _response(session.id, news)


class FetchSessionCache:
    """The sessions of one broker, at most `slots_max` of them."""

    def __init__(self, clock: Clock, *, slots_max: int, random: Random | None = None) -> None:
        self.slots_max = slots_max
        self.eviction_count = 0
        self.partition_count = 0
        self._clock = clock
        self._random = random or Random()
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the longest unused one first
        self._evictable_by_all: list[EvictableKey] = []
        self._evictable_by_privileged: list[EvictableKey] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def open_context(self, body: FetchRequest, version: int, topic_names: TopicNames) -> FetchContext:
        """Read a request; `topic_names` gives the name of a topic id, or None where there is none."""
        uses_topic_ids = version >= TOPIC_ID_VERSION_FIRST
        if body.session_epoch in (EPOCH_INITIAL, EPOCH_FINAL):
            if body.session_id != NO_SESSION:
                self.remove(body.session_id)
            partitions: dict[PartitionKey, SessionPartition] = {}
            _update(partitions, body, uses_topic_ids, topic_names)
            if body.session_epoch == EPOCH_FINAL:
                return FetchContext(partitions)
            privileged = (body.replica_state.replica_id if version >= 15 else body.replica_id) >= 0
            return FullContext(partitions, self, privileged=privileged, uses_topic_ids=uses_topic_ids)
        session = self._sessions.get(body.session_id)
        if session is None:
            return FailedContext(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != body.session_epoch:
            return FailedContext(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FailedContext(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return self._continue(session, body, topic_names)

    def create(
        self, partitions: dict[PartitionKey, SessionPartition], *, privileged: bool, uses_topic_ids: bool
    ) -> FetchSession | None:
        """Open a session if there is a slot, or one that can be taken from a lesser session."""
        now = self._now_ms()
        if len(self._sessions) >= self.slots_max and not self._evict((privileged, len(partitions), 0), now):
            return None
        session = FetchSession(self._unused_id(), privileged=privileged, uses_topic_ids=uses_topic_ids, created_ms=now)
        session.partitions = partitions
        self._sessions[session.id] = session
        self._touch(session, now)
        return session

    def remove(self, session_id: int) -> None:
        """Close a session; no effect if there is none of this id."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._drop_evictable(session)
            self.partition_count -= session.counted_size

    def _continue(self, session: FetchSession, body: FetchRequest, topic_names: TopicNames) -> FetchContext:
        partitions = session.partitions
        if body.topics:
            _update(partitions, body, session.uses_topic_ids, topic_names)
        for forgotten in body.forgotten_topics_data:
            name: str | bytes = forgotten.topic_id if session.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                partitions.pop((name, index), None)
        if not partitions:
            # What this request asks for is still answered, also where it is forgotten in the same breath.
            self.remove(session.id)
            asked: dict[PartitionKey, SessionPartition] = {}
            _update(asked, body, session.uses_topic_ids, topic_names)
            return FetchContext(asked)
        if session.uses_topic_ids:
            for partition in partitions.values():
                if partition.topic is None:
                    partition.topic = topic_names(partition.topic_id)
        self._touch(session, self._now_ms())
        session.epoch = 1 if session.epoch == EPOCH_LAST else session.epoch + 1
        return IncrementalContext(session)

    def _touch(self, session: FetchSession, now: float) -> None:
        """Note that a session was used, and how it now ranks when a slot is wanted."""
        self._sessions.move_to_end(session.id)
        session.last_used_ms = now
        size = len(session.partitions)
        is_old = now - session.created_ms > EVICTION_MS
        if size == session.counted_size and is_old == session.is_old:
            return
        self._drop_evictable(session)
        self.partition_count += size - session.counted_size
        session.counted_size = size
        session.is_old = is_old
        key = session.evictable_key = (session.privileged, size, session.id)
        if is_old:
            insort(self._evictable_by_all, key)
        if is_old or not session.privileged:
            insort(self._evictable_by_privileged, key)

    def _evict(self, wanted_by: EvictableKey, now: float) -> bool:
        """Free a slot for a session of this rank, if one may be taken."""
        if not self._sessions:
            return False
        idle = next(iter(self._sessions.values()))
        if now - idle.last_used_ms > EVICTION_MS:
            self._evict_one(idle.id)
            return True
        candidates = self._evictable_by_privileged if wanted_by[0] else self._evictable_by_all
        if not candidates or candidates[0] >= wanted_by:
            return False
        self._evict_one(candidates[0][2])
        return True

    def _evict_one(self, session_id: int) -> None:
        self.remove(session_id)
        self.eviction_count += 1

    def _drop_evictable(self, session: FetchSession) -> None:
        key = session.evictable_key
        for keys in (self._evictable_by_all, self._evictable_by_privileged):
            if key is not None and _contains(keys, key):
                del keys[bisect_left(keys, key)]

    def _unused_id(self) -> int:
        while True:
            session_id = self._random.randrange(1, 2**31 - 1)
            if session_id not in self._sessions:
                return session_id

    def _now_ms(self) -> float:
        return self._clock.monotonic() * 1000


def _contains(keys: list[EvictableKey], key: EvictableKey) -> bool:
    index = bisect_left(keys, key)
    return index < len(keys) and keys[index] == key


def _key(partition: SessionPartition, uses_topic_ids: bool) -> PartitionKey:
    return (partition.topic_id if uses_topic_ids else partition.topic or "", partition.partition)


def _update(
    partitions: dict[PartitionKey, SessionPartition], body: FetchRequest, uses_topic_ids: bool, topic_names: TopicNames
) -> None:
    """Put what a request asks for into `partitions`; a partition named twice counts as it was named last."""
    for topic in body.topics:
        name: str | bytes = topic.topic_id if uses_topic_ids else topic.topic
        for asked in topic.partitions:
            key = (name, asked.partition)
            known = partitions.get(key)
            if known is not None:
                known.update(asked)
                continue
            partitions[key] = SessionPartition(
                topic_names(topic.topic_id) if uses_topic_ids else topic.topic,
                topic.topic_id if uses_topic_ids else ZERO_UUID,
                asked.partition,
                asked.fetch_offset,
                asked.partition_max_bytes,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
                asked.log_start_offset,
            )


def _response(session_id: int, found: Iterable[Found]) -> FetchResponse:
    """Group what is answered by topic; neighbours of one topic share an entry, as Kafka's answers do."""
    responses: list[FetchableTopicResponse] = []
    current: FetchableTopicResponse | None = None
    for partition, data in found:
        topic, topic_id = partition.topic or "", partition.topic_id
        if current is None or current.topic_id != topic_id or current.topic != topic:
            current = FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=[data])
            responses.append(current)
        else:
            current.partitions.append(data)
    return FetchResponse(session_id=session_id, responses=responses)
