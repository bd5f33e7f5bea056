"""ListPartitionReassignments: v0 (KIP-455).

The list is empty: what can be granted of a reassignment is done before it is answered (`partition_reassignment.py`).
"""

from __future__ import annotations

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(broker: Broker, request: Request[ListPartitionReassignmentsRequest]) -> Answer:
    """Say which partitions are on their way to other replicas: none."""
    if not broker.authorizer.authorize(request.connection, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    return ListPartitionReassignmentsResponse(throttle_time_ms=throttle, error_message=None)


def error_response(request: Request[ListPartitionReassignmentsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with the error alone."""
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message)
