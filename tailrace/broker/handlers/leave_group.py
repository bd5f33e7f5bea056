"""LeaveGroup: v0-v5.

v3: several members at once, also by their group instance ids alone (KIP-345). v4: flexible. v5: reasons (KIP-800).
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

MEMBERS_VERSION_FIRST = 3


def handle(broker: Broker, request: Request[LeaveGroupRequest]) -> LeaveGroupResponse:
    """Take members out of their group."""
    body = request.body
    if not broker.authorizer.authorize(request.connection, AclOperation.READ, ResourceType.GROUP, body.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    if request.api_version < MEMBERS_VERSION_FIRST:
        (code,) = broker.groups.leave(body.group_id, [MemberIdentity(member_id=body.member_id)])
        return LeaveGroupResponse(throttle_time_ms=throttle, error_code=code)
    codes = broker.groups.leave(body.group_id, body.members)
    return LeaveGroupResponse(
        throttle_time_ms=throttle,
        members=[
            MemberResponse(member_id=leaving.member_id, group_instance_id=leaving.group_instance_id, error_code=code)
            for leaving, code in zip(body.members, codes, strict=True)
        ],
    )


def error_response(request: Request[LeaveGroupRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer that the request as a whole failed."""
    del message  # the response has no room for one
    return LeaveGroupResponse(error_code=code)
