"""DescribeTransactions: v0 (KIP-664).

Each transactional id has its own answer. Partitions that the client may not describe are left out of it.
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Request
from tailrace.broker.transactions.metadata import partitions_by_topic
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(broker: Broker, request: Request[DescribeTransactionsRequest]) -> Answer:
    """Describe transactional ids."""
    throttle_time_ms = broker.quotas.record_request(request.connection, request.client_id)
    return DescribeTransactionsResponse(
        throttle_time_ms=throttle_time_ms,
        transaction_states=[_describe(broker, request, name) for name in request.body.transactional_ids],
    )


def error_response(request: Request[DescribeTransactionsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every id."""
    del message  # the response has no room for it
    return DescribeTransactionsResponse(transaction_states=[_failed(n, code) for n in request.body.transactional_ids])


def _describe(broker: Broker, request: Request[DescribeTransactionsRequest], name: str) -> TransactionState:
    authorize, connection = broker.authorizer.authorize, request.connection
    try:
        if not authorize(connection, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        metadata = broker.transactions.describe(name)
    except ApiError as error:
        broker.metrics.record_error("DescribeTransactions", error.code)
        return _failed(name, error.code)
    return TransactionState(
        transactional_id=name,
        transaction_state=metadata.status.label,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=numbers)
            for topic, numbers in partitions_by_topic(metadata.partitions).items()
            if authorize(connection, AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
        ],
    )


def _failed(name: str, code: ErrorCode) -> TransactionState:
    return TransactionState(error_code=code, transactional_id=name)
