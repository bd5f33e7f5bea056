"""Incremental fetch sessions: what is fetched, what is answered, whose session gives up its slot."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tailrace.broker.fetch_session import (
    EPOCH_FINAL,
    EPOCH_INITIAL,
    EPOCH_LAST,
    EVICTION_MS,
    FetchContext,
    FetchSessionCache,
    SessionPartition,
)
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tailrace.testing.virtual_clock import VirtualClock

BY_NAME = 12
BY_ID = 13
IDS = {bytes([number] * 16): f"topic-{number}" for number in range(1, 6)}


def topic_id(number: int) -> bytes:
    return bytes([number] * 16)


class Client:
    """Asks one cache and answers every partition with what `data` says."""

    def __init__(self, *, slots: int = 10, version: int = BY_NAME) -> None:
        self.clock = VirtualClock()
        self.cache = FetchSessionCache(self.clock, slots_max=slots, random=Random(1))
        self.version = version
        self.data: dict[int, PartitionData] = {}
        self.names = dict(IDS)

    def topics(self, numbers: Sequence[int], fetch_offset: int = 0) -> list[FetchTopic]:
        partitions = [FetchPartition(partition=number, fetch_offset=fetch_offset) for number in numbers]
        if not partitions:
            return []
        if self.version >= BY_ID:
            return [FetchTopic(topic_id=topic_id(1), partitions=partitions)]
        return [FetchTopic(topic="topic-1", partitions=partitions)]

    def open(
        self,
        numbers: Sequence[int] = (),
        *,
        session: int = 0,
        epoch: int = EPOCH_INITIAL,
        forget: Sequence[int] = (),
        fetch_offset: int = 0,
        replica: int = -1,
    ) -> FetchContext:
        forgotten = []
        if forget:
            name = {"topic_id": topic_id(1)} if self.version >= BY_ID else {"topic": "topic-1"}
            forgotten = [ForgottenTopic(partitions=list(forget), **name)]
        body = FetchRequest(
            session_id=session,
            session_epoch=epoch,
            topics=self.topics(numbers, fetch_offset),
            forgotten_topics_data=forgotten,
            replica_id=replica,
            replica_state=ReplicaState(replica_id=replica),
        )
        return self.cache.open_context(body, self.version, self.names.get)

    def answer(self, context: FetchContext) -> FetchResponse:
        return context.response((one, self.found(one)) for one in list(context.partitions))

    def found(self, one: SessionPartition) -> PartitionData:
        data = self.data.get(one.partition)
        return data or PartitionData(partition_index=one.partition, high_watermark=5, log_start_offset=0, records=b"")

    def fetch(self, numbers: Sequence[int] = (), **options: int) -> FetchResponse:
        return self.answer(self.open(numbers, **options))


def answered(response: FetchResponse) -> list[int]:
    return [data.partition_index for topic in response.responses for data in topic.partitions]


def fetched(context: FetchContext) -> list[tuple[int, int]]:
    return [(one.partition, one.fetch_offset) for one in context.partitions]


def data(number: int, *, high_watermark: int = 5, records: bytes = b"", **fields: object) -> PartitionData:
    return PartitionData(
        partition_index=number,
        high_watermark=high_watermark,
        log_start_offset=fields.pop("log_start_offset", 0),  # type: ignore[arg-type]
        records=records,
        **fields,  # type: ignore[arg-type]
    )


@pytest.fixture(params=[BY_NAME, BY_ID])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(version=request.param)


def test_a_fetch_without_a_session_answers_everything_and_leaves_nothing(client: Client) -> None:
    response = client.fetch([0, 1], epoch=EPOCH_FINAL)
    assert answered(response) == [0, 1]
    assert response.session_id == 0
    assert len(client.cache) == 0


def test_a_full_fetch_opens_a_session_and_increments_tell_news_only(client: Client) -> None:
    first = client.fetch([0, 1, 2])
    assert answered(first) == [0, 1, 2]
    assert first.session_id > 0
    assert (len(client.cache), client.cache.partition_count) == (1, 3)
    assert answered(client.fetch(session=first.session_id, epoch=1)) == []
    client.data[1] = data(1, records=b"batch")
    client.data[2] = data(2, high_watermark=6)
    second = client.fetch(session=first.session_id, epoch=2)
    assert answered(second) == [1, 2]
    assert second.session_id == first.session_id


def test_an_increment_changes_adds_and_forgets_partitions(client: Client) -> None:
    session = client.fetch([0, 1]).session_id
    context = client.open([1, 7], session=session, epoch=1, fetch_offset=40, forget=[0])
    assert fetched(context) == [(1, 40), (7, 40)]
    assert answered(client.answer(context)) == [7]
    assert client.cache.partition_count == 2


def test_partitions_that_gave_records_come_last_the_next_time(client: Client) -> None:
    session = client.fetch([0, 1, 2]).session_id
    client.data[0] = data(0, records=b"batch")
    client.fetch(session=session, epoch=1)
    assert [number for number, _ in fetched(client.open(session=session, epoch=2))] == [1, 2, 0]


@pytest.mark.parametrize(
    "news",
    [
        data(0, records=b"batch"),
        data(0, high_watermark=9),
        data(0, log_start_offset=3),
        data(0, preferred_read_replica=2),
        data(0, diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)),
        data(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_counts_as_news(client: Client, news: PartitionData) -> None:
    session = client.fetch([0]).session_id
    client.data[0] = news
    assert answered(client.fetch(session=session, epoch=1)) == [0]


def test_the_end_of_an_error_is_news(client: Client) -> None:
    session = client.fetch([0]).session_id
    client.data[0] = data(0, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    client.fetch(session=session, epoch=1)
    del client.data[0]
    assert answered(client.fetch(session=session, epoch=2)) == [0]
    assert answered(client.fetch(session=session, epoch=3)) == []


def test_an_unknown_session_and_a_wrong_epoch_are_errors(client: Client) -> None:
    session = client.fetch([0]).session_id
    assert client.open(session=session + 1, epoch=1).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    wrong = client.open(session=session, epoch=2)
    assert wrong.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert list(wrong.partitions) == []
    assert wrong.response([]) == FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert client.open(session=session, epoch=1).error == ErrorCode.NONE


def test_an_answer_that_was_overtaken_is_an_error(client: Client) -> None:
    session = client.fetch([0]).session_id
    parked = client.open(session=session, epoch=1)
    client.fetch(session=session, epoch=2)
    response = client.answer(parked)
    assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert response.session_id == session


def test_a_session_keeps_to_names_or_to_ids(client: Client) -> None:
    session = client.fetch([0]).session_id
    client.version = BY_ID if client.version == BY_NAME else BY_NAME
    assert client.open(session=session, epoch=1).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_the_final_epoch_closes_the_session(client: Client) -> None:
    session = client.fetch([0]).session_id
    assert answered(client.fetch([0], session=session, epoch=EPOCH_FINAL)) == [0]
    assert (len(client.cache), client.cache.partition_count) == (0, 0)


def test_a_new_full_fetch_replaces_the_session_it_names(client: Client) -> None:
    old = client.fetch([0]).session_id
    new = client.fetch([0, 1], session=old).session_id
    assert new not in (0, old)
    assert (len(client.cache), client.cache.partition_count) == (1, 2)


def test_a_session_that_forgets_everything_is_closed(client: Client) -> None:
    session = client.fetch([0]).session_id
    response = client.fetch(session=session, epoch=1, forget=[0])  # type: ignore[arg-type]
    assert (response.session_id, answered(response)) == (0, [])
    assert len(client.cache) == 0


def test_what_is_asked_for_and_forgotten_at_once_is_answered_a_last_time(client: Client) -> None:
    session = client.fetch([0]).session_id
    response = client.fetch([0], session=session, epoch=1, forget=[0])  # type: ignore[arg-type]
    assert (response.session_id, answered(response)) == (0, [0])
    assert len(client.cache) == 0


def test_epochs_wrap_around_to_one(client: Client) -> None:
    session = client.fetch([0]).session_id
    client.cache._sessions[session].epoch = EPOCH_LAST
    client.fetch(session=session, epoch=EPOCH_LAST)
    assert client.open(session=session, epoch=1).error == ErrorCode.NONE


def test_a_partition_named_twice_counts_as_named_last(client: Client) -> None:
    body = FetchRequest(session_epoch=EPOCH_FINAL, topics=client.topics([0], 1) + client.topics([0], 2))
    context = client.cache.open_context(body, client.version, client.names.get)
    assert fetched(context) == [(0, 2)]


def test_an_unknown_topic_id_gets_its_name_when_the_topic_appears() -> None:
    client = Client(version=BY_ID)
    client.names = {}
    context = client.open([0])
    assert [one.topic for one in context.partitions] == [None]
    client.data[0] = data(0, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    session = client.answer(context).session_id
    client.names = dict(IDS)
    assert [one.topic for one in client.open(session=session, epoch=1).partitions] == ["topic-1"]


def test_answers_are_grouped_by_topic_in_their_order() -> None:
    client = Client(version=BY_ID)
    topics = [
        FetchTopic(topic_id=topic_id(n), partitions=[FetchPartition(partition=p) for p in (0, 1)]) for n in (2, 1)
    ]
    context = client.cache.open_context(FetchRequest(session_epoch=EPOCH_FINAL, topics=topics), BY_ID, client.names.get)
    response = client.answer(context)
    assert [(topic.topic_id, len(topic.partitions)) for topic in response.responses] == [
        (topic_id(2), 2),
        (topic_id(1), 2),
    ]


def test_without_slots_there_are_no_sessions() -> None:
    client = Client(slots=0)
    assert client.fetch([0]).session_id == 0


def test_a_full_cache_gives_no_slot_to_an_equal() -> None:
    client = Client(slots=2)
    assert client.fetch([0]).session_id
    assert client.fetch([0]).session_id
    assert client.fetch([0, 1]).session_id == 0
    assert client.cache.eviction_count == 0


def test_the_longest_unused_session_gives_up_its_slot_after_two_minutes() -> None:
    client = Client(slots=2)
    old = client.fetch([0, 1, 2]).session_id
    client.clock.advance(EVICTION_MS)
    used = client.fetch([0]).session_id
    assert client.fetch([0]).session_id == 0
    client.clock.advance(1)
    new = client.fetch([0]).session_id
    assert new
    assert client.open(session=old, epoch=1).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.open(session=used, epoch=1).error == ErrorCode.NONE
    assert client.cache.eviction_count == 1


def test_an_old_session_in_use_gives_up_its_slot_to_a_larger_one_only() -> None:
    client = Client(slots=1)
    session = client.fetch([0, 1]).session_id
    for epoch in range(1, 4):
        client.clock.advance(EVICTION_MS / 2)
        client.fetch(session=session, epoch=epoch)
    assert client.fetch([0]).session_id == 0
    assert client.fetch([0, 1, 2]).session_id
    assert client.open(session=session, epoch=4).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_takes_a_consumers_slot_at_once_and_never_the_other_way_round() -> None:
    client = Client(slots=1)
    consumer = client.fetch(list(range(9))).session_id
    follower = client.fetch([0], replica=2).session_id
    assert follower
    assert client.open(session=consumer, epoch=1).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for epoch in range(1, 4):
        client.clock.advance(EVICTION_MS / 2)
        client.fetch(session=follower, epoch=epoch)
    assert client.fetch(list(range(9))).session_id == 0


def test_the_cache_never_holds_more_than_its_slots_and_counts_right() -> None:
    chance = Random(7)
    client = Client(slots=5)
    sessions: dict[int, int] = {}
    for _ in range(2000):
        client.clock.advance(chance.randrange(0, 40_000))
        if sessions and chance.random() < 0.6:
            session = chance.choice(list(sessions))
            context = client.open(
                chance.sample(range(9), chance.randrange(3)),
                session=session,
                epoch=sessions[session],
                forget=chance.sample(range(9), chance.randrange(2)),
            )
            client.answer(context)
            sessions[session] += 1
            if context.error or session not in client.cache._sessions:
                del sessions[session]
        else:
            numbers = chance.sample(range(9), chance.randrange(1, 9))
            session = client.fetch(numbers, replica=chance.choice([-1, -1, 3])).session_id
            if session:
                sessions[session] = 1
        held = client.cache._sessions.values()
        assert len(client.cache) <= 5
        assert client.cache.partition_count == sum(len(session.partitions) for session in held)
        assert len(client.cache._evictable_by_all) <= len(client.cache._evictable_by_privileged) <= len(client.cache)
