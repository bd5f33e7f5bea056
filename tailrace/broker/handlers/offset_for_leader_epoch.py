"""OffsetForLeaderEpoch: v2-v4. Where a leader epoch ends: how a consumer notices that the log was truncated (KIP-320).

v2: the current leader epoch is checked … v3: replica id … v4: flexible.
"""

from __future__ import annotations

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(broker: Broker, request: Request[OffsetForLeaderEpochRequest]) -> Answer:
    """Answer each partition with the largest epoch up to the one asked for, and its end."""
    authorizer, connection = broker.authorizer, request.connection
    # A follower asks for its own sake and has the cluster's leave; a consumer needs the topic's.
    may_replicate = authorizer.authorize(connection, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    topics: list[OffsetForLeaderTopicResult] = []
    for topic in request.body.topics:
        may_describe = may_replicate or authorizer.authorize(
            connection, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic
        )
        topics.append(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _answer_partition(broker, topic.topic, asked)
                    if may_describe
                    else _failed(asked.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    for asked in topic.partitions
                ],
            )
        )
    throttle_time_ms = broker.quotas.record_request(connection, request.client_id)
    return OffsetForLeaderEpochResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def error_response(request: Request[OffsetForLeaderEpochRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer every partition alike: the request as a whole failed."""
    del message  # the response has no room for one
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_failed(asked.partition, code) for asked in topic.partitions]
            )
            for topic in request.body.topics
        ]
    )


def _answer_partition(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.replica_manager.partition(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch, leader_only=True)
        epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    except ApiError as error:
        broker.metrics.record_error("OffsetForLeaderEpoch", error.code)
        return _failed(asked.partition, error.code)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


def _failed(partition: int, code: ErrorCode) -> EpochEndOffset:
    return EpochEndOffset(error_code=code, partition=partition)
