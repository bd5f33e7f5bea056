"""A client's half of a fetch session: what is said, what is forgotten, and when everything is said again."""

from __future__ import annotations

import pytest

from tailrace.client.fetch_session import FetchSession, SessionFetch, Wanted
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import FetchResponse
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID

ID, OTHER_ID = b"i" * 16, b"j" * 16
A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)


def wanted(offset: int, *, topic_id: bytes = ID) -> Wanted:
    return Wanted(topic_id, offset, 1, 1000)


def said(fetch: SessionFetch) -> tuple[int, int, list[tuple[int, int]], list[int]]:
    partitions = [(p.partition, p.fetch_offset) for topic in fetch.topics for p in topic.partitions]
    return fetch.session_id, fetch.epoch, partitions, [n for topic in fetch.forgotten for n in topic.partitions]


def test_only_changes_are_said() -> None:
    session = FetchSession()
    assert said(session.build({A: wanted(0), B: wanted(5)})) == (0, 0, [(0, 0), (1, 5)], [])
    assert session.answered(FetchResponse(session_id=77))
    assert said(session.build({A: wanted(3), B: wanted(5)})) == (77, 1, [(0, 3)], [])
    assert session.answered(FetchResponse(session_id=77))
    assert said(session.build({B: wanted(5)})) == (77, 2, [], [0])
    assert session.answered(FetchResponse(session_id=77))
    assert said(session.build({A: wanted(3), B: wanted(5)})) == (77, 3, [(0, 3)], [])


@pytest.mark.parametrize(
    ("code", "session_id"), [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77)]
)
def test_everything_is_said_again_when_the_broker_has_forgotten(code: ErrorCode, session_id: int) -> None:
    session = FetchSession()
    session.build({A: wanted(0)})
    session.answered(FetchResponse(session_id=77))
    session.build({A: wanted(1)})
    assert not session.answered(FetchResponse(error_code=code))
    assert said(session.build({A: wanted(1)})) == (session_id, 0, [(0, 1)], [])


def test_everything_is_said_again_when_no_answer_came() -> None:
    session = FetchSession()
    session.build({A: wanted(0)})
    session.answered(FetchResponse(session_id=77))
    session.build({A: wanted(1)})
    session.failed()
    assert said(session.build({A: wanted(1)})) == (77, 0, [(0, 1)], [])


def test_a_broker_that_keeps_no_session_is_told_everything_each_time() -> None:
    session = FetchSession()
    for offset in range(3):
        assert said(session.build({A: wanted(offset)})) == (0, 0, [(0, offset)], [])
        assert session.answered(FetchResponse(session_id=0))


def test_a_topic_that_was_made_anew_is_forgotten_and_said() -> None:
    session = FetchSession()
    session.build({A: wanted(4)})
    session.answered(FetchResponse(session_id=77))
    fetch = session.build({A: wanted(0, topic_id=OTHER_ID)})
    assert [topic.topic_id for topic in fetch.topics] == [OTHER_ID]
    assert [topic.topic_id for topic in fetch.forgotten] == [ID]
    assert session.topic_of("", OTHER_ID) == "flights"


def test_names_take_the_place_of_ids_only_in_a_new_session() -> None:
    session = FetchSession()
    assert session.build({A: wanted(4)}).has_ids
    session.answered(FetchResponse(session_id=77))
    fetch = session.build({A: wanted(4, topic_id=ZERO_UUID)})
    assert (fetch.has_ids, fetch.is_full) == (False, True)
    assert session.topic_of("flights", ZERO_UUID) == "flights"
