"""DescribeUserScramCredentials: v0 (KIP-554).

No listener here authenticates by SASL, and no user has credentials.
"""

from __future__ import annotations

from collections import Counter

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(broker: Broker, request: Request[DescribeUserScramCredentialsRequest]) -> Answer:
    """Say of each user that is asked for that there are no credentials."""
    if not broker.authorizer.authorize(request.connection, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = Counter(user.name for user in request.body.users or ())
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        results=[_refusal(name, count) for name, count in asked.items()],
    )


def error_response(
    request: Request[DescribeUserScramCredentialsRequest], code: ErrorCode, message: str | None
) -> Answer:
    """Answer with the error alone."""
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=message)


def _refusal(name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"{name} is asked for {count} times."
    else:
        code, message = ErrorCode.RESOURCE_NOT_FOUND, f"{name} has no credentials."
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
