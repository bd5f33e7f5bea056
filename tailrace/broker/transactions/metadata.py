"""What is known of a transactional id, as it is written to `__transaction_state`.

Nobody changes a `TransactionMetadata`: a step of the state machine makes the next one, which holds when it is written.
`record_of` and `metadata_of` are the way to the log and back. One field does not go there, as in Kafka: the epoch
before the last bump, by which a repeated InitProducerId is recognised; who restarts forgets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.coordinator.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from tailrace.protocol.topic_partition import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIME = -1
EPOCH_LAST = 2**15 - 1
EPOCH_EXHAUSTED = EPOCH_LAST - 1
"""From here on a producer gets another id: the last epoch is left for the markers of its last transaction."""
EPOCH_BUMP_VERSION = 2
"""The level of `transaction.version` from which each transaction ends with a new epoch (KIP-890)."""


class TransactionStatus(IntEnum):
    """The states of a transaction, as numbered in the log.

    The last two are never logged: DEAD is a tombstone, and PREPARE_EPOCH_FENCE a step within Kafka's own coordinator.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that clients see and filter by, `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


PREPARED = frozenset((TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT))
"""Decided, and not yet told to every partition."""
FINISHED = frozenset((TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT))
"""No transaction is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """The present state of a transactional id. Times are milliseconds since the epoch, -1 for none."""

    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The id that the producer gets when this transaction is complete, because its epochs are used up."""
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    status: TransactionStatus = TransactionStatus.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIME
    last_update_ms: int = NO_TIME
    client_version: int = 0
    """The level of `transaction.version` that the client's last request spoke."""

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the producer needs another id before its epoch can be raised."""
        return self.producer_epoch >= EPOCH_EXHAUSTED

    @property
    def bumps_epoch(self) -> bool:
        """Whether this transaction ends with a new epoch."""
        return self.client_version >= EPOCH_BUMP_VERSION


def record_of(transactional_id: str, metadata: TransactionMetadata | None) -> CoordinatorRecord:
    """Give the record that writes a transactional id down; a tombstone for None."""
    key = TransactionLogKey(transactional_id=transactional_id)
    if metadata is None:
        return CoordinatorRecord(key, None)
    is_empty = metadata.status is TransactionStatus.EMPTY
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.status,
        transaction_partitions=None if is_empty else _grouped(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return CoordinatorRecord(key, value)


def metadata_of(value: TransactionLogValue) -> TransactionMetadata:
    """Read what `record_of` wrote, or Apache Kafka; ValueError for a state that there is not."""
    return TransactionMetadata(
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        status=TransactionStatus(value.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, number)
            for topic in value.transaction_partitions or ()
            for number in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def partitions_by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    """Give the numbers of each topic's partitions, all in order."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics


def _grouped(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    topics = partitions_by_topic(partitions)
    return [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in topics.items()]
