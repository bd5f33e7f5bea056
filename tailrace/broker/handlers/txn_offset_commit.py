"""TxnOffsetCommit: v0-v5.

v2: leader epochs; older clients are told COORDINATOR_NOT_AVAILABLE while the coordinator loads, because the code for
that made them fail … v3: flexible; member, generation and instance, so that a consumer that has lost its partitions
can't commit for them (KIP-447) … v4: TRANSACTION_ABORTABLE … v5: adds the group's offsets partition to the transaction
itself (transactions v2, KIP-890).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.coordinator_log import TransactionalProducer, coordinator_error
from tailrace.broker.groups.offset_requests import Committer, OffsetToCommit
from tailrace.broker.request import Answer, ImmediateResult, Parked, Request, Result
from tailrace.broker.topic_names import GROUP_OFFSETS_TOPIC
from tailrace.broker.transactions.transaction import ProducerIdAndEpoch
from tailrace.broker.transactions.verification import Verification
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID

LOADING_VERSION_FIRST = 2
ABORTABLE_VERSION_FIRST = 4
ADDING_VERSION_FIRST = 5


def handle(broker: Broker, request: Request[TxnOffsetCommitRequest]) -> Result:
    """Commit offsets that count when the transaction does."""
    body = request.body
    authorize = broker.authorizer.authorize
    if not authorize(request.connection, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not authorize(request.connection, AclOperation.READ, ResourceType.GROUP, body.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return _Commit(broker, request).run()


def error_response(request: Request[TxnOffsetCommitRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every partition."""
    del message  # the response has no room for it
    told = _told(code, request.api_version)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=told)
                    for partition in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


class _Commit:
    """One request: what may be committed is in `_offsets`, the answer is made beside it."""

    __slots__ = ("_broker", "_offsets", "_request", "_response")

    def __init__(self, broker: Broker, request: Request[TxnOffsetCommitRequest]) -> None:
        self._broker = broker
        self._request = request
        self._offsets: list[OffsetToCommit] = []
        throttle_time_ms = broker.quotas.record_request(request.connection, request.client_id)
        self._response = TxnOffsetCommitResponse(
            throttle_time_ms=throttle_time_ms, topics=[self._sort_out(topic) for topic in request.body.topics]
        )

    def run(self) -> Result:
        """Have the offsets partition verified, or added, and commit."""
        if not self._offsets:
            return self._response
        broker, body, version = self._broker, self._request.body, self._request.api_version
        if not body.group_id:
            return self._failed(ErrorCode.INVALID_GROUP_ID)
        try:
            shard = broker.groups.topic.shard(body.group_id)
        except ApiError as error:
            return self._failed(error.code)
        verification = Verification(
            broker.transactions,
            transactional_id=body.transactional_id,
            producer=ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
            adds=version >= ADDING_VERSION_FIRST,
            knows_abortable=version >= ABORTABLE_VERSION_FIRST,
            config=broker.config,
            clock=broker.clock,
        )
        if verification.is_open_in(shard.log.partition.log):
            return self._commit()
        place = TopicPartition(GROUP_OFFSETS_TOPIC, broker.groups.topic.partition_of(body.group_id))
        if verification.adds:
            outcome = verification.add([place], is_patient=False)
            if not isinstance(outcome, ErrorCode):
                return self._commit_when_added(verification, place, outcome)
            if outcome:
                return self._failed(outcome)
        return self._commit_verified(verification, place)

    async def _commit_when_added(
        self, verification: Verification, place: TopicPartition, outcome: Coroutine[Any, Any, ErrorCode]
    ) -> ImmediateResult:
        code = await outcome
        return self._failed(code) if code else self._commit_verified(verification, place)

    def _commit_verified(self, verification: Verification, place: TopicPartition) -> ImmediateResult:
        code = verification.check(place)
        return self._failed(code) if code else self._commit()

    def _commit(self) -> ImmediateResult:
        body = self._request.body
        parked = Parked()
        committer = Committer(
            group_id=body.group_id,
            member_id=body.member_id,
            instance_id=body.group_instance_id,
            generation=body.generation_id,
        )
        try:
            self._broker.groups.commit_transactional_offsets(
                committer,
                self._offsets,
                producer=TransactionalProducer(body.producer_id, body.producer_epoch),
                version=self._request.api_version,
                on_done=lambda code: parked.complete(self._failed(code) if code else self._response),
            )
        except ApiError as error:
            return self._failed(error.code)
        return parked.result()

    def _failed(self, code: ErrorCode) -> TxnOffsetCommitResponse:
        """Answer every offset that was about to be committed alike."""
        told = _told(coordinator_error(code), self._request.api_version)
        self._broker.metrics.record_error("TxnOffsetCommit", told)
        for offset in self._offsets:
            if not offset.answer.error_code:
                offset.answer.error_code = told
        return self._response

    def _sort_out(self, topic: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic:
        """Begin the answers of a topic's partitions, and take those that can be committed."""
        broker, name = self._broker, topic.name
        is_allowed = broker.authorizer.authorize(self._request.connection, AclOperation.READ, ResourceType.TOPIC, name)
        answers: list[TxnOffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            answer = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            answers.append(answer)
            if not is_allowed:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif broker.metadata.partition(name, partition.partition_index) is None:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self._offsets.append(
                    OffsetToCommit(
                        name,
                        ZERO_UUID,
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                        answer,
                    )
                )
        return TxnOffsetCommitResponseTopic(name=name, partitions=answers)


def _told(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_VERSION_FIRST:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
