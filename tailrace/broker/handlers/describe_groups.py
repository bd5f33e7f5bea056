"""DescribeGroups: v0-v6, groups of the classic protocol; ConsumerGroupDescribe has the others.

v3: authorized operations (KIP-430). v4: group instance ids (KIP-345). v5: flexible. v6: a group that is not there is
GROUP_ID_NOT_FOUND, with a message; before, it is a dead one (KIP-1043).
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType, authorized_operations
from tailrace.broker.broker import Broker
from tailrace.broker.groups.classic_group import ClassicState
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

NOT_FOUND_VERSION_FIRST = 6


def handle(broker: Broker, request: Request[DescribeGroupsRequest]) -> DescribeGroupsResponse:
    """Describe each group."""
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    groups = [_describe(broker, request, group_id) for group_id in request.body.groups]
    return DescribeGroupsResponse(throttle_time_ms=throttle, groups=groups)


def error_response(request: Request[DescribeGroupsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every group."""
    del message  # none of Kafka's answers to a whole request has one
    groups = [DescribedGroup(group_id=group_id, error_code=code) for group_id in request.body.groups]
    return DescribeGroupsResponse(groups=groups)


def _describe(broker: Broker, request: Request[DescribeGroupsRequest], group_id: str) -> DescribedGroup:
    authorizer, connection = broker.authorizer, request.connection
    if not authorizer.authorize(connection, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        described = broker.groups.describe(group_id)
    except ApiError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            return DescribedGroup(group_id=group_id, error_code=error.code)
        described = DescribedGroup(group_id=group_id, group_state=ClassicState.DEAD)
        if request.api_version >= NOT_FOUND_VERSION_FIRST:
            described.error_code = error.code
            described.error_message = error.message
    if request.body.include_authorized_operations and not described.error_code:
        described.authorized_operations = authorized_operations(authorizer, connection, ResourceType.GROUP, group_id)
    return described
