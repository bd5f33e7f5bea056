"""What one partition answers to a fetch: records up to the reader's bound, or why there are none.

A consumer reads to the high watermark, or to the last stable offset where it asks for committed records only; a
follower reads to the log's end, and its fetch tells how far it has come. Records are a view of the mapped segment and
are never copied. Which partitions are read, in which order and with how many bytes, `ReplicaManager` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from tailrace.broker.fetch_session import SessionPartition
from tailrace.broker.follower_replica import FollowerReplica
from tailrace.broker.partition import Partition
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    PartitionData,
)

CONSUMER_REPLICA_ID = -1
UNKNOWN_EPOCH = -1
NO_RECORDS = b""
_BATCH_PREFIX = Struct(">qi11xi")
"""A batch's base offset, its length and, behind epoch, magic, checksum and attributes, its last offset delta."""

NO_DIVERGING_EPOCH = PartitionData().diverging_epoch
"""The one that every answer shares: told from a diverging epoch by identity."""


class FetchIsolation(IntEnum):
    """How far a fetch may read."""

    LOG_END = 0
    HIGH_WATERMARK = 1
    TXN_COMMITTED = 2


LOG_END = FetchIsolation.LOG_END
HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
TXN_COMMITTED = FetchIsolation.TXN_COMMITTED
"""Each by a name of its own: finding a member in its Enum takes 50 ns, and every fetch asks."""


@dataclass(slots=True)
class FetchParams:
    """What a fetch request asks of all its partitions together."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: FetchIsolation
    leader_only: bool

    @property
    def is_from_follower(self) -> bool:
        """Whether another broker asks, to replicate."""
        return self.replica_id >= 0


def read_partition(
    partition: Partition,
    asked: SessionPartition,
    params: FetchParams,
    *,
    bytes_max: int,
    min_one_message: bool,
    update_follower: bool,
) -> PartitionData:
    """Read for one fetch; raises ApiError where the partition can't be read as asked."""
    partition.check_leader_epoch(asked.current_leader_epoch, leader_only=params.leader_only)
    follower = _follower(partition, asked, params) if params.replica_id >= 0 else None
    log, isolation = partition.log, params.isolation
    # As they were before the read: what is appended meanwhile must not keep a follower from counting as caught up.
    high_watermark = log.high_watermark
    log_start_offset = log.log_start_offset
    last_stable_offset = log.last_stable_offset
    log_end_offset = log.log_end_offset
    diverging: EpochEndOffset = NO_DIVERGING_EPOCH
    if asked.last_fetched_epoch >= 0:
        diverging = diverging_epoch(partition, asked)
    aborted: list[AbortedTransaction] | None = None
    if diverging is not NO_DIVERGING_EPOCH:
        records: Buffer = NO_RECORDS
    else:
        if isolation is HIGH_WATERMARK:
            upper_offset = high_watermark
        elif isolation is LOG_END:
            upper_offset = log_end_offset
        else:
            upper_offset = last_stable_offset
        read = log.read(
            asked.fetch_offset, max_bytes=bytes_max, upper_offset=upper_offset, min_one_message=min_one_message
        )
        # A batch larger than the limit is not given in part: the client could do nothing with it (KIP-74).
        records = NO_RECORDS if read.first_entry_is_incomplete else read.records
        if isolation is TXN_COMMITTED:
            aborted = _aborted_transactions(partition, asked.fetch_offset, records, last_stable_offset)
        if follower is not None and update_follower:
            partition.follower_fetched(
                follower,
                fetch_offset=asked.fetch_offset,
                log_start_offset=asked.log_start_offset,
                broker_epoch=params.replica_epoch,
                leader_end=log_end_offset,
            )
    return PartitionData(
        partition_index=asked.partition,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=aborted,
        records=records,
    )


def failed_partition(partition_index: int, code: ErrorCode) -> PartitionData:
    """Make the answer for a partition that could not be read."""
    return PartitionData(
        partition_index=partition_index,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=None,
        records=NO_RECORDS,
    )


def upper_offset(partition: Partition, isolation: FetchIsolation) -> int:
    """Give the first offset that a reader of this kind may not see."""
    if isolation is HIGH_WATERMARK:
        return partition.log.high_watermark
    return partition.log.log_end_offset if isolation is LOG_END else partition.log.last_stable_offset


def diverging_epoch(partition: Partition, asked: SessionPartition) -> EpochEndOffset:
    """Compare the reader's last fetched epoch with ours (KIP-595): where they part, say so; else NO_DIVERGING_EPOCH.

    Raises OFFSET_OUT_OF_RANGE where we know nothing of that epoch, or the fetch offset lies before the log.
    """
    epoch, end_offset = partition.end_offset_for_epoch(asked.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the end of epoch {asked.last_fetched_epoch} of {partition.topic_partition} is not known",
        )
    if asked.fetch_offset < partition.log.log_start_offset:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {asked.fetch_offset} of {partition.topic_partition} is before {partition.log.log_start_offset}",
        )
    if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return NO_DIVERGING_EPOCH


def _follower(partition: Partition, asked: SessionPartition, params: FetchParams) -> FollowerReplica:
    follower = partition.followers.get(params.replica_id)
    if follower is None:
        # With an epoch in the request the assignment is what has not arrived here yet, and the follower tries again.
        knows_epoch = asked.current_leader_epoch >= 0
        code = ErrorCode.UNKNOWN_LEADER_EPOCH if knows_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
        raise ApiError(code, f"{params.replica_id} is no replica of {partition.topic_partition}: {partition.replicas}")
    return follower


def _aborted_transactions(
    partition: Partition, first_offset: int, records: Buffer, last_stable_offset: int
) -> list[AbortedTransaction]:
    """Give the aborted transactions that overlap the records of the answer, not all of them to the log's end."""
    if not records:
        return []
    aborted = partition.log.collect_aborted_transactions(first_offset, last_stable_offset)
    if not aborted:
        return []
    end_offset = _end_offset(records, last_stable_offset)
    return [
        AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in aborted
        if entry.first_offset < end_offset
    ]


def _end_offset(records: Buffer, upper_offset: int) -> int:
    """Give the offset behind the last batch, whole or in part; `upper_offset` where that is unknown."""
    position = 0
    end_offset = upper_offset
    while position + _BATCH_PREFIX.size <= len(records):
        base_offset, length, last_offset_delta = _BATCH_PREFIX.unpack_from(records, position)
        end_offset = base_offset + last_offset_delta + 1
        position += 12 + length
    return end_offset if position >= len(records) else upper_offset
