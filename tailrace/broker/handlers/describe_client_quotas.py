"""DescribeClientQuotas: v0-v1 (KIP-546). v1: flexible.

No quota can be set here, so every filter that makes sense finds none. One that makes none is refused, so that a client
learns of its mistake now and not on another cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

IP = "ip"
ENTITY_TYPES = ("user", "client-id", IP)
EXACT, DEFAULT, ANY = 0, 1, 2


def handle(broker: Broker, request: Request[DescribeClientQuotasRequest]) -> Answer:
    """Find no quota."""
    authorize = broker.authorizer.authorize
    if not authorize(request.connection, AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    _check_filter(request.body.components)
    return DescribeClientQuotasResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id)
    )


def error_response(request: Request[DescribeClientQuotasRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error alone."""
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


def _check_filter(components: Sequence[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise ApiError(ErrorCode.INVALID_REQUEST, "A part of the filter has no entity type.")
        if kind in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"The filter names the entity type {kind} more than once.")
        if kind not in ENTITY_TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"There are no quotas of {kind}.")
        if component.match_type not in (EXACT, DEFAULT, ANY):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"There are no matches of type {component.match_type}.")
        if (component.match_type == EXACT) != (component.match is not None):
            raise ApiError(ErrorCode.INVALID_REQUEST, "A name goes with the exact match, and with no other.")
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Quotas of addresses are not those of users or clients as well.")
