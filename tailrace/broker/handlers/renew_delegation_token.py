"""RenewDelegationToken: v1-v2 (KIP-48). v2: flexible.

There are no tokens where connections are not authenticated, see `create_delegation_token`.
"""

from __future__ import annotations

from tailrace.broker.broker import Broker
from tailrace.broker.handlers.create_delegation_token import NO_TIME
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(broker: Broker, request: Request[RenewDelegationTokenRequest]) -> Answer:
    """Renew none."""
    broker.quotas.record_request(request.connection, request.client_id)
    raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_response(request: Request[RenewDelegationTokenRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error alone."""
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)
