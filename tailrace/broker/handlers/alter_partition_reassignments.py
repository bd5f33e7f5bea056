"""AlterPartitionReassignments: v0-v1 (KIP-455). v1: the replication factor may be kept from changing (KIP-860).

What can be granted is granted at once (see `partition_reassignment.py`), so nothing is ever there to be cancelled.
"""

from __future__ import annotations

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.metadata_store import StaleMetadata
from tailrace.broker.partition_reassignment import reassign
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


async def handle(
    broker: Broker, request: Request[AlterPartitionReassignmentsRequest]
) -> AlterPartitionReassignmentsResponse:
    """Give each partition the replicas that are wished for it."""
    if not broker.authorizer.authorize(request.connection, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    responses: list[ReassignableTopicResponse] = []
    for topic in request.body.topics:
        results: list[ReassignablePartitionResponse] = []
        for wish in topic.partitions:
            try:
                await _reassign(broker, request, topic.name, wish)
            except ApiError as error:
                results.append(_result(wish.partition_index, error.code, error.message))
            else:
                results.append(_result(wish.partition_index, ErrorCode.NONE, None))
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        allow_replication_factor_change=request.body.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def error_response(
    request: Request[AlterPartitionReassignmentsRequest], code: ErrorCode, message: str | None
) -> Answer:
    """Put the error on the request and on every partition that it names."""
    responses = [
        ReassignableTopicResponse(
            name=topic.name, partitions=[_result(wish.partition_index, code, message) for wish in topic.partitions]
        )
        for topic in request.body.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message, responses=responses)


async def _reassign(
    broker: Broker, request: Request[AlterPartitionReassignmentsRequest], topic: str, wish: ReassignablePartition
) -> None:
    while True:
        present = broker.metadata.partition(topic, wish.partition_index)
        if present is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{wish.partition_index}."
            )
        successor = reassign(
            present,
            wish.replicas,
            brokers=broker.metadata.brokers,
            may_change_factor=request.body.allow_replication_factor_change,
        )
        if successor is None:
            return
        try:
            await broker.metadata.change_partition(topic, wish.partition_index, successor)
        except StaleMetadata:
            continue  # somebody was quicker: what was decided may be wrong by now
        return


def _result(partition_index: int, code: ErrorCode, message: str | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(partition_index=partition_index, error_code=code, error_message=message)
