"""DescribeProducers: v0. What a partition's log knows of its producers.

It is how operators find a transaction that hangs (KIP-664).
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.broker.topic_names import is_valid_topic_name
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)

NO_TRANSACTION = -1


def handle(broker: Broker, request: Request[DescribeProducersRequest]) -> Answer:
    """Describe the producers of each partition."""
    return DescribeProducersResponse(
        throttle_time_ms=broker.quotas.record_request(request.connection, request.client_id),
        topics=[_answer_topic(broker, request, topic) for topic in request.body.topics],
    )


def error_response(request: Request[DescribeProducersRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer every partition alike: the request as a whole failed."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_failed(index, code, message) for index in topic.partition_indexes]
            )
            for topic in request.body.topics
        ]
    )


def _answer_topic(broker: Broker, request: Request[DescribeProducersRequest], topic: TopicRequest) -> TopicResponse:
    name = topic.name
    if not broker.authorizer.authorize(request.connection, AclOperation.READ, ResourceType.TOPIC, name):
        code, message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."
    elif not is_valid_topic_name(name):
        code, message = ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is no name of a topic."
    elif broker.metadata.topic(name) is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    else:
        partitions = [_answer_partition(broker, name, index) for index in topic.partition_indexes]
        return TopicResponse(name=name, partitions=partitions)
    broker.metrics.record_error("DescribeProducers", code)
    return TopicResponse(name=name, partitions=[_failed(index, code, message) for index in topic.partition_indexes])


def _answer_partition(broker: Broker, topic: str, index: int) -> PartitionResponse:
    try:
        partition = broker.replica_manager.partition(topic, index)
        partition.check_leader_epoch(-1, leader_only=True)
    except ApiError as error:
        broker.metrics.record_error("DescribeProducers", error.code)
        return _failed(index, error.code, None)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=state.producer_id,
                producer_epoch=state.producer_epoch,
                last_sequence=state.last_sequence,
                last_timestamp=state.last_timestamp,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=NO_TRANSACTION
                if state.current_transaction_first_offset is None
                else state.current_transaction_first_offset,
            )
            for state in partition.log.producer_states()
        ],
    )


def _failed(index: int, code: ErrorCode, message: str | None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message)
