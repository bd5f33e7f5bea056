"""CreatePartitions: v0-v3. v2: flexible. v3: quota of mutations (KIP-599).

Every topic of the request is echoed, in the order it was given.
"""

from __future__ import annotations

from collections import Counter

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Request
from tailrace.broker.topic_administration import grow_topic
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(broker: Broker, request: Request[CreatePartitionsRequest]) -> CreatePartitionsResponse:
    """Add partitions to each topic that can grow."""
    counts = Counter(topic.name for topic in request.body.topics)
    results: dict[str, CreatePartitionsTopicResult] = {}
    mutations = 0
    for topic in request.body.topics:
        if topic.name in results:
            continue
        present = broker.metadata.topic(topic.name)
        try:
            if counts[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            await _grow(broker, request, topic)
        except ApiError as error:
            results[topic.name] = _result(topic.name, error.code, error.message)
        else:
            results[topic.name] = _result(topic.name, ErrorCode.NONE, None)
            mutations += topic.count - len(present.partitions) if present is not None else 0
    throttle = broker.quotas.record_controller_mutations(request.connection, request.client_id, mutations)
    return CreatePartitionsResponse(throttle_time_ms=throttle, results=list(results.values()))


def error_response(
    request: Request[CreatePartitionsRequest], code: ErrorCode, message: str | None
) -> CreatePartitionsResponse:
    """Put the error on every topic."""
    return CreatePartitionsResponse(results=[_result(topic.name, code, message) for topic in request.body.topics])


async def _grow(broker: Broker, request: Request[CreatePartitionsRequest], topic: CreatePartitionsTopic) -> None:
    if not broker.authorizer.authorize(request.connection, AclOperation.ALTER, ResourceType.TOPIC, topic.name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    given = topic.assignments
    await grow_topic(
        broker,
        topic.name,
        count=topic.count,
        assignments=None if given is None else [assignment.broker_ids for assignment in given],
        validate_only=request.body.validate_only,
    )


def _result(name: str, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
