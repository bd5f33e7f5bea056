"""DeleteRecords: v0-v2 (v2: flexible). Moves the log start offset; -1 stands for the high watermark.

The answer waits until every replica has moved, at most `timeout_ms`; with one replica that is at once.
"""

from __future__ import annotations

import logging

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.delayed_delete_records import INVALID_LOW_WATERMARK, DelayedDeleteRecords, PendingDeletion
from tailrace.broker.request import Answer, Request, Result
from tailrace.broker.topic_names import is_internal
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

LOGGER = logging.getLogger(__name__)


def handle(broker: Broker, request: Request[DeleteRecordsRequest]) -> Result:
    """Delete what lies before each offset."""
    pending: list[PendingDeletion] = []
    topics: list[DeleteRecordsTopicResult] = []
    for topic in request.body.topics:
        may_delete = broker.authorizer.authorize(
            request.connection, AclOperation.DELETE, ResourceType.TOPIC, topic.name
        )
        topics.append(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(broker, topic.name, asked, pending)
                    if may_delete
                    else _failed(asked.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    for asked in topic.partitions
                ],
            )
        )
    response = DeleteRecordsResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id), topics=topics
    )
    if not pending:
        return response
    purgatory = broker.replica_manager.delete_records_purgatory
    operation = DelayedDeleteRecords(request.body.timeout_ms, pending, lambda: response)
    purgatory.try_complete_else_watch(operation, operation.keys)
    return operation.parked


def error_response(request: Request[DeleteRecordsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer every partition alike: the request as a whole failed."""
    del message  # the response has no room for one
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_failed(asked.partition_index, code) for asked in topic.partitions]
            )
            for topic in request.body.topics
        ]
    )


def _delete(
    broker: Broker, topic: str, asked: DeleteRecordsPartition, pending: list[PendingDeletion]
) -> DeleteRecordsPartitionResult:
    manager = broker.replica_manager
    index = asked.partition_index
    try:
        if broker.metadata.partition(topic, index) is not None and is_internal(topic):
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is internal: its records are not to be deleted")
        partition = manager.partition(topic, index)
        required_offset = partition.delete_records(asked.offset)
    except ApiError as error:
        LOGGER.debug("deleting records of %s-%d before %d: %s", topic, index, asked.offset, error)
        broker.metrics.record_error("DeleteRecords", error.code)
        return _failed(index, error.code)
    low_watermark = partition.low_watermark()
    answer = DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark)
    if low_watermark < required_offset:
        pending.append(PendingDeletion(partition, answer, required_offset))
    return answer


def _failed(partition_index: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=partition_index, low_watermark=INVALID_LOW_WATERMARK, error_code=code
    )
