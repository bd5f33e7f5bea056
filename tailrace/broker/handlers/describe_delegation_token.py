"""DescribeDelegationToken: v1-v3 (KIP-48). v2: flexible. v3: who asked for the token (KIP-373).

There are no tokens where connections are not authenticated, see `create_delegation_token`.
"""

from __future__ import annotations

from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


def handle(broker: Broker, request: Request[DescribeDelegationTokenRequest]) -> Answer:
    """Describe none."""
    broker.quotas.record_request(request.connection, request.client_id)
    raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def error_response(request: Request[DescribeDelegationTokenRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error alone."""
    return DescribeDelegationTokenResponse(error_code=code)
