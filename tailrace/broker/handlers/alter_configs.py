"""AlterConfigs: v0-v2. v1: throttled before it is answered. v2: flexible.

The request replaces all that was set for a resource: what it leaves out goes back to its default. Clients that can use
IncrementalAlterConfigs instead.
"""

from __future__ import annotations

from collections import Counter

from tailrace.broker.authorizer import AclOperation
from tailrace.broker.broker import Broker
from tailrace.broker.config_administration import check_config_access, replace_resource
from tailrace.broker.request import Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(broker: Broker, request: Request[AlterConfigsRequest]) -> AlterConfigsResponse:
    """Replace the settings of each resource, one after another; one that fails does not stop the others."""
    resources = request.body.resources
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    responses: list[AlterConfigsResourceResponse] = []
    for resource in resources:
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource may be given once only.")
            await _replace(broker, request, resource)
        except ApiError as error:
            responses.append(_response(resource, error.code, error.message))
        else:
            responses.append(_response(resource, ErrorCode.NONE, None))
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    return AlterConfigsResponse(throttle_time_ms=throttle, responses=responses)


def error_response(request: Request[AlterConfigsRequest], code: ErrorCode, message: str | None) -> AlterConfigsResponse:
    """Put the error on every resource."""
    return AlterConfigsResponse(responses=[_response(resource, code, message) for resource in request.body.resources])


async def _replace(broker: Broker, request: Request[AlterConfigsRequest], resource: AlterConfigsResource) -> None:
    kind, name = resource.resource_type, resource.resource_name
    check_config_access(broker, request.connection, AclOperation.ALTER_CONFIGS, kind, name)
    await replace_resource(
        broker,
        kind,
        name,
        [(config.name, config.value) for config in resource.configs],
        validate_only=request.body.validate_only,
    )


def _response(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
