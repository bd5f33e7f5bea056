"""What a produce request's partitions are answered with: an append, and where something is wrong, in which words.

The handler decides what becomes of a batch; here is how Kafka's producers have to be told, and which errors count.
"""

from __future__ import annotations

from tailrace.broker.request import Answer, CloseConnection, Request
from tailrace.broker.request_batch import has_producer_id
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tailrace.storage.log import AppendResult

NO_RECORD_ERRORS: list[BatchIndexAndErrorMessage] = []
"""Nobody changes it, so all answers share it."""

KNOWN_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors that `failed_produce_requests` does not count, as Kafka's meter does not."""

COORDINATOR_AWAY = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What is no word about the transaction: nobody could be asked."""


def unexpected_code(records: Buffer) -> ErrorCode:
    """Choose the answer to an append that failed by our own fault.

    An idempotent producer takes UNKNOWN_SERVER_ERROR for "was not appended" and goes on with the next sequence number;
    the batch may be in the log all the same. A retriable code has it sent again, and then the sequence decides.
    """
    return ErrorCode.KAFKA_STORAGE_ERROR if has_producer_id(records) else ErrorCode.UNKNOWN_SERVER_ERROR


def errors_text(response: ProduceResponse) -> str:
    """Name the partitions that failed, and how, for the log."""
    return ", ".join(
        f"{topic.name}-{answer.index} {ErrorCode(answer.error_code).name}"
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.error_code
    )


def error_answer(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    """Answer one partition with an error."""
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        record_errors=NO_RECORD_ERRORS,
        error_message=message,
    )


def answer_all(request: Request[ProduceRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer every partition alike: the request as a whole failed."""
    if request.body.acks == 0:
        raise CloseConnection(f"a produce request with acks=0 failed: {code.name}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[error_answer(data.index, code, message) for data in topic.partition_data],
            )
            for topic in request.body.topic_data
        ]
    )


def appended_answer(index: int, result: AppendResult) -> PartitionProduceResponse:
    """Answer one partition with what an append gave its records."""
    return PartitionProduceResponse(
        index=index,
        base_offset=result.first_offset,
        # A duplicate is answered with its batch's own time, whatever kind of time that is: so does Kafka.
        log_append_time_ms=result.max_timestamp if result.is_duplicate else result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
        record_errors=NO_RECORD_ERRORS,
    )
