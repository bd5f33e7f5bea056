"""AlterReplicaLogDirs: v1-v2 (KIP-113). v2: flexible.

A replica that lies in the directory already is where it was wished to be. One that lies elsewhere stays there, and the
answer says that nothing was attempted: logs are not moved between the directories of a running broker.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from tailrace.protocol.topic_partition import TopicPartition


def handle(broker: Broker, request: Request[AlterReplicaLogDirsRequest]) -> Answer:
    """Answer for each partition whether it lies where it shall."""
    if not broker.authorizer.authorize(request.connection, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    results = _results(
        (topic_partition, _outcome(broker, topic_partition, path)) for topic_partition, path in _wishes(request.body)
    )
    return AlterReplicaLogDirsResponse(throttle_time_ms=throttle, results=results)


def error_response(request: Request[AlterReplicaLogDirsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every partition that the request names."""
    wishes = _wishes(request.body)
    return AlterReplicaLogDirsResponse(results=_results((topic_partition, code) for topic_partition, _ in wishes))


def _wishes(body: AlterReplicaLogDirsRequest) -> list[tuple[TopicPartition, str]]:
    return [
        (TopicPartition(topic.name, number), directory.path)
        for directory in body.dirs
        for topic in directory.topics
        for number in topic.partitions
    ]


def _outcome(broker: Broker, topic_partition: TopicPartition, path: str) -> ErrorCode:
    manager = broker.log_manager
    # As text: Kafka finds a directory only under the name that DescribeLogDirs gives it.
    directory = next((known for known in manager.directories if str(known.path.absolute()) == path), None)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    log = manager.get(topic_partition)
    if log is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if log.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE if manager.directory_of(log) is directory else ErrorCode.OPERATION_NOT_ATTEMPTED


def _results(outcomes: Iterable[tuple[TopicPartition, ErrorCode]]) -> list[AlterReplicaLogDirTopicResult]:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, number), code in outcomes:
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code))
    return list(topics.values())
