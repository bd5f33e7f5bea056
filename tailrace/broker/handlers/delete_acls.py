"""DeleteAcls: v1-v3. v1: names by prefix (KIP-290). v2: flexible. v3: user resources.

There is no authorizer that keeps ACLs here, so there are none to delete.
"""

from __future__ import annotations

from tailrace.broker.broker import Broker
from tailrace.broker.handlers.describe_acls import NO_AUTHORIZER
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(broker: Broker, request: Request[DeleteAclsRequest]) -> Answer:
    """Delete none, and say why."""
    broker.quotas.record_request(request.connection, request.client_id)
    raise ApiError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def error_response(request: Request[DeleteAclsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every filter."""
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message) for _ in request.body.filters]
    )
