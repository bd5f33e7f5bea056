"""Heartbeat: v0-v4. v3: static members (KIP-345). v4: flexible."""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(broker: Broker, request: Request[HeartbeatRequest]) -> HeartbeatResponse:
    """Keep a member's session, and tell it of a rebalance."""
    group_id = request.body.group_id
    if not broker.authorizer.authorize(request.connection, AclOperation.READ, ResourceType.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    return HeartbeatResponse(throttle_time_ms=throttle, error_code=broker.groups.heartbeat(request.body))


def error_response(request: Request[HeartbeatRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer that the request as a whole failed."""
    del message  # the response has no room for one
    return HeartbeatResponse(error_code=code)
