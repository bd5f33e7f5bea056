"""IncrementalAlterConfigs: v0-v1 (KIP-339). v1: flexible.

Each setting is set, deleted (back to its default), or, where it is a list, appended to or subtracted from. What the
request does not name stays as it is.
"""

from __future__ import annotations

from collections import Counter

from tailrace.broker.authorizer import AclOperation
from tailrace.broker.broker import Broker
from tailrace.broker.config_administration import alter_resource, check_config_access
from tailrace.broker.request import Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tailrace.settings.alter_config import AlterOperation, ConfigChange


async def handle(broker: Broker, request: Request[IncrementalAlterConfigsRequest]) -> IncrementalAlterConfigsResponse:
    """Change the settings of each resource, one after another; one that fails does not stop the others."""
    resources = request.body.resources
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    responses: list[AlterConfigsResourceResponse] = []
    for resource in resources:
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource may be given once only.")
            await _alter(broker, request, resource)
        except ApiError as error:
            responses.append(_response(resource, error.code, error.message))
        else:
            responses.append(_response(resource, ErrorCode.NONE, None))
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    return IncrementalAlterConfigsResponse(throttle_time_ms=throttle, responses=responses)


def error_response(
    request: Request[IncrementalAlterConfigsRequest], code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    """Put the error on every resource."""
    return IncrementalAlterConfigsResponse(
        responses=[_response(resource, code, message) for resource in request.body.resources]
    )


async def _alter(
    broker: Broker, request: Request[IncrementalAlterConfigsRequest], resource: AlterConfigsResource
) -> None:
    kind, name = resource.resource_type, resource.resource_name
    check_config_access(broker, request.connection, AclOperation.ALTER_CONFIGS, kind, name)
    changes: list[ConfigChange] = []
    for config in resource.configs:
        try:
            operation = AlterOperation(config.config_operation)
        except ValueError:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{config.name}: there is no operation {config.config_operation}"
            ) from None
        changes.append(ConfigChange(config.name, operation, config.value))
    await alter_resource(broker, kind, name, changes, validate_only=request.body.validate_only)


def _response(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
