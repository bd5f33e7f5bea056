"""Transactions: listed, described, those that hang found, and ended by force.

A transaction hangs where a partition waits for its end and its coordinator knows nothing of it: readers of committed
records stand still there. `find_hanging_transactions` looks for them as kafka-transactions.sh does (KIP-664), and
`abort_transaction` writes the marker that the coordinator never will.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from tailrace.client.admin.session import UNKNOWN, AdminSession, Results
from tailrace.client.admin.transaction_values import (
    HangingTransaction,
    PartitionProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from tailrace.client.connection import Connection
from tailrace.client.coordinators import CoordinatorType, ask_coordinators
from tailrace.client.errors import BrokerError, UnsupportedVersion, error_of, is_retriable, raise_for_code
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from tailrace.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tailrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tailrace.protocol.topic_partition import TopicPartition

__all__ = [
    "HangingTransaction",
    "PartitionProducer",
    "TransactionAdmin",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
]

HANGING_AFTER_MS: Final = 15 * 60_000
"""transaction.max.timeout.ms by default: a coordinator ends what is older."""


class TransactionAdmin(AdminSession):
    """Administration of transactions."""

    async def list_transactions(
        self,
        *,
        states: Sequence[TransactionState] = (),
        producer_ids: Sequence[int] = (),
        running_longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Give the transactional ids of all coordinators that pass every filter, by their names.

        UnsupportedVersion where a broker has no such filter: it would list what was not asked for.
        """
        request = ListTransactionsRequest(
            state_filters=list(states),
            producer_id_filters=list(producer_ids),
            duration_filter=-1 if running_longer_than_ms is None else running_longer_than_ms,
            transactional_id_pattern=transactional_id_pattern,
        )
        version_needed = 2 if transactional_id_pattern is not None else 0 if running_longer_than_ms is None else 1
        listed: dict[str, TransactionListing] = {}

        async def ask(connection: Connection) -> None:
            if connection.version_for(ListTransactionsRequest) < version_needed:
                raise UnsupportedVersion(f"{connection.address} cannot filter transactions by duration or pattern")
            response = await connection.request(request, ListTransactionsResponse)
            raise_for_code(response.error_code, f"listing transactions of {connection.address}")
            node_id = self._node_of(connection).node_id
            for one in response.transaction_states:
                state = TransactionState.parse(one.transaction_state)
                listed[one.transactional_id] = TransactionListing(one.transactional_id, node_id, one.producer_id, state)

        await self._ask_every_broker("listing transactions", ask)
        return [listed[name] for name in sorted(listed)]

    async def describe_transactions(
        self, transactional_ids: Sequence[str]
    ) -> dict[str, TransactionDescription | BrokerError]:
        """Describe transactional ids; TRANSACTIONAL_ID_NOT_FOUND for one that is not there."""

        async def ask(connection: Connection, keys: list[str]) -> dict[str, TransactionDescription | BrokerError]:
            request = DescribeTransactionsRequest(transactional_ids=keys)
            response = await connection.request(request, DescribeTransactionsResponse)
            node_id = self._node_of(connection).node_id
            return {
                one.transactional_id: error_of(one.error_code, f"transactional id {one.transactional_id}")
                or _read_description(one, node_id)
                for one in response.transaction_states
            }

        what = f"describing transactions of {', '.join(transactional_ids)}"
        return await ask_coordinators(self._cluster, CoordinatorType.TRANSACTION, transactional_ids, ask, what=what)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[PartitionProducer] | BrokerError]:
        """Give the producers that partitions remember: as their leaders know them, or as `broker_id` does."""
        wanted = list(dict.fromkeys(partitions))
        done: dict[TopicPartition, list[PartitionProducer] | BrokerError] = {}

        async def attempt() -> None:
            missing = [key for key in wanted if key not in done]
            passing: BrokerError | None = None
            for node_id, keys in (await self._by_node(missing, broker_id, done)).items():
                connection = await self._cluster.connection_to(node_id)
                for key, answer in (await _describe_producers(connection, keys)).items():
                    if isinstance(answer, BrokerError) and is_retriable(answer) and answer.code not in UNKNOWN:
                        passing = answer
                    else:
                        done[key] = answer
            if passing is not None:
                raise passing

        await self._cluster.retrying("describing producers", attempt)
        return {key: done[key] for key in wanted}

    async def abort_transaction(
        self, topic_partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """End a hanging transaction on one partition by writing an abort marker there; its records are dropped."""
        topic = WritableTxnMarkerTopic(name=topic_partition.topic, partition_indexes=[topic_partition.partition])
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[topic],
            coordinator_epoch=coordinator_epoch,
        )

        async def attempt() -> None:
            leader = await self._cluster.leader_of(topic_partition)
            connection = await self._cluster.connection_to(leader.node_id)
            response = await connection.request(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
            (answer,) = response.markers[0].topics[0].partitions
            raise_for_code(answer.error_code, f"producer {producer_id} on {topic_partition}")

        await self._cluster.retrying(f"aborting a transaction on {topic_partition}", attempt, final=UNKNOWN)

    async def fence_producers(self, transactional_ids: Sequence[str]) -> Results:
        """Shut out the producers of transactional ids: what they have open is aborted, and they cannot go on."""

        async def ask(connection: Connection, keys: list[str]) -> dict[str, bool | BrokerError]:
            answers: dict[str, bool | BrokerError] = {}
            for key in keys:
                request = InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=self._timeout_ms)
                response = await connection.request(request, InitProducerIdResponse)
                answers[key] = error_of(response.error_code, f"transactional id {key}") or True
            return answers

        what = f"fencing the producers of {', '.join(transactional_ids)}"
        answers = await ask_coordinators(self._cluster, CoordinatorType.TRANSACTION, transactional_ids, ask, what=what)
        return {key: answer if isinstance(answer, BrokerError) else None for key, answer in answers.items()}

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        running_longer_than_ms: int = HANGING_AFTER_MS,
    ) -> list[HangingTransaction]:
        """Find transactions that partitions have waited for so long, and that their coordinator will not end."""
        described = await self.describe_producers(partitions, broker_id=broker_id)
        now = self._cluster.clock.time_ms()
        candidates: list[HangingTransaction] = []
        for key, producers in described.items():
            if isinstance(producers, BrokerError):
                raise producers
            candidates += [
                HangingTransaction(key, producer)
                for producer in producers
                if producer.transaction_start_offset is not None
                and now - producer.last_timestamp > running_longer_than_ms
            ]
        if not candidates:
            return []
        known = await self._partitions_of_transactions({one.producer.producer_id for one in candidates})
        return [one for one in candidates if one.topic_partition not in known.get(one.producer.producer_id, ())]

    async def _partitions_of_transactions(self, producer_ids: set[int]) -> dict[int, frozenset[TopicPartition]]:
        """Say which partitions coordinators have on their lists, by the producer's id."""
        listed = await self.list_transactions(producer_ids=sorted(producer_ids))
        described = await self.describe_transactions([one.transactional_id for one in listed])
        known: dict[int, frozenset[TopicPartition]] = {}
        for one in listed:
            description = described[one.transactional_id]
            if isinstance(description, TransactionDescription):
                known[one.producer_id] = description.partitions
            elif description.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise description
        return known

    async def _by_node(
        self,
        partitions: list[TopicPartition],
        broker_id: int | None,
        done: dict[TopicPartition, list[PartitionProducer] | BrokerError],
    ) -> dict[int, list[TopicPartition]]:
        """Say whom to ask about which partition; a partition that is not there is done with."""
        by_node: dict[int, list[TopicPartition]] = defaultdict(list)
        if broker_id is not None:
            await self._cluster.controller()
            return {broker_id: partitions}
        for key in partitions:
            try:
                by_node[(await self._cluster.leader_of(key)).node_id].append(key)
            except BrokerError as error:
                if error.code not in UNKNOWN and is_retriable(error):
                    raise
                done[key] = error
        return by_node


async def _describe_producers(
    connection: Connection, keys: list[TopicPartition]
) -> dict[TopicPartition, list[PartitionProducer] | BrokerError]:
    topics: dict[str, list[int]] = defaultdict(list)
    for key in keys:
        topics[key.topic].append(key.partition)
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
    )
    response = await connection.request(request, DescribeProducersResponse)
    answers: dict[TopicPartition, list[PartitionProducer] | BrokerError] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            error = error_of(partition.error_code, partition.error_message or f"partition {key}")
            answers[key] = error or [_read_producer(producer) for producer in partition.active_producers]
    return answers


def _read_producer(producer: ProducerState) -> PartitionProducer:
    start = producer.current_txn_start_offset
    return PartitionProducer(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch if producer.coordinator_epoch >= 0 else None,
        transaction_start_offset=start if start >= 0 else None,
    )


def _read_description(one: DescribedTransaction, coordinator_id: int) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=one.transactional_id,
        coordinator_id=coordinator_id,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        state=TransactionState.parse(one.transaction_state),
        timeout_ms=one.transaction_timeout_ms,
        start_time_ms=one.transaction_start_time_ms if one.transaction_start_time_ms >= 0 else None,
        partitions=frozenset(
            TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions
        ),
    )
