"""CreateAcls: v1-v3. v1: names by prefix (KIP-290). v2: flexible. v3: user resources.

There is no authorizer that could keep ACLs here, and none is created.
"""

from __future__ import annotations

from tailrace.broker.broker import Broker
from tailrace.broker.handlers.describe_acls import NO_AUTHORIZER
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(broker: Broker, request: Request[CreateAclsRequest]) -> Answer:
    """Create none, and say why."""
    broker.quotas.record_request(request.connection, request.client_id)
    raise ApiError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def error_response(request: Request[CreateAclsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every ACL that was to be created."""
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message) for _ in request.body.creations]
    )
