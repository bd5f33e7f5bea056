"""ListTransactions: v0-v2.

v0: by state and by producer id (KIP-664) … v1: those that are open for longer than a duration (KIP-994) … v2: those
whose id matches a pattern (KIP-1152). Filters hold together; ids that the client may not describe are left out.
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.groups.topic_regex import compile_pattern
from tailrace.broker.request import Answer, Request
from tailrace.broker.transactions.metadata import TransactionStatus
from tailrace.broker.transactions.transaction import Transaction
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

_STATUSES = {status.label: status for status in TransactionStatus}


def handle(broker: Broker, request: Request[ListTransactionsRequest]) -> Answer:
    """List the transactional ids that this broker coordinates."""
    throttle_time_ms = broker.quotas.record_request(request.connection, request.client_id)
    chosen = _Filter(request.body, broker.clock.time_ms())
    authorize, connection = broker.authorizer.authorize, request.connection
    return ListTransactionsResponse(
        throttle_time_ms=throttle_time_ms,
        unknown_state_filters=[name for name in request.body.state_filters if name not in _STATUSES],
        transaction_states=[
            TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.metadata.producer_id,
                transaction_state=transaction.metadata.status.label,
            )
            for transaction in broker.transactions.transactions()
            if chosen.has(transaction)
            and authorize(
                connection, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id
            )
        ],
    )


def error_response(request: Request[ListTransactionsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with an error and no transactions."""
    del request, message  # the response has no room for more
    return ListTransactionsResponse(error_code=code)


class _Filter:
    """What the client wants to see."""

    __slots__ = ("_duration_ms", "_matches", "_now_ms", "_producer_ids", "_statuses")

    def __init__(self, body: ListTransactionsRequest, now_ms: int) -> None:
        self._now_ms = now_ms
        self._duration_ms = body.duration_filter
        self._producer_ids = frozenset(body.producer_id_filters)
        # Names that are unknown choose nothing, which is not the same as no names.
        self._statuses = frozenset(_STATUSES.get(name) for name in body.state_filters)
        self._matches = compile_pattern(body.transactional_id_pattern) if body.transactional_id_pattern else None

    def has(self, transaction: Transaction) -> bool:
        """Whether the filters let a transactional id through."""
        metadata = transaction.metadata
        return (
            (not self._producer_ids or metadata.producer_id in self._producer_ids)
            and (not self._statuses or metadata.status in self._statuses)
            and (self._duration_ms < 0 or self._now_ms - metadata.start_ms > self._duration_ms)
            and (self._matches is None or self._matches(transaction.transactional_id))
        )
