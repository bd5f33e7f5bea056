"""DescribeConfigs: v1-v4.

v1: where a value comes from, with its synonyms (KIP-226). v2: throttled before it is answered. v3: types and
documentation (KIP-569). v4: flexible. Topics, brokers (a name, or "" for the dynamic default of all), loggers, groups
and client metrics subscriptions; every setting is listed, with its default where nothing was set.
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation
from tailrace.broker.broker import Broker
from tailrace.broker.config_administration import check_config_access, describe_resource
from tailrace.broker.request import Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tailrace.settings.described_config import ConfigSource, DescribedConfig


def handle(broker: Broker, request: Request[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    """List the settings of each resource, or those of them that it names."""
    return DescribeConfigsResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        results=[_describe(broker, request, resource) for resource in request.body.resources],
    )


def error_response(
    request: Request[DescribeConfigsRequest], code: ErrorCode, message: str | None
) -> DescribeConfigsResponse:
    """Put the error on every resource."""
    return DescribeConfigsResponse(results=[_result(resource, code, message) for resource in request.body.resources])


def _describe(
    broker: Broker, request: Request[DescribeConfigsRequest], resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    # An empty list of keys asks for all, as no list does.
    keys = frozenset(resource.configuration_keys or ()) or None
    kind, name = resource.resource_type, resource.resource_name
    try:
        check_config_access(broker, request.connection, AclOperation.DESCRIBE_CONFIGS, kind, name)
        described = describe_resource(broker, kind, name, keys)
    except ApiError as error:
        return _result(resource, error.code, error.message)
    result = _result(resource, ErrorCode.NONE, None)
    result.configs = [_config(request.body, config) for config in described]
    return result


def _config(body: DescribeConfigsRequest, config: DescribedConfig) -> DescribeConfigsResourceResult:
    # Loggers have an empty documentation whether it was asked for or not.
    is_logger = config.source is ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    synonyms: list[DescribeConfigsSynonym] = []
    if body.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in config.synonyms
        ]
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=config.is_sensitive,
        synonyms=synonyms,
        config_type=config.config_type,
        documentation=config.documentation if body.include_documentation or is_logger else None,
    )


def _result(resource: DescribeConfigsResource, code: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message or "",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
