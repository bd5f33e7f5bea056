"""What produce requests are answered with where something is wrong: which errors are counted, and which code says what.

The handler decides that a batch is refused; here is how Kafka's producers have to be told.
"""

from __future__ import annotations

from tailrace.broker.request_batch import has_producer_id
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.produce import ProduceResponse

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
