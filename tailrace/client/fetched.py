"""What a fetch answers about one partition, as records.

Pure. A fetch gives whole batches: what lies before the offset that was asked for is left out here, and so are control
records and, for a reader of committed data, the records of transactions that were aborted. A batch that is cut off at
the end belongs to the next fetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.client.offsets import IsolationLevel
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.messages.fetch import AbortedTransaction, PartitionData
from tailrace.protocol.records.batch_header import (
    LENGTH_END,
    BatchHeader,
    TimestampType,
    check_crc,
    is_partial,
    magic_at,
    read_batch_header,
)
from tailrace.protocol.records.compression import DECOMPRESSED_BYTES_MAX
from tailrace.protocol.records.control import ControlType, read_control_batch
from tailrace.protocol.records.legacy import read_message
from tailrace.protocol.records.reader import read_batch
from tailrace.protocol.records.record import RecordHeader
from tailrace.protocol.topic_partition import TopicPartition


@dataclass(slots=True)
class ConsumedRecord:
    """A record with the place it was read from."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Sequence[RecordHeader]
    leader_epoch: int


def decode_fetched(
    key: TopicPartition, data: PartitionData, fetch_offset: int, *, isolation: IsolationLevel
) -> tuple[list[ConsumedRecord], int]:
    """Give the records from `fetch_offset` on, and the offset to fetch next; ApiError for a batch that is corrupt."""
    buffer = data.records
    if buffer is None:
        return [], fetch_offset
    is_committed = isolation is IsolationLevel.READ_COMMITTED
    aborted = _AbortedTransactions(data.aborted_transactions or []) if is_committed else None
    consumed: list[ConsumedRecord] = []
    next_offset = fetch_offset
    position, end = 0, len(buffer)
    while position < end and not is_partial(buffer, position):
        if magic_at(buffer, position) < 2:
            records = read_message(buffer, position, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
            position += LENGTH_END + int.from_bytes(buffer[position + 8 : position + 12], "big")
            epoch, timestamp_type, last_offset = -1, TimestampType.CREATE_TIME, records[-1].offset
        else:
            header = read_batch_header(buffer, position)
            check_crc(buffer, position, header)
            is_skipped = header.last_offset < fetch_offset or _is_hidden(buffer, position, header, aborted)
            records = [] if is_skipped else read_batch(buffer, position, header)
            position += header.size
            epoch, timestamp_type = header.partition_leader_epoch, header.timestamp_type
            last_offset = header.last_offset
        topic, partition = key
        consumed += [
            ConsumedRecord(topic, partition, r.offset, r.timestamp, timestamp_type, r.key, r.value, r.headers, epoch)
            for r in records
            if r.offset >= fetch_offset
        ]
        next_offset = max(next_offset, last_offset + 1)
    return consumed, next_offset


class _AbortedTransactions:
    """Which producers' records belong to an aborted transaction, as one walks over a fetch in the order of offsets."""

    def __init__(self, transactions: Sequence[AbortedTransaction]) -> None:
        self._upcoming = sorted(((t.first_offset, t.producer_id) for t in transactions), reverse=True)
        self._producers: set[int] = set()

    def contains(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        while self._upcoming and self._upcoming[-1][0] <= header.last_offset:
            self._producers.add(self._upcoming.pop()[1])
        return header.is_transactional and header.producer_id in self._producers

    def end(self, header: BatchHeader) -> None:
        """Take notice that a producer's aborted transaction ends here."""
        self._producers.discard(header.producer_id)


def _is_hidden(buffer: Buffer, position: int, header: BatchHeader, aborted: _AbortedTransactions | None) -> bool:
    """Whether readers must not see a batch: a marker, or what an aborted transaction wrote."""
    if not header.is_control:
        return aborted is not None and aborted.contains(header)
    if aborted is not None:
        marker = read_control_batch(buffer, position, header)
        if marker is not None and marker.control_type is ControlType.ABORT:
            aborted.end(header)
    return True
