"""ConsumerGroupDescribe: v0-v1.

v0: groups of the consumer protocol (KIP-848). v1: whether a member speaks the classic protocol (KIP-1099).
"""

from __future__ import annotations

from tailrace.broker.authorizer import (
    AUTHORIZED_OPERATIONS_OMITTED,
    AclOperation,
    ResourceType,
    authorized_operations,
)
from tailrace.broker.broker import Broker
from tailrace.broker.features import consumer_protocol_is_enabled
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

HIDDEN_TOPICS_MESSAGE = "The group has described topic(s) that the client is not authorized to describe."


def handle(broker: Broker, request: Request[ConsumerGroupDescribeRequest]) -> ConsumerGroupDescribeResponse:
    """Describe each group, or say why not."""
    if not consumer_protocol_is_enabled(broker.config, broker.metadata.features):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    return ConsumerGroupDescribeResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        groups=[_describe(broker, request, group_id) for group_id in request.body.group_ids],
    )


def error_response(request: Request[ConsumerGroupDescribeRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every group."""
    return ConsumerGroupDescribeResponse(
        groups=[_failed(group_id, code, message) for group_id in request.body.group_ids]
    )


def _describe(broker: Broker, request: Request[ConsumerGroupDescribeRequest], group_id: str) -> DescribedGroup:
    connection, authorizer = request.connection, broker.authorizer
    if not authorizer.authorize(connection, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return _failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED, None)
    try:
        group = broker.groups.describe_consumer_group(group_id)
    except ApiError as error:
        return _failed(group_id, error.code, error.message)
    topics = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }.union(*(member.subscribed_topic_names for member in group.members))
    hidden = [
        topic
        for topic in topics
        if not authorizer.authorize(connection, AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
    ]
    if hidden:
        return _failed(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, HIDDEN_TOPICS_MESSAGE)
    if request.body.include_authorized_operations:
        group.authorized_operations = authorized_operations(authorizer, connection, ResourceType.GROUP, group_id)
    return group


def _failed(group_id: str, code: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        error_code=code,
        error_message=message,
        authorized_operations=AUTHORIZED_OPERATIONS_OMITTED,
    )
