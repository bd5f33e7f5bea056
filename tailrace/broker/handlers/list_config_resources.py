"""ListConfigResources: v0-v1 (KIP-1142). v0: client metrics subscriptions only. v1: the kinds that are asked for.

An empty list of kinds asks for all. Groups and subscriptions are those for which something is set; topics and brokers
are all there are.
"""

from __future__ import annotations

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.metadata_store import ConfigResourceType
from tailrace.broker.request import Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

KINDS = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)


def handle(broker: Broker, request: Request[ListConfigResourcesRequest]) -> ListConfigResourcesResponse:
    """Name the resources of each kind that can have settings."""
    authorize = broker.authorizer.authorize
    if not authorize(request.connection, AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = {int(ConfigResourceType.CLIENT_METRICS)}
    if request.api_version > 0:
        wanted = set(request.body.resource_types) or set(KINDS)
    if not wanted <= set(KINDS):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in KINDS
            if kind in wanted
            for name in _names(broker, kind)
        ],
    )


def error_response(
    request: Request[ListConfigResourcesRequest], code: ErrorCode, message: str | None
) -> ListConfigResourcesResponse:
    """Answer with the error alone; there is no room for a message."""
    return ListConfigResourcesResponse(error_code=code)


def _names(broker: Broker, kind: ConfigResourceType) -> list[str]:
    if kind is ConfigResourceType.TOPIC:
        return list(broker.metadata.topics)
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        return [str(node_id) for node_id in broker.metadata.brokers]
    return sorted(resource.name for resource in broker.metadata.config_resources() if resource.resource_type is kind)
