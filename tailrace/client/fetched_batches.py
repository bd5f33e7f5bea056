"""The batches of one partition's answer that a reader may see.

Pure. A fetch gives whole batches: those before the offset that was asked for are left out here, and so are control
batches and, for a reader of committed data, what transactions wrote that were aborted. A batch that is cut off at the
end belongs to the next fetch. Records are not read here but by `FetchedBatches.read`, or from `batches` at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.protocol.records.batch_header import (
    LENGTH_END,
    LOG_APPEND_TIME_FLAG,
    MAGIC_OFFSET,
    BatchHeader,
    TimestampType,
    check_crc,
    crc_matches,
    is_partial,
    magic_at,
    read_batch_header,
)
from tailrace.protocol.records.compression import DECOMPRESSED_BYTES_MAX
from tailrace.protocol.records.control import ControlType, read_control_batch
from tailrace.protocol.records.legacy import read_message
from tailrace.protocol.records.reader import read_batch
from tailrace.protocol.records.record import Record


class AbortedRange(NamedTuple):
    """A transaction that was aborted: its producer, and where its records begin in this partition."""

    first_offset: int
    producer_id: int


@dataclass(slots=True)
class FetchedBatches:
    """What there is to read: batches by position with their headers, messages of old formats by position alone."""

    buffer: bytes
    batches: list[tuple[int, BatchHeader]]
    legacy: list[int]
    records_count: int
    next_offset: int
    """Behind the last batch, whether it is seen or not; -1 where there is none."""
    is_cut_off: bool
    check_crcs: bool

    def read(self) -> Iterator[tuple[list[Record], TimestampType, int]]:
        """Give the records of batch after batch, each with who set their timestamps, and the leader epoch."""
        headers = dict(self.batches)
        for position in sorted([*self.legacy, *headers]) if self.legacy else headers:
            header = headers.get(position)
            if header is not None:
                yield read_batch(self.buffer, position, header), header.timestamp_type, header.partition_leader_epoch
            else:
                yield _read_message(self.buffer, position, self.check_crcs), _type_of_message(self.buffer, position), -1


def walk_batches(
    buffer: bytes, fetch_offset: int, *, aborted: Sequence[AbortedRange] | None, check_crcs: bool = True
) -> FetchedBatches:
    """Look at every batch's header; ApiError(CORRUPT_MESSAGE) where a CRC does not match.

    `aborted` is None for who reads uncommitted. A corrupt batch behind others ends the walk before it, so that what is
    good is read first; the next fetch begins with it, and raises.
    """
    transactions = None if aborted is None else _AbortedTransactions(aborted)
    walked = FetchedBatches(buffer, [], [], 0, -1, False, check_crcs)
    position, end = 0, len(buffer)
    while position < end:
        if is_partial(buffer, position):
            walked.is_cut_off = True
            break
        if magic_at(buffer, position) < 2:
            position = _add_message(walked, position)
            continue
        header = read_batch_header(buffer, position)
        if check_crcs and not crc_matches(buffer, position, header):
            if walked.next_offset > fetch_offset:
                break
            check_crc(buffer, position, header)
        is_hidden = _is_hidden(buffer, position, header, transactions)
        if not is_hidden and header.base_offset + header.last_offset_delta >= fetch_offset:
            walked.batches.append((position, header))
            walked.records_count += header.records_count
        walked.next_offset = max(walked.next_offset, header.next_offset)
        position += header.batch_length + LENGTH_END
    return walked


def _add_message(walked: FetchedBatches, position: int) -> int:
    """Take notice of a message of an old format, and give the position behind it."""
    records = _read_message(walked.buffer, position, walked.check_crcs)
    walked.legacy.append(position)
    walked.records_count += len(records)
    walked.next_offset = max(walked.next_offset, records[-1].offset + 1 if records else -1)
    return position + LENGTH_END + int.from_bytes(walked.buffer[position + 8 : position + 12], "big")


def _read_message(buffer: bytes, position: int, check_crcs: bool) -> list[Record]:
    return read_message(buffer, position, check_crcs=check_crcs, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)


def _type_of_message(buffer: bytes, position: int) -> TimestampType:
    is_append_time = magic_at(buffer, position) == 1 and buffer[position + MAGIC_OFFSET + 1] & LOG_APPEND_TIME_FLAG
    return TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME


class _AbortedTransactions:
    """Which producers' records belong to an aborted transaction, as one walks over a fetch in the order of offsets."""

    def __init__(self, transactions: Sequence[AbortedRange]) -> None:
        self._upcoming = sorted(transactions, reverse=True)
        self._producers: set[int] = set()

    def contains(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        self._go_to(header)
        return header.is_transactional and header.producer_id in self._producers

    def end(self, header: BatchHeader) -> None:
        """Take notice that a producer's aborted transaction ends here, also one of which nothing else was fetched."""
        self._go_to(header)
        self._producers.discard(header.producer_id)

    def _go_to(self, header: BatchHeader) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= header.last_offset:
            self._producers.add(self._upcoming.pop().producer_id)


def _is_hidden(buffer: bytes, position: int, header: BatchHeader, aborted: _AbortedTransactions | None) -> bool:
    """Whether readers must not see a batch: a marker, or what an aborted transaction wrote."""
    if not header.is_control:
        return aborted is not None and aborted.contains(header)
    if aborted is not None:
        marker = read_control_batch(buffer, position, header)
        if marker is not None and marker.control_type is ControlType.ABORT:
            aborted.end(header)
    return True
