"""AddPartitionsToTxn: v0-v5.

v2: PRODUCER_FENCED, which older clients are told as INVALID_PRODUCER_EPOCH … v3: flexible, the last that clients send
… v4: many transactions at once, and verifying without adding; between brokers (KIP-890) … v5: TRANSACTION_ABORTABLE.

One partition that can't be added keeps the others of its transaction from being added: OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from collections.abc import Mapping

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.broker.topic_names import is_internal
from tailrace.broker.transactions.metadata import EPOCH_BUMP_VERSION
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tailrace.protocol.topic_partition import TopicPartition

PRODUCER_FENCED_VERSION_FIRST = 2
BATCH_VERSION_FIRST = 4

Codes = dict[TopicPartition, ErrorCode]


def handle(broker: Broker, request: Request[AddPartitionsToTxnRequest]) -> Result:
    """Let transactions reach partitions, or say whether they do."""
    if request.api_version >= BATCH_VERSION_FIRST and not broker.authorizer.authorize(
        request.connection, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    ):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return _Additions(broker, request).run()


def error_response(request: Request[AddPartitionsToTxnRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer with an error; up to v3 it goes to every partition."""
    del message  # the response has no room for it
    if request.api_version >= BATCH_VERSION_FIRST:
        return AddPartitionsToTxnResponse(error_code=code)
    (transaction,) = _transactions(request)
    codes = dict.fromkeys(_partitions(transaction), code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_results(codes))


class _Additions:
    """The transactions of one request, each answered in its own time."""

    __slots__ = ("_broker", "_outcomes", "_parked", "_request", "_throttle_time_ms", "_transactions")

    def __init__(self, broker: Broker, request: Request[AddPartitionsToTxnRequest]) -> None:
        self._broker = broker
        self._request = request
        self._throttle_time_ms = broker.quotas.record_request(request.connection, request.client_id)
        self._transactions = _transactions(request)
        self._outcomes: dict[int, Codes] = {}
        self._parked = Parked()

    def run(self) -> Result:
        for index, transaction in enumerate(self._transactions):
            self._begin(index, transaction)
        if not self._transactions:
            self._finish()
        return self._parked.result()

    def _begin(self, index: int, transaction: AddPartitionsToTxnTransaction) -> None:
        partitions = _partitions(transaction)
        refusals = self._refusals(transaction, partitions)
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        if refusals:
            codes = {name: refusals.get(name, ErrorCode.OPERATION_NOT_ATTEMPTED) for name in partitions}
            self._settle(index, codes)
        elif transaction.verify_only:
            verify, transactional_id = self._broker.transactions.verify, transaction.transactional_id
            codes = {name: verify(transactional_id, producer=producer, partition=name) for name in partitions}
            self._settle(index, codes)
        else:

            def reply(code: ErrorCode, producer_id: int, producer_epoch: int) -> None:
                del producer_id, producer_epoch
                if code is ErrorCode.PRODUCER_FENCED and self._request.api_version < PRODUCER_FENCED_VERSION_FIRST:
                    code = ErrorCode.INVALID_PRODUCER_EPOCH
                self._settle(index, dict.fromkeys(partitions, code))

            self._broker.transactions.add_partitions(
                transaction.transactional_id,
                producer=producer,
                partitions=partitions,
                client_version=EPOCH_BUMP_VERSION if self._request.api_version >= BATCH_VERSION_FIRST else 0,
                reply=reply,
            )

    def _refusals(self, transaction: AddPartitionsToTxnTransaction, partitions: list[TopicPartition]) -> Codes:
        """Give what keeps partitions from being added, before the coordinator is asked."""
        is_client = self._request.api_version < BATCH_VERSION_FIRST
        if is_client and not self._is_allowed(ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
            return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        refusals: Codes = {}
        for name in partitions:
            if is_client and (is_internal(name.topic) or not self._is_allowed(ResourceType.TOPIC, name.topic)):
                refusals[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif self._broker.metadata.partition(*name) is None:
                refusals[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refusals

    def _is_allowed(self, resource_type: ResourceType, name: str) -> bool:
        return self._broker.authorizer.authorize(self._request.connection, AclOperation.WRITE, resource_type, name)

    def _settle(self, index: int, codes: Codes) -> None:
        for code in codes.values():
            if code:
                self._broker.metrics.record_error("AddPartitionsToTxn", code)
        self._outcomes[index] = codes
        if len(self._outcomes) == len(self._transactions):
            self._finish()

    def _finish(self) -> None:
        results = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=_topic_results(self._outcomes[index])
            )
            for index, transaction in enumerate(self._transactions)
        ]
        response = AddPartitionsToTxnResponse(throttle_time_ms=self._throttle_time_ms)
        if self._request.api_version >= BATCH_VERSION_FIRST:
            response.results_by_transaction = results
        else:
            response.results_by_topic_v3_and_below = results[0].topic_results
        self._parked.complete(response)


def _transactions(request: Request[AddPartitionsToTxnRequest]) -> list[AddPartitionsToTxnTransaction]:
    body = request.body
    if request.api_version >= BATCH_VERSION_FIRST:
        return body.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=body.v3_and_below_transactional_id,
            producer_id=body.v3_and_below_producer_id,
            producer_epoch=body.v3_and_below_producer_epoch,
            topics=body.v3_and_below_topics,
        )
    ]


def _partitions(transaction: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in transaction.topics for number in topic.partitions]


def _topic_results(codes: Mapping[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for name, code in codes.items():
        result = AddPartitionsToTxnPartitionResult(partition_index=name.partition, partition_error_code=code)
        topics.setdefault(name.topic, []).append(result)
    return [
        AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results) for topic, results in topics.items()
    ]
