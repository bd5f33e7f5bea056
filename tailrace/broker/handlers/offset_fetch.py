"""OffsetFetch: v1-v9 (v10, with topic ids, is unstable in Kafka 4.1 and not advertised).

v2: null asks for all topics, and the group has an error of its own (KIP-88). v5: leader epochs (KIP-320). v6: flexible.
v7: require_stable (KIP-447). v8: several groups (KIP-709). v9: members of consumer groups (KIP-848).

A partition without an offset answers -1 and no error: never an offset that nobody committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.groups.offset_requests import FetchedOffset, FetchedTopics
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

TOP_LEVEL_ERROR_VERSION_FIRST = 2
GROUPS_VERSION_FIRST = 8


@dataclass(slots=True)
class _GroupAnswer:
    """What is answered about one group, in whichever version."""

    asked: OffsetFetchRequestGroup
    topics: FetchedTopics = field(default_factory=list[tuple[str, list[FetchedOffset]]])
    error: ErrorCode = ErrorCode.NONE


def handle(broker: Broker, request: Request[OffsetFetchRequest]) -> Result:
    """Answer each group's offsets; the answer waits for the last of them."""
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    answers = [_GroupAnswer(asked) for asked in _asked_groups(request)]
    parked = Parked()
    left = len(answers)

    def on_done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            parked.complete(_response(request, answers, throttle))

    for answer in answers:
        _Fetch(broker, request, answer).run(on_done)
    return parked.result() if answers else _response(request, answers, throttle)


def error_response(request: Request[OffsetFetchRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every group."""
    del message  # the response has no room for one
    return _response(request, [_GroupAnswer(asked, error=code) for asked in _asked_groups(request)], 0)


def _asked_groups(request: Request[OffsetFetchRequest]) -> list[OffsetFetchRequestGroup]:
    body = request.body
    if request.api_version >= GROUPS_VERSION_FIRST:
        return body.groups
    topics = body.topics
    return [
        OffsetFetchRequestGroup(
            group_id=body.group_id,
            topics=None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics
            ],
        )
    ]


class _Fetch:
    """The fetch of one group's offsets on the way."""

    def __init__(self, broker: Broker, request: Request[OffsetFetchRequest], answer: _GroupAnswer) -> None:
        self._broker = broker
        self._request = request
        self._answer = answer

    def run(self, on_done: Callable[[], object]) -> None:
        """Fetch what may be fetched, and call back when the answer is whole."""
        asked = self._answer.asked
        readable = None if asked.topics is None else [topic for topic in asked.topics if self._may_read(topic.name)]

        def fetched(topics: FetchedTopics, code: ErrorCode) -> None:
            self._answer.error = code
            self._answer.topics = self._complete(topics)
            on_done()

        try:
            self._check_group(asked.group_id)
            self._broker.groups.fetch_offsets(
                asked.group_id,
                None if readable is None else [(topic.name, topic.partition_indexes) for topic in readable],
                member_id=asked.member_id,
                member_epoch=asked.member_epoch,
                require_stable=self._request.body.require_stable,
                on_done=fetched,
            )
        except ApiError as error:
            self._broker.metrics.record_error("OffsetFetch", error.code)
            self._answer.error = error.code
            on_done()

    def _check_group(self, group_id: str) -> None:
        if not self._broker.authorizer.authorize(
            self._request.connection, AclOperation.DESCRIBE, ResourceType.GROUP, group_id
        ):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def _may_read(self, topic: str) -> bool:
        return self._broker.authorizer.authorize(
            self._request.connection, AclOperation.DESCRIBE, ResourceType.TOPIC, topic
        )

    def _complete(self, topics: FetchedTopics) -> FetchedTopics:
        """Leave out, or answer with an error, the topics that the client may not see."""
        asked = self._answer.asked.topics
        if asked is None:
            return [entry for entry in topics if self._may_read(entry[0])]
        known = iter(topics)
        complete: FetchedTopics = []
        for topic in asked:
            if self._may_read(topic.name):
                complete.append(next(known))
            else:
                complete.append((topic.name, _failed(topic.partition_indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
        return complete


def _failed(partitions: Sequence[int], code: ErrorCode) -> list[FetchedOffset]:
    return [FetchedOffset(partition, error=code) for partition in partitions]


def _response(
    request: Request[OffsetFetchRequest], answers: Sequence[_GroupAnswer], throttle_time_ms: int
) -> OffsetFetchResponse:
    if request.api_version >= GROUPS_VERSION_FIRST:
        groups = [_group_response(answer) for answer in answers]
        return OffsetFetchResponse(throttle_time_ms=throttle_time_ms, groups=groups)
    (answer,) = answers
    topics = answer.topics
    if answer.error and request.api_version < TOP_LEVEL_ERROR_VERSION_FIRST:
        asked = answer.asked.topics or []
        topics = [(topic.name, _failed(topic.partition_indexes, answer.error)) for topic in asked]
    return OffsetFetchResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=answer.error,
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=found.partition,
                        committed_offset=found.offset,
                        committed_leader_epoch=found.leader_epoch,
                        metadata=found.metadata,
                        error_code=found.error,
                    )
                    for found in offsets
                ],
            )
            for name, offsets in topics
        ],
    )


def _group_response(answer: _GroupAnswer) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=answer.asked.group_id,
        error_code=answer.error,
        topics=[
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=found.partition,
                        committed_offset=found.offset,
                        committed_leader_epoch=found.leader_epoch,
                        metadata=found.metadata,
                        error_code=found.error,
                    )
                    for found in offsets
                ],
            )
            for name, offsets in answer.topics
        ],
    )
