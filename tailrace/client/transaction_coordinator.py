"""What a transactional producer asks its coordinators: for an id, to add to the transaction, to commit offsets, to end.

Each question is asked until it is answered for good: coordinators move and load, connections break, and a transaction
that ended a moment ago may still be settled (CONCURRENT_TRANSACTIONS). How long to wait is the caller's to say. What
does not pass is raised as BrokerError; what it means is `transaction_state`'s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from tailrace.client.cluster import Cluster
from tailrace.client.connection import Connection
from tailrace.client.coordinators import CoordinatorType, find_coordinator
from tailrace.client.deadline import Backoff
from tailrace.client.errors import BrokerError, ClientError, broker_error, is_retriable, known_code
from tailrace.client.group_metadata import ConsumerGroupMetadata, OffsetToCommit
from tailrace.client.metadata import Node
from tailrace.client.producer_batch import ProducerId
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tailrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tailrace.protocol.schema import Message
from tailrace.protocol.topic_partition import TopicPartition

R = TypeVar("R", bound=Message)

Refused = tuple[int, str]
"""An error code and what it is about."""

_CLIENTS_ADD_PARTITIONS_VERSION_MAX: Final = 3
_V1_END_VERSION_MAX: Final = 4
_V1_OFFSETS_VERSION_MAX: Final = 4
_V2_LEVEL: Final = 2
_SETTLING_PAUSE_MS: Final = 20.0
"""How long to wait for the transaction before to be settled: that takes a few milliseconds, not a retry.backoff.ms."""
_FOREVER_MS: Final = 2**31 - 1


class TransactionCoordinator:
    """The coordinator of one transactional id, and those of the groups whose offsets it commits."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.serves_v2 = False
        """Whether the cluster had agreed on transactions of version 2 (KIP-890) when it was last asked."""
        self._cluster = cluster
        self._nodes: dict[tuple[CoordinatorType, str], Node] = {}

    async def init(self, timeout_ms: int, producer: ProducerId | None = None) -> ProducerId:
        """Get an id, having whoever had the transactional id fenced; with `producer`, have that one's epoch raised."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)
        if producer is not None:
            request.producer_id, request.producer_epoch = producer
        answer = await self._ask(request, InitProducerIdResponse, lambda answer: [(answer.error_code, "")])
        return ProducerId(answer.producer_id, answer.producer_epoch)

    async def add_partitions(self, producer: ProducerId, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the transaction, before anything is written to them (not needed in version 2)."""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            by_topic[topic].append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in by_topic.items()
            ],
        )

        def refused(answer: AddPartitionsToTxnResponse) -> list[Refused]:
            return [
                (partition.partition_error_code, f"partition {topic.name}-{partition.partition_index}")
                for topic in answer.results_by_topic_v3_and_below
                for partition in topic.results_by_partition
            ]

        version_max = _CLIENTS_ADD_PARTITIONS_VERSION_MAX
        await self._ask(request, AddPartitionsToTxnResponse, refused, version_max=version_max)

    async def add_offsets(self, producer: ProducerId, group_id: str) -> None:
        """Add a group's offsets to the transaction (not needed in version 2)."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )
        await self._ask(request, AddOffsetsToTxnResponse, lambda answer: [(answer.error_code, f"group {group_id}")])

    async def commit_offsets(
        self,
        producer: ProducerId,
        offsets: Mapping[TopicPartition, OffsetToCommit],
        group: ConsumerGroupMetadata,
        *,
        is_v2: bool,
    ) -> None:
        """Have the group's coordinator keep offsets, to count when the transaction is committed."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=_by_topic(offsets),
        )

        def refused(answer: TxnOffsetCommitResponse) -> list[Refused]:
            return [
                (partition.error_code, f"the offset of {topic.name}-{partition.partition_index}")
                for topic in answer.topics
                for partition in topic.partitions
            ]

        await self._ask(
            request,
            TxnOffsetCommitResponse,
            refused,
            kind=CoordinatorType.GROUP,
            key=group.group_id,
            version_max=None if is_v2 else _V1_OFFSETS_VERSION_MAX,
        )

    async def end(self, producer: ProducerId, *, is_commit: bool, is_v2: bool) -> ProducerId | None:
        """End the transaction; give the id and epoch of the next one, where the version has that."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=is_commit,
        )
        version_max = None if is_v2 else _V1_END_VERSION_MAX
        answer = await self._ask(
            request, EndTxnResponse, lambda answer: [(answer.error_code, "")], version_max=version_max
        )
        return ProducerId(answer.producer_id, answer.producer_epoch) if is_v2 and answer.producer_id >= 0 else None

    async def _ask(
        self,
        request: Message,
        response_class: type[R],
        refused: Callable[[R], list[Refused]],
        *,
        kind: CoordinatorType = CoordinatorType.TRANSACTION,
        key: str | None = None,
        version_max: int | None = None,
    ) -> R:
        """Ask until the answer is good, or an error that does not pass."""
        cluster, key = self._cluster, self.transactional_id if key is None else key
        backoff = Backoff(cluster.clock, cluster.config, cluster.random, timeout_ms=_FOREVER_MS, what="")
        while True:
            try:
                connection = await self._connection(kind, key)
                answer = await connection.request(request, response_class, version_max=version_max)
                if (refusal := _worst(refused(answer))) is None:
                    return answer
                error: ClientError = refusal
            except ClientError as failure:
                error = failure
            code = error.code if isinstance(error, BrokerError) else None
            if not is_retriable(error):
                raise error
            if code is None or code in _MOVED:
                self._nodes.pop((kind, key), None)
            if code is ErrorCode.CONCURRENT_TRANSACTIONS:
                await cluster.clock.sleep(_SETTLING_PAUSE_MS)
            else:
                await backoff.pause(error)

    async def _connection(self, kind: CoordinatorType, key: str) -> Connection:
        node = self._nodes.get((kind, key))
        if node is None:
            node = self._nodes[kind, key] = await find_coordinator(self._cluster, kind, key)
        self._cluster.learn_node(node)  # metadata that came meanwhile may have named it otherwise
        connection = await self._cluster.connection_to(node.node_id)
        if kind is CoordinatorType.TRANSACTION:
            self.serves_v2 = connection.finalized_features.get("transaction.version", 0) >= _V2_LEVEL
        return connection


def _worst(refused: list[Refused]) -> BrokerError | None:
    """Make the error of an answer: of what is refused for good, before what may pass."""
    errors = [
        broker_error(known_code(code), about)
        for code, about in refused
        if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED
    ]
    return min(errors, key=is_retriable, default=None)


def _by_topic(offsets: Mapping[TopicPartition, OffsetToCommit]) -> list[TxnOffsetCommitRequestTopic]:
    by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        by_topic[topic].append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return [TxnOffsetCommitRequestTopic(name=name, partitions=found) for name, found in by_topic.items()]


_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
