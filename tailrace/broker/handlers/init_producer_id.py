"""InitProducerId: v0-v5 (v6 is unstable and not served).

v2: flexible … v3: an id and epoch to go on with (KIP-360) … v4: PRODUCER_FENCED, which older clients are told as
INVALID_PRODUCER_EPOCH … v5: transactions v2 (KIP-890).

A producer without a transactional id gets an id that nobody had before. One with a transactional id is given its id
and a raised epoch by the transaction coordinator, which fences whoever had them before.
"""

from __future__ import annotations

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.broker.transactions.metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PRODUCER_FENCED_VERSION_FIRST = 4


def handle(broker: Broker, request: Request[InitProducerIdRequest]) -> Result:
    """Give a producer id and epoch."""
    code = _check(broker, request)
    throttle_time_ms = broker.quotas.record_request(request.connection, request.client_id)
    if code:
        broker.metrics.record_error("InitProducerId", code)
        return _failed(code, throttle_time_ms)
    if request.body.transactional_id is not None:
        return _coordinated(broker, request, request.body.transactional_id, throttle_time_ms)
    try:
        producer_id = broker.producer_ids.next_producer_id()
    except ApiError as error:
        broker.metrics.record_error("InitProducerId", error.code)
        return _failed(error.code, throttle_time_ms)
    return InitProducerIdResponse(throttle_time_ms=throttle_time_ms, producer_id=producer_id, producer_epoch=0)


def error_response(request: Request[InitProducerIdRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with an error and no id."""
    del request, message  # the response has no room for more
    return _failed(code, 0)


def _check(broker: Broker, request: Request[InitProducerIdRequest]) -> ErrorCode:
    body = request.body
    transactional_id = body.transactional_id
    if transactional_id is not None:
        if not broker.authorizer.authorize(
            request.connection, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not broker.authorizer.authorize(
        request.connection, AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if (body.producer_id == NO_PRODUCER_ID) != (body.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if transactional_id is None:
        return ErrorCode.NONE
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    if not 0 < body.transaction_timeout_ms <= broker.config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _coordinated(
    broker: Broker, request: Request[InitProducerIdRequest], transactional_id: str, throttle_time_ms: int
) -> Result:
    body = request.body
    parked = Parked()

    def reply(code: ErrorCode, producer_id: int, producer_epoch: int) -> None:
        if code is ErrorCode.PRODUCER_FENCED and request.api_version < PRODUCER_FENCED_VERSION_FIRST:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        if code:
            broker.metrics.record_error("InitProducerId", code)
        parked.complete(
            InitProducerIdResponse(
                throttle_time_ms=throttle_time_ms,
                error_code=code,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        )

    is_known = body.producer_id != NO_PRODUCER_ID
    broker.transactions.init_producer_id(
        transactional_id,
        timeout_ms=body.transaction_timeout_ms,
        expected=ProducerIdAndEpoch(body.producer_id, body.producer_epoch) if is_known else None,
        reply=reply,
    )
    return parked.result()


def _failed(code: ErrorCode, throttle_time_ms: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=code,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
    )
