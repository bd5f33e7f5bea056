"""DescribeCluster: v0-v2 (KIP-700). v1: brokers' or controllers' endpoints (KIP-919). v2: fenced brokers.

This broker serves brokers' endpoints only: who asks for the controllers' is at the wrong door.
"""

from __future__ import annotations

from tailrace.broker.authorizer import (
    AUTHORIZED_OPERATIONS_OMITTED,
    CLUSTER_NAME,
    AclOperation,
    ResourceType,
    authorized_operations,
)
from tailrace.broker.broker import Broker
from tailrace.broker.request import Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(broker: Broker, request: Request[DescribeClusterRequest]) -> DescribeClusterResponse:
    """Name the cluster, its controller and its brokers."""
    body = request.body
    if body.endpoint_type == CONTROLLERS:
        raise ApiError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is an endpoint of brokers, not of controllers.")
    if body.endpoint_type != BROKERS:
        raise ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"There are no endpoints of type {body.endpoint_type}.")
    brokers: list[DescribeClusterBroker] = []
    for registration in broker.metadata.brokers.values():
        endpoint = registration.endpoint_for(request.connection.listener_name)
        if endpoint is not None and (body.include_fenced_brokers or not registration.is_fenced):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=registration.node_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=registration.rack,
                    is_fenced=registration.is_fenced,
                )
            )
    return DescribeClusterResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_id,
        brokers=brokers,
        cluster_authorized_operations=_operations(broker, request),
    )


def error_response(
    request: Request[DescribeClusterRequest], code: ErrorCode, message: str | None
) -> DescribeClusterResponse:
    """Answer with the error alone."""
    return DescribeClusterResponse(error_code=code, error_message=message)


def _operations(broker: Broker, request: Request[DescribeClusterRequest]) -> int:
    if not request.body.include_cluster_authorized_operations:
        return AUTHORIZED_OPERATIONS_OMITTED
    authorizer, connection = broker.authorizer, request.connection
    if not authorizer.authorize(connection, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(authorizer, connection, ResourceType.CLUSTER, CLUSTER_NAME)
