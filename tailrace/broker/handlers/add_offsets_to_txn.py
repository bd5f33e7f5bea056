"""AddOffsetsToTxn: v0-v4.

v2: PRODUCER_FENCED, which older clients are told as INVALID_PRODUCER_EPOCH … v3: flexible … v4: TRANSACTION_ABORTABLE.

Adds the partition that keeps a group's offsets to the transaction. Producers of transactions v2 leave this request out:
their TxnOffsetCommit does it.
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.broker.topic_names import GROUP_OFFSETS_TOPIC
from tailrace.broker.transactions.metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tailrace.protocol.topic_partition import TopicPartition

PRODUCER_FENCED_VERSION_FIRST = 2


def handle(broker: Broker, request: Request[AddOffsetsToTxnRequest]) -> Result:
    """Let a transaction reach the offsets of a group."""
    body = request.body
    throttle_time_ms = broker.quotas.record_request(request.connection, request.client_id)
    parked = Parked()

    def reply(code: ErrorCode, producer_id: int, producer_epoch: int) -> None:
        del producer_id, producer_epoch
        if code is ErrorCode.PRODUCER_FENCED and request.api_version < PRODUCER_FENCED_VERSION_FIRST:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        if code:
            broker.metrics.record_error("AddOffsetsToTxn", code)
        parked.complete(AddOffsetsToTxnResponse(throttle_time_ms=throttle_time_ms, error_code=code))

    code = _check_access(broker, request)
    if code:
        reply(code, NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
    else:
        broker.transactions.add_partitions(
            body.transactional_id,
            producer=ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
            partitions=[TopicPartition(GROUP_OFFSETS_TOPIC, broker.groups.topic.partition_of(body.group_id))],
            client_version=0,
            reply=reply,
        )
    return parked.result()


def error_response(request: Request[AddOffsetsToTxnRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with an error."""
    del request, message  # the response has no room for more
    return AddOffsetsToTxnResponse(error_code=code)


def _check_access(broker: Broker, request: Request[AddOffsetsToTxnRequest]) -> ErrorCode:
    authorize, connection, body = broker.authorizer.authorize, request.connection, request.body
    if not authorize(connection, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not authorize(connection, AclOperation.READ, ResourceType.GROUP, body.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE
