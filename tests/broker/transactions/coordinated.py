"""A transactional producer as a test plays it: each call is one request through its handler."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from tailrace.broker.handlers import (
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    produce,
)
from tailrace.broker.request import Parked
from tailrace.broker.topic_names import TRANSACTION_STATE_TOPIC
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.messages.end_txn import EndTxnRequest
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tailrace.protocol.schema import Message
from tests.broker.parts import Parts, batch
from tests.waiting import until


async def answered(result: Any) -> Any:
    """Wait for whatever a handler returned."""
    if isinstance(result, Coroutine):
        result = await result
    if isinstance(result, Parked):
        await until(lambda: result.is_done, "the answer")
        assert result.answer is not None, result.error
        return result.answer
    assert isinstance(result, Message), result
    return result


class Producer:
    """The producer of one transactional id; goes on with what it is answered."""

    def __init__(self, parts: Parts, name: str = "x") -> None:
        self.parts = parts
        self.name = name
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(self, *, timeout_ms: int = 60_000, version: int = 5) -> ErrorCode:
        """InitProducerId."""
        await self.parts.broker.transactions.topic.ensure_created()
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
        answer = await answered(self.parts.handle(init_producer_id, request, version))
        if not answer.error_code:
            self.take(answer)
        return ErrorCode(answer.error_code)

    def take(self, answer: Any) -> None:
        """Go on with the id and epoch of an answer."""
        if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def begin_add(self, topic: str, number: int = 0, *, version: int = 3) -> Any:
        """AddPartitionsToTxn, as the handler returns it."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[number])],
        )
        return self.parts.handle(add_partitions_to_txn, request, version)

    async def add(self, topic: str, number: int = 0) -> ErrorCode:
        """AddPartitionsToTxn."""
        answer = await answered(self.begin_add(topic, number))
        (result,) = answer.results_by_topic_v3_and_below
        return ErrorCode(result.results_by_partition[0].partition_error_code)

    def begin_produce(self, topic: str, number: int = 0, *, version: int = 12, sequence: int | None = None) -> Any:
        """Produce one record, as the handler returns it."""
        place = (topic, number)
        if sequence is None:
            sequence = self.sequences.get(place, 0)
            self.sequences[place] = sequence + 1
        records = batch(
            b"v",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
            timestamp=self.parts.clock.time_ms(),
        )
        data = PartitionProduceData(index=number, records=records)
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        return self.parts.handle(produce, request, version)

    async def produce(
        self, topic: str, number: int = 0, *, version: int = 12, sequence: int | None = None
    ) -> ErrorCode:
        """Produce one record."""
        answer = await answered(self.begin_produce(topic, number, version=version, sequence=sequence))
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    def begin_end(self, *, is_commit: bool, version: int = 5) -> Any:
        """EndTxn, as the handler returns it."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        return self.parts.handle(end_txn, request, version)

    async def end(self, *, is_commit: bool = True, version: int = 5) -> ErrorCode:
        """EndTxn."""
        answer = await answered(self.begin_end(is_commit=is_commit, version=version))
        if not answer.error_code and version >= 5:
            self.take(answer)
        return ErrorCode(answer.error_code)

    def describe(self) -> str:
        """Give the state and the epoch, or the error."""
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        (state,) = self.parts.answer(describe_transactions, request, 0).transaction_states
        if state.error_code:
            return ErrorCode(state.error_code).name
        return f"{state.transaction_state} {state.producer_epoch}"


async def coordinate(parts: Parts, **settings: str) -> None:
    """Make `__transaction_state` with one partition and these overrides."""
    await parts.create_topic(TRANSACTION_STATE_TOPIC, cleanup_policy="compact", **settings)
