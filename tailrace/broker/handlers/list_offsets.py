"""ListOffsets: v1-v10.

v2: isolation level … v4: leader epochs (KIP-320) … v5: OFFSET_NOT_AVAILABLE instead of LEADER_NOT_AVAILABLE … v6:
flexible … v7: the offset of the largest timestamp, -3 (KIP-734) … v8: the earliest local offset, -4 (KIP-405) … v9: the
latest tiered offset, -5 (KIP-1005) … v10: a timeout, for brokers with remote logs.

There is no tiered storage here, and the answers are Kafka's without it: the earliest local offset is the earliest, the
latest tiered is -1. A consumer is never shown an offset beyond what it may read; a replica (id 0 and up) and a
debugging client (-2) see the log's end, and the latter asks followers too.
"""

from __future__ import annotations

import logging
from collections import Counter

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.partition import Partition
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from tailrace.storage.log import TimestampOffset

LOGGER = logging.getLogger(__name__)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
SPECIAL_VERSION_FIRST = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The version from which each timestamp that is none may be asked for."""

CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2
LEADER_EPOCH_VERSION_FIRST = 4
OFFSET_NOT_AVAILABLE_VERSION_FIRST = 5
READ_COMMITTED = 1
UNKNOWN = -1
KNOWN_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


def handle(broker: Broker, request: Request[ListOffsetsRequest]) -> Answer:
    """Answer each partition with an offset."""
    named = Counter((topic.name, asked.partition_index) for topic in request.body.topics for asked in topic.partitions)
    duplicates = {key for key, count in named.items() if count > 1}
    return ListOffsetsResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        topics=[_answer_topic(broker, request, topic, duplicates) for topic in request.body.topics],
    )


def error_response(request: Request[ListOffsetsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer every partition alike: the request as a whole failed."""
    del message  # the response has no room for one
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_failed(asked.partition_index, code) for asked in topic.partitions]
            )
            for topic in request.body.topics
        ]
    )


def _answer_topic(
    broker: Broker, request: Request[ListOffsetsRequest], topic: ListOffsetsTopic, duplicates: set[tuple[str, int]]
) -> ListOffsetsTopicResponse:
    may_describe = broker.authorizer.authorize(
        request.connection, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name
    )
    answers: list[ListOffsetsPartitionResponse] = []
    # A partition that is named twice is answered once, with an error: the client could not tell two answers apart.
    once = {asked.partition_index: asked for asked in topic.partitions}
    for asked in once.values():
        if not may_describe:
            answers.append(_failed(asked.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif (topic.name, asked.partition_index) in duplicates:
            answers.append(_failed(asked.partition_index, ErrorCode.INVALID_REQUEST))
        elif asked.timestamp < 0 and request.api_version < SPECIAL_VERSION_FIRST.get(asked.timestamp, 1 << 15):
            answers.append(_failed(asked.partition_index, ErrorCode.UNSUPPORTED_VERSION))
        else:
            answers.append(_answer_partition(broker, request, topic.name, asked))
    return ListOffsetsTopicResponse(name=topic.name, partitions=answers)


def _answer_partition(
    broker: Broker, request: Request[ListOffsetsRequest], topic: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index = asked.partition_index
    try:
        partition = broker.replica_manager.partition(topic, index)
        partition.check_leader_epoch(
            asked.current_leader_epoch, leader_only=request.body.replica_id != DEBUGGING_REPLICA_ID
        )
        found = find_offset(partition, asked.timestamp, request.body)
    except ApiError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and request.api_version < OFFSET_NOT_AVAILABLE_VERSION_FIRST:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        if error.code not in KNOWN_ERRORS:
            LOGGER.error("ListOffsets of %s-%d by %d failed", topic, index, asked.timestamp, exc_info=error)
        broker.metrics.record_error("ListOffsets", code)
        return _failed(index, code)
    if found is None:
        return _failed(index, ErrorCode.NONE)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if request.api_version >= LEADER_EPOCH_VERSION_FIRST else UNKNOWN,
    )


def find_offset(partition: Partition, timestamp: int, body: ListOffsetsRequest) -> TimestampOffset | None:
    """Find what a timestamp, or one of the special ones, stands for; None where no record does.

    Raises OFFSET_NOT_AVAILABLE while a new leader's high watermark lags behind the start of its epoch: until then the
    log's readable end is not known, and an answer might run backwards.
    """
    log = partition.log
    is_consumer = body.replica_id == CONSUMER_REPLICA_ID
    if not is_consumer:
        readable_end = log.log_end_offset
    elif body.isolation_level == READ_COMMITTED:
        readable_end = log.last_stable_offset
    else:
        readable_end = log.high_watermark
    epoch_start = partition.leader_epoch_start_offset
    lags = is_consumer and epoch_start is not None and epoch_start > log.high_watermark
    if timestamp == LATEST:
        if lags:
            raise _not_available(partition)
        return TimestampOffset(UNKNOWN, readable_end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampOffset(UNKNOWN, log.log_start_offset, _epoch_of_start(partition))
    if timestamp == LATEST_TIERED:
        found: TimestampOffset | None = TimestampOffset(UNKNOWN, UNKNOWN, UNKNOWN)
    else:
        found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found.offset >= readable_end:
        if lags:
            raise _not_available(partition)
        return None
    return found


def _epoch_of_start(partition: Partition) -> int:
    earliest = partition.log.leader_epochs.earliest_entry
    if earliest is None or earliest.start_offset > partition.log.log_start_offset:
        return UNKNOWN
    return earliest.epoch


def _not_available(partition: Partition) -> ApiError:
    return ApiError(
        ErrorCode.OFFSET_NOT_AVAILABLE,
        f"the high watermark of {partition.topic_partition} is behind the start of leader epoch "
        f"{partition.leader_epoch}",
    )


def _failed(partition_index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=partition_index, error_code=code)
