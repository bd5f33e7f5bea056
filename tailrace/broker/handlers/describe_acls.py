"""DescribeAcls: v1-v3. v1: names by prefix (KIP-290). v2: flexible. v3: user resources.

There is no authorizer that keeps ACLs here: everybody may do everything, and Kafka without an authorizer says this.
"""

from __future__ import annotations

from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

NO_AUTHORIZER = "No authorizer is configured, so there are no ACLs."


def handle(broker: Broker, request: Request[DescribeAclsRequest]) -> Answer:
    """Say that there are none."""
    broker.quotas.record_request(request.connection, request.client_id)
    raise ApiError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def error_response(request: Request[DescribeAclsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error alone."""
    return DescribeAclsResponse(error_code=code, error_message=message)
