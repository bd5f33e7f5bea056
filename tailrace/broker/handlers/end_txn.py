"""EndTxn: v0-v5.

v2: PRODUCER_FENCED, which older clients are told as INVALID_PRODUCER_EPOCH … v3: flexible … v4: TRANSACTION_ABORTABLE
… v5: transactions v2 (KIP-890): the end raises the epoch, and the answer gives the id and epoch to go on with.

The answer leaves when the decision is written down. A repetition of a v5 request that was answered before gets the same
answer; one that is late, because the next transaction has begun, is refused by its epoch.
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.broker.transactions.metadata import EPOCH_BUMP_VERSION, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

PRODUCER_FENCED_VERSION_FIRST = 2
EPOCH_BUMP_REQUEST_FIRST = 5


def handle(broker: Broker, request: Request[EndTxnRequest]) -> Result:
    """Commit or abort the transaction of a transactional id."""
    body = request.body
    throttle_time_ms = broker.quotas.record_request(request.connection, request.client_id)
    parked = Parked()

    def reply(code: ErrorCode, producer_id: int, producer_epoch: int) -> None:
        if code is ErrorCode.PRODUCER_FENCED and request.api_version < PRODUCER_FENCED_VERSION_FIRST:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        if code:
            broker.metrics.record_error("EndTxn", code)
        parked.complete(
            EndTxnResponse(
                throttle_time_ms=throttle_time_ms,
                error_code=code,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        )

    if broker.authorizer.authorize(
        request.connection, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id
    ):
        broker.transactions.end(
            body.transactional_id,
            producer=ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
            is_commit=body.committed,
            client_version=EPOCH_BUMP_VERSION if request.api_version >= EPOCH_BUMP_REQUEST_FIRST else 0,
            reply=reply,
        )
    else:
        reply(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    return parked.result()


def error_response(request: Request[EndTxnRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with an error and no id."""
    del request, message  # the response has no room for more
    return EndTxnResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
