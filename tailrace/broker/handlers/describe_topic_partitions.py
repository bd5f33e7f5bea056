"""DescribeTopicPartitions: v0 (KIP-966), topics page by page, in the order of their names.

An answer has at most `response_partition_limit` partitions, and never more than max.request.partition.size.limit; a
cursor says where the next one goes on. Eligible leader replicas are empty: that feature is not finalized.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.broker.authorizer import AclOperation, ResourceType, authorized_operations
from tailrace.broker.broker import Broker
from tailrace.broker.partition_state import partition_states
from tailrace.broker.request import Request
from tailrace.broker.topic_names import is_internal, is_valid_topic_name
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_topic_partitions import (
    CursorResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(broker: Broker, request: Request[DescribeTopicPartitionsRequest]) -> DescribeTopicPartitionsResponse:
    """Describe topics from the cursor on, until the limit is reached."""
    body = request.body
    wants_all = not body.topics
    names = sorted(broker.metadata.topics if wants_all else {topic.name for topic in body.topics})
    first = 0
    if body.cursor is not None:
        if body.cursor.partition_index < 0 or not (wants_all or body.cursor.topic_name in names):
            raise ApiError(ErrorCode.INVALID_REQUEST, "the cursor is at no partition of the topics asked for")
        names = [name for name in names if name >= body.cursor.topic_name]
        if names and names[0] == body.cursor.topic_name:
            first = body.cursor.partition_index
    visible = [name for name in names if _may_describe(broker, request, name)]
    response = _pages(broker, request, visible, first)
    if not wants_all:
        hidden = [name for name in names if name not in set(visible)]
        response.topics += [_topic(broker, request, name, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in hidden]
    response.throttle_time_ms = broker.quotas.record_request(request.connection, request.client_id)
    return response


def error_response(
    request: Request[DescribeTopicPartitionsRequest], code: ErrorCode, message: str | None
) -> DescribeTopicPartitionsResponse:
    """Put the error on every topic."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in request.body.topics]
    )


def _pages(
    broker: Broker, request: Request[DescribeTopicPartitionsRequest], names: Sequence[str], first: int
) -> DescribeTopicPartitionsResponse:
    limit = max(min(request.body.response_partition_limit, broker.config.max_request_partition_size_limit), 1)
    response = DescribeTopicPartitionsResponse()
    for place, name in enumerate(names):
        topic = broker.metadata.topic(name)
        if topic is None:
            known = is_valid_topic_name(name)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.INVALID_TOPIC_EXCEPTION
            response.topics.append(_topic(broker, request, name, code))
            first = 0
            continue
        described = _topic(broker, request, name, ErrorCode.NONE)
        described.topic_id = topic.topic_id
        for state in partition_states(broker, topic, request.connection.listener_name, first=first, count=limit):
            described.partitions.append(
                DescribeTopicPartitionsResponsePartition(
                    error_code=state.error,
                    partition_index=state.number,
                    leader_id=state.leader,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=state.replicas,
                    isr_nodes=state.isr,
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                    offline_replicas=state.offline_replicas,
                )
            )
        response.topics.append(described)
        limit -= len(described.partitions)
        next_partition = first + len(described.partitions)
        first = 0
        if limit <= 0 and next_partition < len(topic.partitions):
            response.next_cursor = CursorResponse(topic_name=name, partition_index=next_partition)
            break
        if limit <= 0 and place + 1 < len(names):
            response.next_cursor = CursorResponse(topic_name=names[place + 1], partition_index=0)
            break
    return response


def _topic(
    broker: Broker, request: Request[DescribeTopicPartitionsRequest], name: str, code: ErrorCode
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=authorized_operations(
            broker.authorizer, request.connection, ResourceType.TOPIC, name
        ),
    )


def _may_describe(broker: Broker, request: Request[DescribeTopicPartitionsRequest], name: str) -> bool:
    return broker.authorizer.authorize(request.connection, AclOperation.DESCRIBE, ResourceType.TOPIC, name)
