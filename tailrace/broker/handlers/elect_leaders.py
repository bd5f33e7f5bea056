"""ElectLeaders: v0-v2. v0: the preferred replica (KIP-183). v1: or any, uncleanly (KIP-460). v2: flexible.

Who asks for all partitions is not told of those whose leader is the right one.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.leader_election import ElectionType, elect
from tailrace.broker.metadata_store import StaleMetadata
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


async def handle(broker: Broker, request: Request[ElectLeadersRequest]) -> ElectLeadersResponse:
    """Elect a leader for each partition that needs another one."""
    if not broker.authorizer.authorize(request.connection, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        kind = ElectionType(request.body.election_type)
    except ValueError:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"There are no elections of type {request.body.election_type}."
        ) from None
    asked = request.body.topic_partitions
    results: list[ReplicaElectionResult] = []
    if asked is None:
        for topic in list(broker.metadata.topics.values()):
            outcomes = await _elect_each(broker, kind, topic.name, range(len(topic.partitions)))
            told = [outcome for outcome in outcomes if outcome.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(ReplicaElectionResult(topic=topic.name, partition_result=told))
    else:
        for entry in asked:
            outcomes = await _elect_each(broker, kind, entry.topic, entry.partitions)
            results.append(ReplicaElectionResult(topic=entry.topic, partition_result=outcomes))
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    return ElectLeadersResponse(throttle_time_ms=throttle, replica_election_results=results)


def error_response(request: Request[ElectLeadersRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on the request and on every partition that it names."""
    results = [
        ReplicaElectionResult(
            topic=entry.topic, partition_result=[_result(number, code, message) for number in entry.partitions]
        )
        for entry in request.body.topic_partitions or ()
    ]
    # The first version has no error of its own.
    error_code = ErrorCode.NONE if request.api_version == 0 else code
    return ElectLeadersResponse(error_code=error_code, replica_election_results=results)


async def _elect_each(broker: Broker, kind: ElectionType, topic: str, numbers: Iterable[int]) -> list[PartitionResult]:
    results: list[PartitionResult] = []
    for number in numbers:
        try:
            await _elect(broker, kind, topic, number)
        except ApiError as error:
            results.append(_result(number, error.code, error.message))
        else:
            results.append(_result(number, ErrorCode.NONE, None))
    return results


async def _elect(broker: Broker, kind: ElectionType, topic: str, number: int) -> None:
    metadata = broker.metadata
    while True:
        if metadata.topic(topic) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")
        present = metadata.partition(topic, number)
        if present is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{number}.")
        alive = [node for node, registration in metadata.brokers.items() if not registration.is_fenced]
        successor = elect(present, kind, alive)
        try:
            await metadata.change_partition(topic, number, successor)
        except StaleMetadata:
            continue  # somebody was quicker: what was decided may be wrong by now
        return


def _result(number: int, code: ErrorCode, message: str | None) -> PartitionResult:
    return PartitionResult(partition_id=number, error_code=code, error_message=message)
