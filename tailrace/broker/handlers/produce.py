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
from collections.abc import Coroutine
from typing import Any, NamedTuple

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.current_leader import current_leader
from tailrace.broker.delayed_produce import DelayedProduce, PendingAck
from tailrace.broker.partition import NO_ERROR, Partition
from tailrace.broker.produce_answers import (
    COORDINATOR_AWAY,
    KNOWN_ERRORS,
    answer_all,
    appended_answer,
    error_answer,
    errors_text,
    unexpected_code,
)
from tailrace.broker.request import NO_RESPONSE, Answer, CloseConnection, ImmediateResult, Request, Result
from tailrace.broker.request_batch import (
    ATTRIBUTES_AT,
    TRANSACTIONAL,
    check_request_batch,
    is_transactional,
    producer_of,
)
from tailrace.broker.topic_names import INTERNAL_TOPICS
from tailrace.broker.transactions.metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch
from tailrace.broker.transactions.verification import Verification
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
from tailrace.storage.log import AppendResult
from tailrace.storage.log_errors import RecordsRejected

LOGGER = logging.getLogger(__name__)

WRITE = AclOperation.WRITE
TOPIC = ResourceType.TOPIC
LEADER_VERSION_FIRST = 10
ABORTABLE_VERSION_FIRST = 11
ADDING_VERSION_FIRST = 12
"""From here on a produce request adds its partitions to the transaction itself."""
TOPIC_ID_VERSION_FIRST = 13
ADMIN_CLIENT_ID = "__admin_client"
"""The one client that may write to internal topics: Kafka's own tools set this id."""


def handle(broker: Broker, request: Request[ProduceRequest]) -> Result:
    """Append what a producer sends, and answer when it is as safe as `acks` asks."""
    topics = request.body.topic_data
    if len(topics) == 1 and len(topics[0].partition_data) == 1:
        result = _append_alone(broker, request, topics[0])
        if result is not None:
            return result
    for topic in topics:
        for data in topic.partition_data:
            if is_transactional(data.records):
                return _handle_transactional(broker, request)
    return Production(broker, request).run()


def _append_alone(broker: Broker, request: Request[ProduceRequest], topic: TopicProduceData) -> Result | None:
    """Append the only batch of a request, where nothing about it is unusual; None, and nothing done, where it is.

    The requests of a producer that waits for each record are all like this, and those of most others. What the general
    way asks of every topic and partition is asked at once, and what it keeps while it waits is not made: 1 of 13 µs.
    """
    body, manager = request.body, broker.replica_manager
    data = topic.partition_data[0]
    name, records = topic.name, data.records
    partition = manager.partitions.get((name, data.index))
    if (
        partition is None
        or partition.may_convert
        or records is None
        or body.acks not in (-1, 1)
        or check_request_batch(request.api_version, records)
        or records[ATTRIBUTES_AT] & TRANSACTIONAL
        or name in INTERNAL_TOPICS
        or not broker.authorizer.authorize(request.connection, WRITE, TOPIC, name)
    ):
        return None
    partition.topic_metrics.total_produce_requests += 1
    try:
        result = partition.append_as_leader(records, acks=body.acks)
    except Exception as error:  # noqa: BLE001 - told apart, counted and logged by Production
        return Production(broker, request).fail_alone(partition, data.index, records, error)
    if partition.acknowledgement(result.last_offset + 1, body.acks) is not NO_ERROR:
        return Production(broker, request).settle_alone(partition, data.index, result)
    manager.appended(partition, high_watermark_moved=result.high_watermark_moved)
    answers = [appended_answer(data.index, result)]
    throttle_time_ms = broker.quotas.record_produce(request.connection, request.client_id, request.size_bytes)
    responses = [TopicProduceResponse(name=name, partition_responses=answers)]
    return ProduceResponse(responses=responses, throttle_time_ms=throttle_time_ms)


def _handle_transactional(broker: Broker, request: Request[ProduceRequest]) -> Result:
    """Append records some of which belong to a transaction; all of those to one."""
    transactional_id = request.body.transactional_id
    if transactional_id is None or not broker.authorizer.authorize(
        request.connection, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return answer_all(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
    producers = {
        producer_of(data.records)[:2]
        for topic in request.body.topic_data
        for data in topic.partition_data
        if data.records is not None and is_transactional(data.records)
    } - {(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)}
    if not producers:
        return Production(broker, request).run()
    if len(producers) > 1:
        message = "Transactional records contained more than one producer ID"
        return answer_all(request, ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)
    verification = Verification(
        broker.transactions,
        transactional_id=transactional_id,
        producer=ProducerIdAndEpoch(*producers.pop()),
        adds=request.api_version >= ADDING_VERSION_FIRST,
        knows_abortable=request.api_version >= ABORTABLE_VERSION_FIRST,
        config=broker.config,
        clock=broker.clock,
    )
    return Production(broker, request, verification).run()


def error_response(request: Request[ProduceRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer every partition alike: the request as a whole failed."""
    return answer_all(request, code, message)


class Deferred(NamedTuple):
    """Records that can't be appended yet, and where their answer goes."""

    partition: Partition
    records: Buffer
    answers: list[PartitionProduceResponse]
    slot: int


class Production:
    """One produce request on its way through the broker."""

    __slots__ = (
        "_acks",
        "_appended",
        "_broker",
        "_conversions",
        "_has_errors",
        "_pending",
        "_request",
        "_responses",
        "_unverified",
        "_verification",
    )

    def __init__(
        self, broker: Broker, request: Request[ProduceRequest], verification: Verification | None = None
    ) -> None:
        self._broker = broker
        self._request = request
        self._acks = request.body.acks
        self._verification = verification
        self._has_errors = False
        self._responses: list[TopicProduceResponse] = []
        self._appended: list[tuple[Partition, bool]] = []
        self._pending: list[PendingAck] | None = None
        self._unverified: list[Deferred] | None = None
        self._conversions: list[Deferred] | None = None

    def run(self) -> Result:
        """Append to every partition; what needs another codec is converted on a thread first."""
        for topic in self._request.body.topic_data:
            self._responses.append(self._append_topic(topic))
        if self._verification is not None and self._unverified is not None:
            return self._verify(self._verification, self._unverified)
        return self._finish() if self._conversions is None else self._convert(self._conversions)

    def fail_alone(self, partition: Partition, index: int, records: Buffer, error: Exception) -> Result:
        """Answer a request whose only batch could not be appended."""
        name = partition.topic_partition.topic
        answers = [self._failed(partition, name, index, records, error)]
        self._responses.append(TopicProduceResponse(name=name, partition_responses=answers))
        return self._finish()

    def settle_alone(self, partition: Partition, index: int, result: AppendResult) -> Result:
        """Go on with a request whose only batch is appended, and not acknowledged yet."""
        answers = [self._appended_to(partition, index, result)]
        self._responses.append(TopicProduceResponse(name=partition.topic_partition.topic, partition_responses=answers))
        return self._finish()

    def _append_topic(self, topic: TopicProduceData) -> TopicProduceResponse:
        broker, request = self._broker, self._request
        name: str | None = topic.name
        topic_id = ZERO_UUID
        code = NO_ERROR
        if request.api_version >= TOPIC_ID_VERSION_FIRST:
            topic_id = topic.topic_id
            registration = broker.metadata.topic_by_id(topic_id)
            name = registration.name if registration is not None else None
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            name = ""
        elif not broker.authorizer.authorize(request.connection, WRITE, TOPIC, name):
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
        index, records = data.index, data.records
        partition = manager.partitions.get((name, index))
        if partition is None and self._broker.metadata.partition(name, index) is None:
            answers.append(self._refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            return
        code = check_request_batch(self._request.api_version, records)
        if code or records is None:
            answers.append(self._refused(index, code or ErrorCode.INVALID_RECORD))
            return
        if not -1 <= self._acks <= 1:
            answers.append(self._refused(index, ErrorCode.INVALID_REQUIRED_ACKS))
            return
        if name in INTERNAL_TOPICS and self._request.client_id != ADMIN_CLIENT_ID:
            answers.append(self._refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION))
            return
        try:
            if partition is None:
                partition = manager.partition(name, index)
            if topic_id is not ZERO_UUID and partition.topic_id != topic_id:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"{partition.topic_partition} has another topic id")
            if self._verification is not None or partition.may_convert:
                deferred = Deferred(partition, records, answers, len(answers))
                if self._has_to_wait_its_turn(deferred):
                    answers.append(_NOT_YET)
                    return
        except ApiError as error:
            answers.append(self._failed(partition, name, index, records, error))
            return
        answers.append(self._append(partition, index, records))

    def _append(self, partition: Partition, index: int, records: Buffer) -> PartitionProduceResponse:
        partition.topic_metrics.total_produce_requests += 1
        acks, verification = self._acks, self._verification
        try:
            if verification is not None:
                verification.check_sequence(partition.log, producer_of(records)[2])
            result = partition.append_as_leader(records, acks=acks)
        except Exception as error:  # noqa: BLE001 - told apart, counted and logged in _failed
            return self._failed(partition, partition.topic_partition.topic, index, records, error)
        if verification is not None:
            verification.appended(partition.topic_partition)
        return self._appended_to(partition, index, result)

    def _appended_to(self, partition: Partition, index: int, result: AppendResult) -> PartitionProduceResponse:
        """Answer an append, and note what it still waits for."""
        acks = self._acks
        self._appended.append((partition, result.high_watermark_moved))
        answer = appended_answer(index, result)
        if acks:
            required_offset = result.last_offset + 1
            code = partition.acknowledgement(required_offset, acks)
            if code is None:
                self._wait_for(PendingAck(partition, answer, required_offset))
            elif code:
                answer.error_code = code
                self._has_errors = True
        return answer

    # What can't be appended at once

    def _has_to_wait_its_turn(self, deferred: Deferred) -> bool:
        """Whether the coordinator has to be asked first, or the records converted; they are kept for that."""
        partition, records, _, _ = deferred
        verification = self._verification
        if verification is not None and is_transactional(records) and not verification.is_open_in(partition.log):
            if verification.is_fenced_in(partition.log):
                raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, f"{partition.topic_partition} knows a later epoch")
            verification.tried(partition.topic_partition, producer_of(records)[2])
            if self._unverified is None:
                self._unverified = []
            self._unverified.append(deferred)
            return True
        if partition.may_convert and partition.log.needs_conversion(records):
            self._convert_later(deferred)
            return True
        return False

    def _verify(self, verification: Verification, unverified: list[Deferred]) -> Result:
        """Add all partitions that begin the transaction with this request, if that is its business, and append."""
        if not verification.adds:
            self._append_verified(verification, unverified, ErrorCode.NONE)
        else:
            outcome = verification.add([entry.partition.topic_partition for entry in unverified], is_patient=True)
            if not isinstance(outcome, ErrorCode):
                return self._append_when_added(verification, unverified, outcome)
            self._append_verified(verification, unverified, outcome)
        return self._finish() if self._conversions is None else self._convert(self._conversions)

    async def _append_when_added(
        self, verification: Verification, unverified: list[Deferred], outcome: Coroutine[Any, Any, ErrorCode]
    ) -> ImmediateResult:
        self._append_verified(verification, unverified, await outcome)
        return self._finish() if self._conversions is None else await self._convert(self._conversions)

    def _append_verified(self, verification: Verification, unverified: list[Deferred], outcome: ErrorCode) -> None:
        for deferred in unverified:
            partition, records, answers, slot = deferred
            index = partition.topic_partition.partition
            code = outcome or verification.check(partition.topic_partition)
            if code:
                answers[slot] = self._unverified_answer(index, code)
            elif partition.is_removed:
                answers[slot] = self._refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif partition.may_convert and partition.log.needs_conversion(records):
                self._convert_later(deferred)
            else:
                answers[slot] = self._append(partition, index, records)

    def _check_again(self, partition: Partition, records: Buffer) -> ErrorCode:
        """Ask again where time has passed: the transaction may have ended meanwhile."""
        verification = self._verification
        if verification is None or not is_transactional(records) or verification.is_open_in(partition.log):
            return ErrorCode.NONE
        return verification.check(partition.topic_partition)

    def _unverified_answer(self, index: int, code: ErrorCode) -> PartitionProduceResponse:
        """Answer records that the coordinator does not vouch for.

        Where it may do so in a moment, an older producer is told a code that it tries again whatever else it does.
        """
        adds = self._verification is not None and self._verification.adds
        if code in COORDINATOR_AWAY or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
            message = "Unable to verify the partition has been added to the transaction. "
            return self._refused(index, ErrorCode.NOT_ENOUGH_REPLICAS, f"{message}Underlying error: {code.name}")
        is_unknown = code is ErrorCode.INVALID_TXN_STATE
        return self._refused(index, code, "Partition was not added to the transaction" if is_unknown else None)

    # Answers that are errors

    def _refused(self, index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
        """Answer what no log was asked about."""
        self._has_errors = True
        self._broker.metrics.record_error("Produce", code)
        return error_answer(index, code, message)

    def _failed(
        self, partition: Partition | None, name: str, index: int, records: Buffer, error: Exception
    ) -> PartitionProduceResponse:
        """Answer an append that raised: an error of Kafka's table, or our own fault."""
        self._has_errors = True
        metrics = self._broker.metrics
        topic_metrics = self._broker.replica_manager.topic_metrics(name)
        answer = error_answer(index, ErrorCode.UNKNOWN_SERVER_ERROR)
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
            answer.error_code = unexpected_code(records)
            LOGGER.error("append to %s-%d failed", name, index, exc_info=error)
        if not is_known:
            topic_metrics.failed_produce_requests += 1
            if partition is not None:
                answer.log_start_offset = partition.log.log_start_offset
        return answer

    # What comes after the appends

    def _convert_later(self, conversion: Deferred) -> None:
        if self._conversions is None:
            self._conversions = []
        self._conversions.append(conversion)

    async def _convert(self, conversions: list[Deferred]) -> ImmediateResult:
        """Convert on a thread, one after the other, and append; the connection dispatches nothing meanwhile."""
        for partition, records, answers, slot in conversions:
            topic, index = partition.topic_partition
            try:
                converted = await asyncio.to_thread(partition.log.convert, records)
            except Exception as error:  # noqa: BLE001 - told apart, counted and logged in _failed
                answers[slot] = self._failed(partition, topic, index, records, error)
                continue
            partition.topic_metrics.produce_message_conversions += 1
            code = self._check_again(partition, records)
            if code:
                answers[slot] = self._unverified_answer(index, code)
            elif partition.is_removed:
                answers[slot] = self._refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                answers[slot] = self._append(partition, index, converted)
        return self._finish()

    def _wait_for(self, pending: PendingAck) -> None:
        if self._pending is None:
            self._pending = []
        self._pending.append(pending)

    def _finish(self) -> ImmediateResult:
        """Answer, or wait for what is not acknowledged yet; and tell those who wait for what was appended."""
        body, manager = self._request.body, self._broker.replica_manager
        operation = None
        if self._pending is not None:
            operation = DelayedProduce(
                body.timeout_ms, acks=self._acks, pending=self._pending, make_answer=self._answer_late
            )
            manager.produce_purgatory.try_complete_else_watch(operation, operation.keys)
        for partition, moved in self._appended:
            manager.appended(partition, high_watermark_moved=moved)
        return self._answer() if operation is None else operation.parked.result()

    def _answer_late(self, has_errors: bool) -> Answer:
        self._has_errors |= has_errors
        return self._answer()

    def _answer(self) -> Answer:
        """Make the response of what every partition came to; nothing for acks=0."""
        request = self._request
        throttle_time_ms = self._broker.quotas.record_produce(request.connection, request.client_id, request.size_bytes)
        response = ProduceResponse(responses=self._responses, throttle_time_ms=throttle_time_ms)
        if self._acks == 0:
            if self._has_errors:
                raise CloseConnection(f"a produce request with acks=0 failed: {errors_text(response)}")
            return NO_RESPONSE
        if self._has_errors and request.api_version >= LEADER_VERSION_FIRST:
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


_NOT_YET = error_answer(-1, ErrorCode.UNKNOWN_SERVER_ERROR)
"""Stands in an answer until the conversion it waits for has ended."""
