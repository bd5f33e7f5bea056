"""CreateDelegationToken: v1-v3 (KIP-48). v2: flexible. v3: on behalf of another owner (KIP-373).

A token stands for a principal that authenticated itself. Connections are not authenticated here, so nobody gets one.
"""

from __future__ import annotations

from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Principal, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

NO_TIME = -1


def handle(broker: Broker, request: Request[CreateDelegationTokenRequest]) -> Answer:
    """Create none."""
    broker.quotas.record_request(request.connection, request.client_id)
    raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_response(request: Request[CreateDelegationTokenRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error, whose the token would be, and who asked."""
    requester, owner = request.connection.principal, request.connection.principal
    if request.body.owner_principal_name:
        owner = Principal(request.body.owner_principal_type or "", request.body.owner_principal_name)
    response = CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
    )
    if request.api_version >= 3:
        response.token_requester_principal_type = requester.principal_type
        response.token_requester_principal_name = requester.name
    return response
