"""OffsetDelete: v0 (KIP-496). Deletes committed offsets of topics that the group's members do not read."""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

ToDelete = tuple[str, int, OffsetDeleteResponsePartition]


def handle(broker: Broker, request: Request[OffsetDeleteRequest]) -> Result:
    """Delete offsets, each with an answer of its own."""
    body = request.body
    if not broker.authorizer.authorize(request.connection, AclOperation.DELETE, ResourceType.GROUP, body.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    to_delete: list[ToDelete] = []
    topics = [_examine(broker, request, topic, to_delete) for topic in body.topics]
    response = OffsetDeleteResponse(throttle_time_ms=throttle, topics=topics)
    parked = Parked()

    def on_done(code: ErrorCode) -> None:
        if code:
            response.error_code = code
            response.topics = []
        parked.complete(response)

    broker.groups.delete_offsets(body.group_id, to_delete, on_done=on_done)
    return parked.result()


def error_response(request: Request[OffsetDeleteRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer that the request as a whole failed."""
    del message  # the response has no room for one
    return OffsetDeleteResponse(error_code=code)


def _examine(
    broker: Broker, request: Request[OffsetDeleteRequest], topic: OffsetDeleteRequestTopic, to_delete: list[ToDelete]
) -> OffsetDeleteResponseTopic:
    known = broker.metadata.topic(topic.name)
    partition_count = 0 if known is None else len(known.partitions)
    fault = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not broker.authorizer.authorize(request.connection, AclOperation.READ, ResourceType.TOPIC, topic.name):
        fault, partition_count = ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0
    answers: list[OffsetDeleteResponsePartition] = []
    for asked in topic.partitions:
        answer = OffsetDeleteResponsePartition(partition_index=asked.partition_index)
        answers.append(answer)
        if 0 <= asked.partition_index < partition_count:
            to_delete.append((topic.name, asked.partition_index, answer))
        else:
            answer.error_code = fault
    return OffsetDeleteResponseTopic(name=topic.name, partitions=answers)
