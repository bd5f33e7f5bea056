"""Produce: v3-v13 (v0-v2 are advertised and refused, so that librdkafka goes on compressing).

v3: one batch of format 2 a partition … v5: log start offset … v7: zstd (KIP-110) … v8: errors by record (KIP-467) …
v9: flexible … v10: the current leader beside NOT_LEADER_OR_FOLLOWER (KIP-951) … v12: transactions v2 (KIP-890) …
v13: topics by id (KIP-516).

Each partition has its own answer: what is wrong with one does not keep the others from being appended. With acks=0
nothing is answered, and an error closes the connection, because a producer can learn of it in no other way.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.current_leader import current_leader
from tailrace.broker.delayed_produce import DelayedProduce, PendingAck
from tailrace.broker.partition import ACKS_ALL, Partition
from tailrace.broker.request import NO_RESPONSE, Answer, CloseConnection, ImmediateResult, Parked, Request, Result
from tailrace.broker.topic_names import is_internal
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tailrace.protocol.uuid import ZERO_UUID
from tailrace.storage.log_errors import RecordsRejected

LOGGER = logging.getLogger(__name__)

ZSTD_VERSION_FIRST = 7
LEADER_VERSION_FIRST = 10
TOPIC_ID_VERSION_FIRST = 13
ADMIN_CLIENT_ID = "__admin_client"
"""The one client that may write to internal topics: Kafka's own tools set this id."""

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

UNVERIFIED_TRANSACTION = (
    "Unable to verify the partition has been added to the transaction. Underlying error: COORDINATOR_NOT_AVAILABLE"
)
"""What Kafka says while it can't reach the coordinator; the code beside it is one that old producers retry, too."""

_LENGTH_AT = 8
_LENGTH_END = 12
_BATCH_SIZE_MIN = 26
"""Offset, length and the 14 bytes without which no record of any format is one."""
_MAGIC_AT = 16
_ATTRIBUTES_AT = 22
_PRODUCER_ID_AT = 43
_BATCH_OVERHEAD = 61
_CODEC_MASK = 0x07
_ZSTD = 4
_TRANSACTIONAL = 0x10

_NO_RECORD_ERRORS: list[BatchIndexAndErrorMessage] = []
"""Nobody changes it, so all answers share it."""


def handle(broker: Broker, request: Request[ProduceRequest]) -> Result:
    """Append what a producer sends, and answer when it is as safe as `acks` asks."""
    if _has_transactional_batch(request.body) and not _may_write_transactions(broker, request):
        return _answer_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
    return Production(broker, request).run()


def error_response(request: Request[ProduceRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer every partition alike: the request as a whole failed."""
    return _answer_all(request, code, message)


class Conversion(NamedTuple):
    """Records that have to be made into another codec before they are appended, and where their answer goes."""

    partition: Partition
    records: Buffer
    answers: list[PartitionProduceResponse]
    slot: int


class Production:
    """One produce request on its way through the broker."""

    __slots__ = ("_acks", "_appended", "_broker", "_conversions", "_has_errors", "_request", "_responses")

    def __init__(self, broker: Broker, request: Request[ProduceRequest]) -> None:
        self._broker = broker
        self._request = request
        self._acks = request.body.acks
        self._responses: list[TopicProduceResponse] = []
        self._appended: list[PendingAck] = []
        self._conversions: list[Conversion] | None = None
        self._has_errors = False

    def run(self) -> Result:
        """Append to every partition; what needs another codec is converted on a thread first."""
        for topic in self._request.body.topic_data:
            self._responses.append(self._append_topic(topic))
        return self._finish() if self._conversions is None else self._convert(self._conversions)

    def _append_topic(self, topic: TopicProduceData) -> TopicProduceResponse:
        name: str | None = topic.name
        topic_id = ZERO_UUID
        code = ErrorCode.NONE
        if self._request.api_version >= TOPIC_ID_VERSION_FIRST:
            topic_id = topic.topic_id
            registration = self._broker.metadata.topic_by_id(topic_id)
            name = registration.name if registration is not None else None
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            name = ""
        elif not self._broker.authorizer.authorize(
            self._request.connection, AclOperation.WRITE, ResourceType.TOPIC, name
        ):
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answers: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            if code:
                answers.append(self._refused(data.index, code))
            else:
                self._append_partition(name, topic_id, data, answers)
        return TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=answers)

    def _append_partition(
        self, name: str, topic_id: bytes, data: PartitionProduceData, answers: list[PartitionProduceResponse]
    ) -> None:
        manager = self._broker.replica_manager
        partition = manager.partitions.get((name, data.index))
        if partition is None and self._broker.metadata.partition(name, data.index) is None:
            answers.append(self._refused(data.index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        records = data.records
        code = check_request_records(self._request.api_version, records)
        if code or records is None:
            answers.append(self._refused(data.index, code or ErrorCode.INVALID_RECORD))
        elif not -1 <= self._acks <= 1:
            answers.append(self._refused(data.index, ErrorCode.INVALID_REQUIRED_ACKS))
        elif is_internal(name) and self._request.client_id != ADMIN_CLIENT_ID:
            answers.append(self._refused(data.index, ErrorCode.INVALID_TOPIC_EXCEPTION))
        elif records[_ATTRIBUTES_AT] & _TRANSACTIONAL and self._verifies_transactions():
            answers.append(self._refused(data.index, ErrorCode.NOT_ENOUGH_REPLICAS, UNVERIFIED_TRANSACTION))
        else:
            try:
                if partition is None:
                    partition = manager.partition(name, data.index)
                if topic_id is not ZERO_UUID and partition.topic_id != topic_id:
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"{partition.topic_partition} has another topic id")
                if partition.log.needs_conversion(records):
                    self._convert_later(Conversion(partition, records, answers, len(answers)))
                    answers.append(_NOT_YET)
                    return
            except ApiError as error:
                answers.append(self._failed(partition, name, data.index, records, error))
                return
            answers.append(self._append(partition, records))

    def _append(self, partition: Partition, records: Buffer) -> PartitionProduceResponse:
        index = partition.topic_partition.partition
        partition.topic_metrics.total_produce_requests += 1
        try:
            result, moved = self._broker.replica_manager.append(partition, records, acks=self._acks)
        except Exception as error:  # noqa: BLE001 - told apart, counted and logged in _failed
            return self._failed(partition, partition.topic_partition.topic, index, records, error)
        answer = PartitionProduceResponse(
            index=index,
            base_offset=result.first_offset,
            # A duplicate is answered with its batch's own time, whatever kind of time that is: so does Kafka.
            log_append_time_ms=result.max_timestamp if result.is_duplicate else result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
            record_errors=_NO_RECORD_ERRORS,
        )
        self._appended.append(PendingAck(partition, answer, result.last_offset + 1, moved))
        return answer

    def _verifies_transactions(self) -> bool:
        """Whether a coordinator has to vouch for records of a transaction before they are appended (KIP-890).

        There is no transaction coordinator in this broker yet, so none can.
        """
        return self._broker.config.transaction_partition_verification_enable

    # Answers that are errors

    def _refused(self, index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
        """Answer what no log was asked about."""
        self._has_errors = True
        self._broker.metrics.record_error("Produce", code)
        return _error_answer(index, code, message)

    def _failed(
        self, partition: Partition | None, name: str, index: int, records: Buffer, error: Exception
    ) -> PartitionProduceResponse:
        """Answer an append that raised: an error of Kafka's table, or our own fault."""
        self._has_errors = True
        metrics = self._broker.metrics
        topic_metrics = self._broker.replica_manager.topic_metrics(name)
        answer = _error_answer(index, ErrorCode.UNKNOWN_SERVER_ERROR)
        if isinstance(error, ApiError):
            metrics.record_error("Produce", error.code)
            answer.error_code = error.code
            is_known = error.code in KNOWN_ERRORS
            if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
                topic_metrics.bytes_rejected += len(records)
            if isinstance(error, RecordsRejected) and error.record_errors:
                answer.error_message = error.message
                answer.record_errors = [
                    BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message)
                    for batch_index, message in error.record_errors
                ]
            LOGGER.debug("append to %s-%d refused: %s", name, index, error)
        else:
            is_known = False
            metrics.record_unexpected_error("Produce")
            answer.error_code = _unexpected_code(records)
            LOGGER.error("append to %s-%d failed", name, index, exc_info=error)
        if not is_known:
            topic_metrics.failed_produce_requests += 1
            if partition is not None:
                answer.log_start_offset = partition.log.log_start_offset
        return answer

    # What comes after the appends

    def _convert_later(self, conversion: Conversion) -> None:
        if self._conversions is None:
            self._conversions = []
        self._conversions.append(conversion)

    async def _convert(self, conversions: list[Conversion]) -> ImmediateResult:
        """Convert on a thread, one after the other, and append; the connection dispatches nothing meanwhile."""
        for partition, records, answers, slot in conversions:
            topic, index = partition.topic_partition
            try:
                converted = await asyncio.to_thread(partition.log.convert, records)
            except Exception as error:  # noqa: BLE001 - told apart, counted and logged in _failed
                answers[slot] = self._failed(partition, topic, index, records, error)
                continue
            partition.topic_metrics.produce_message_conversions += 1
            if partition.is_removed:
                answers[slot] = self._refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                answers[slot] = self._append(partition, converted)
        return self._finish()

    def _finish(self) -> ImmediateResult:
        appended = self._appended
        if not appended:
            return self.answer()
        manager = self._broker.replica_manager
        operation: DelayedProduce | None = None
        if self._acks == ACKS_ALL or (self._acks and self._is_flushing()):
            operation = DelayedProduce(self._request.body.timeout_ms, appended, self._acks, self.answer)
            if not manager.produce_purgatory.try_complete_else_watch(operation, operation.keys):
                operation.parked = Parked()
        for partition, _, _, high_watermark_moved in appended:
            manager.appended(partition, high_watermark_moved=high_watermark_moved)
        if operation is None or operation.parked is None:
            return self.answer()
        return operation.parked

    def _is_flushing(self) -> bool:
        return any(entry.partition.is_flushing for entry in self._appended)

    def answer(self) -> Answer:
        """Make the response of what every partition came to; nothing for acks=0."""
        request = self._request
        throttle_time_ms = self._broker.quotas.record_produce(request.connection, request.client_id, request.size_bytes)
        response = ProduceResponse(responses=self._responses, throttle_time_ms=throttle_time_ms)
        if self._acks == 0:
            if self._has_errors:
                raise CloseConnection(f"a produce request with acks=0 failed: {_errors_text(response)}")
            return NO_RESPONSE
        if request.api_version >= LEADER_VERSION_FIRST:
            self._name_leaders(response)
        return response

    def _name_leaders(self, response: ProduceResponse) -> None:
        """Tell a client that came to the wrong broker where the leader is (KIP-951)."""
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    continue
                found = current_leader(self._broker, topic.name, answer.index, self._request.connection.listener_name)
                answer.current_leader = LeaderIdAndEpoch(leader_id=found.leader_id, leader_epoch=found.leader_epoch)
                if found.endpoint is not None and all(n.node_id != found.leader_id for n in response.node_endpoints):
                    response.node_endpoints.append(
                        NodeEndpoint(
                            node_id=found.leader_id,
                            host=found.endpoint.host,
                            port=found.endpoint.port,
                            rack=found.rack,
                        )
                    )


def check_request_records(version: int, records: Buffer | None) -> ErrorCode:
    """Check that a partition was sent exactly one batch, of format 2, in a codec its version may use."""
    size = 0 if records is None else len(records)
    if records is None or size < _LENGTH_END:
        return ErrorCode.INVALID_RECORD
    batch_size = _LENGTH_END + int.from_bytes(records[_LENGTH_AT:_LENGTH_END], "big", signed=True)
    if batch_size != size:
        if batch_size < _BATCH_SIZE_MIN:
            return ErrorCode.CORRUPT_MESSAGE
        if batch_size > size or _has_second_batch(records, batch_size):
            return ErrorCode.INVALID_RECORD
    if batch_size <= _ATTRIBUTES_AT or records[_MAGIC_AT] < 2:
        return ErrorCode.INVALID_RECORD
    if records[_MAGIC_AT] != 2:
        return ErrorCode.CORRUPT_MESSAGE
    if version < ZSTD_VERSION_FIRST and records[_ATTRIBUTES_AT] & _CODEC_MASK == _ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return ErrorCode.NONE


def _has_second_batch(records: Buffer, first_size: int) -> bool:
    """Say whether a whole batch follows the first; bytes that are none are ignored, as Kafka ignores them."""
    left = len(records) - first_size
    if left <= _MAGIC_AT:
        return False
    length = records[first_size + _LENGTH_AT : first_size + _LENGTH_END]
    return _LENGTH_END + int.from_bytes(length, "big", signed=True) <= left


def _unexpected_code(records: Buffer) -> ErrorCode:
    """Choose the answer to an append that failed by our own fault.

    An idempotent producer takes UNKNOWN_SERVER_ERROR for "was not appended" and goes on with the next sequence number;
    the batch may be in the log all the same. A retriable code has it sent again, and then the sequence decides.
    """
    has_producer = len(records) >= _BATCH_OVERHEAD and records[_PRODUCER_ID_AT] < 0x80
    return ErrorCode.KAFKA_STORAGE_ERROR if has_producer else ErrorCode.UNKNOWN_SERVER_ERROR


def _has_transactional_batch(body: ProduceRequest) -> bool:
    for topic in body.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES_AT
                and records[_ATTRIBUTES_AT] & _TRANSACTIONAL
                and records[_MAGIC_AT] == 2
            ):
                return True
    return False


def _may_write_transactions(broker: Broker, request: Request[ProduceRequest]) -> bool:
    transactional_id = request.body.transactional_id
    return transactional_id is not None and broker.authorizer.authorize(
        request.connection, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    )


def _error_answer(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=code,
        base_offset=-1,
        record_errors=_NO_RECORD_ERRORS,
        error_message=message,
    )


_NOT_YET = _error_answer(-1, ErrorCode.UNKNOWN_SERVER_ERROR)
"""Stands in an answer until the conversion it waits for has ended."""


def _answer_all(request: Request[ProduceRequest], code: ErrorCode, message: str | None) -> Answer:
    if request.body.acks == 0:
        raise CloseConnection(f"a produce request with acks=0 failed: {code.name}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_error_answer(data.index, code, message) for data in topic.partition_data],
            )
            for topic in request.body.topic_data
        ]
    )


def _errors_text(response: ProduceResponse) -> str:
    return ", ".join(
        f"{topic.name}-{answer.index} {ErrorCode(answer.error_code).name}"
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.error_code
    )
