"""DeleteTopics: v1-v6.

v3: TOPIC_DELETION_DISABLED where v1 and v2 say INVALID_REQUEST. v5: quota of mutations (KIP-599), error messages.
v6: by topic id or by name (KIP-516); an id that is unknown is UNKNOWN_TOPIC_ID.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.metadata_store import TopicRegistration
from tailrace.broker.request import Request
from tailrace.broker.topic_administration import delete_topics
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tailrace.protocol.uuid import ZERO_UUID

TOPIC_ID_VERSION_FIRST = 6
DISABLED_CODE_VERSION_FIRST = 3


async def handle(broker: Broker, request: Request[DeleteTopicsRequest]) -> DeleteTopicsResponse:
    """Delete what can be deleted; each name and each id is answered once."""
    if not broker.config.delete_topic_enable:
        is_told = request.api_version >= DISABLED_CODE_VERSION_FIRST
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_told else ErrorCode.INVALID_REQUEST
        raise ApiError(code, "Topic deletion is disabled.")
    results: list[DeletableTopicResult] = []
    doomed: dict[bytes, TopicRegistration] = {}
    for wanted, topic, error in _resolved(broker, request):
        error = error or _refusal(broker, request, wanted, topic)
        if error is not None:
            results.append(_failed(wanted.name, wanted.topic_id, error))
        elif topic is not None:
            doomed[topic.topic_id] = topic
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id))
    await delete_topics(broker, doomed.values())
    mutations = sum(len(topic.partitions) for topic in doomed.values())
    throttle = broker.quotas.record_controller_mutations(request.connection, request.client_id, mutations)
    return DeleteTopicsResponse(throttle_time_ms=throttle, responses=results)


def error_response(request: Request[DeleteTopicsRequest], code: ErrorCode, message: str | None) -> DeleteTopicsResponse:
    """Put the error on every topic."""
    failure = ApiError(code, message or "")
    return DeleteTopicsResponse(
        responses=[_failed(wanted.name, wanted.topic_id, failure) for wanted in _wanted(request)]
    )


def _wanted(request: Request[DeleteTopicsRequest]) -> Iterable[DeleteTopicState]:
    if request.api_version >= TOPIC_ID_VERSION_FIRST:
        return request.body.topics
    return [DeleteTopicState(name=name) for name in request.body.topic_names]


def _resolved(
    broker: Broker, request: Request[DeleteTopicsRequest]
) -> Iterable[tuple[DeleteTopicState, TopicRegistration | None, ApiError | None]]:
    """Give each topic that was named, once, with what is wrong with how it was named."""
    wanted = list(_wanted(request))
    counts = Counter((topic.name, topic.topic_id) for topic in wanted)
    ids = {topic.topic_id for topic in wanted if topic.name is None}
    for (name, topic_id), count in counts.items():
        state = DeleteTopicState(name=name, topic_id=topic_id)
        if name is not None and topic_id != ZERO_UUID:
            yield state, None, _invalid("A topic is named by its name or by its id, not by both.")
        elif name is None and topic_id == ZERO_UUID:
            yield state, None, _invalid("Neither name nor id is given.")
        elif count > 1:
            yield state, None, _invalid("Duplicate topic id." if name is None else "Duplicate topic name.")
        elif name is None:
            topic = broker.metadata.topic_by_id(topic_id)
            twin = topic is not None and (topic.name, ZERO_UUID) in counts
            if not twin:  # else it is answered with its name, once
                yield state, topic, None
        else:
            topic = broker.metadata.topic(name)
            if topic is not None and topic.topic_id in ids:
                state = DeleteTopicState(name=name, topic_id=topic.topic_id)
                yield state, None, _invalid("The topic is given by its name and by its id.")
            else:
                yield state, topic, None


def _refusal(
    broker: Broker, request: Request[DeleteTopicsRequest], wanted: DeleteTopicState, topic: TopicRegistration | None
) -> ApiError | None:
    name = topic.name if topic is not None else wanted.name
    if name is not None:
        for operation in (AclOperation.DESCRIBE, AclOperation.DELETE):
            if not broker.authorizer.authorize(request.connection, operation, ResourceType.TOPIC, name):
                return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic is not None:
        return None
    if wanted.name is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "No topic of this cluster has that id.")
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No topic of this cluster has that name.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _failed(name: str | None, topic_id: bytes, error: ApiError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
