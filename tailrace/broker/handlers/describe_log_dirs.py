"""DescribeLogDirs: v1-v4 (KIP-113). v2: flexible. v3: a top-level error. v4: size and free space of the disk (KIP-827).

Sizes are those of the segments' records. The lag is that of a log behind its own high watermark; a log that is moved
from one directory to another, the other thing Kafka reports here, does not occur.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tailrace.storage.disk import DiskError
from tailrace.storage.log import Log
from tailrace.storage.log_directory import LogDirectory


def handle(broker: Broker, request: Request[DescribeLogDirsRequest]) -> DescribeLogDirsResponse:
    """List the data directories and what lies in them, or those partitions of it that were asked for."""
    authorize = broker.authorizer.authorize
    if not authorize(request.connection, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted: set[tuple[str, int]] | None = None
    if request.body.topics is not None:
        wanted = {(topic.topic, number) for topic in request.body.topics for number in topic.partitions}
    return DescribeLogDirsResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        results=[_describe(broker, directory, wanted) for directory in broker.log_manager.directories],
    )


def error_response(
    request: Request[DescribeLogDirsRequest], code: ErrorCode, message: str | None
) -> DescribeLogDirsResponse:
    """Answer with the error and no directory."""
    return DescribeLogDirsResponse(error_code=code)


def _describe(broker: Broker, directory: LogDirectory, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    path = str(directory.path.absolute())
    if directory.failure is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    disk = broker.log_manager.disk
    try:
        total_bytes, usable_bytes = disk.total_bytes(directory.path), disk.free_bytes(directory.path)
    except DiskError:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    logs = (
        log
        for log in broker.log_manager.logs_in(directory.path)
        if not log.is_offline and (wanted is None or log.topic_partition in wanted)
    )
    return DescribeLogDirsResult(log_dir=path, topics=_topics(logs), total_bytes=total_bytes, usable_bytes=usable_bytes)


def _topics(logs: Iterable[Log]) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in sorted(logs, key=lambda log: log.topic_partition):
        name, number = log.topic_partition
        if name not in topics:
            topics[name] = DescribeLogDirsTopic(name=name)
        topics[name].partitions.append(
            DescribeLogDirsPartition(
                partition_index=number,
                partition_size=log.size_bytes,
                offset_lag=max(log.high_watermark - log.log_end_offset, 0),
            )
        )
    return list(topics.values())
