"""One partition's part of an answer, on its way to be handed out.

Pure. Records are decoded when they are taken, and not all at once. A deserializer that fails stops at its record: what
comes before it is handed out first, and whoever seeks behind it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final, cast

from tailrace.client.consumer_record import ConsumerRecord
from tailrace.client.errors import SerializationFailed
from tailrace.client.fetched_batches import AbortedRange, FetchedBatches, walk_batches
from tailrace.client.fetched_rows import Deserializer, Fields, Rows, decode_rows
from tailrace.client.subscription_state import PartitionState
from tailrace.protocol.messages.fetch import PartitionData

AnyRecord = ConsumerRecord[Any, Any]

_CHUNK_BYTES: Final = 1024 * 1024
"""So many bytes of batches are decoded at a time, and decompressed, which may make them many times as large."""

_make_record: Callable[[Iterable[object]], AnyRecord] = partial(cast("Any", tuple).__new__, ConsumerRecord)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a consumer reads what it fetched."""

    is_committed: bool = False
    check_crcs: bool = True
    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None


class CompletedFetch:
    """Records of a partition from `fetch_offset` on, or the error that came in place of them."""

    def __init__(self, state: PartitionState, data: PartitionData, decoding: Decoding, *, node_id: int = -1) -> None:
        self.state = state
        self.generation = state.generation
        self.fetch_offset: int = state.fetch_offset
        self.position: int = state.fetch_offset
        self.epoch: int = -1
        self.error_code = data.error_code
        self.node_id = node_id
        self._decoding = decoding
        self._aborted = data.aborted_transactions or []
        records = data.records
        self._records = b"" if records is None else records if isinstance(records, bytes) else bytes(records)
        self._walked: FetchedBatches | None = None
        self._chunks: list[FetchedBatches] = []
        self._rows: Rows | None = None
        self._row = 0

    @property
    def size_bytes(self) -> int:
        """How many bytes came."""
        return len(self._records)

    def walk(self) -> FetchedBatches:
        """Look at the batches once; ApiError where the first one is corrupt."""
        if self._walked is None:
            ranges = [AbortedRange(t.first_offset, t.producer_id) for t in self._aborted]
            is_committed, check_crcs = self._decoding.is_committed, self._decoding.check_crcs
            aborted = ranges if is_committed else None
            self._walked = walk_batches(self._records, self.fetch_offset, aborted=aborted, check_crcs=check_crcs)
            self._chunks = _chunks_of(self._walked)
        return self._walked

    @property
    def next_offset(self) -> int:
        """What is fetched after this: behind the last whole batch."""
        return max(self.fetch_offset, self.walk().next_offset)

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch that readers see; -1 where there is none."""
        batches = self.walk().batches
        return batches[-1][1].partition_leader_epoch if batches else -1

    @property
    def is_drained(self) -> bool:
        """Whether nothing is left to be handed out."""
        return self._walked is not None and not self._chunks and self._rows is None

    def take(self, count: int) -> list[AnyRecord]:
        """Give up to `count` records, and move `position` behind them."""
        self.walk()
        taken: list[AnyRecord] = []
        while len(taken) < count and (rows := self._next_rows()) is not None:
            last = min(rows.count, self._row + count - len(taken))
            records, error = self._make(rows.fields(self._row, last))
            self._row += len(records)
            taken += records
            if self._row >= rows.count:
                self._rows = None
            if error is not None:
                if not taken:
                    raise error
                break
        if taken:
            self.position, self.epoch = taken[-1].offset + 1, taken[-1].leader_epoch
        if self._rows is None and not self._chunks:
            self.position = max(self.position, self.next_offset)
        return taken

    def _next_rows(self) -> Rows | None:
        """Give the rows that are next, decoding the next batches where there are none."""
        while self._rows is None and self._chunks:
            rows = decode_rows(self._chunks.pop(0), self.position)
            if rows.count:
                self._rows, self._row = rows, 0
        return self._rows

    def _make(self, fields: Fields) -> tuple[list[AnyRecord], SerializationFailed | None]:
        """Make records; those before the first that cannot be deserialized, and the error."""
        topic, partition = self.state.topic_partition
        decoding = self._decoding
        count, error = len(fields.offsets), None
        keys: Iterable[Any] = fields.keys
        values: Iterable[Any] = fields.values
        if decoding.key_deserializer is not None:
            keys, error = self._deserialize(decoding.key_deserializer, "key", zip(fields.offsets, keys, strict=False))
            count = len(keys)
        if decoding.value_deserializer is not None:
            pairs = zip(fields.offsets[:count], values, strict=False)
            values, later = self._deserialize(decoding.value_deserializer, "value", pairs)
            error = later or error
            count = len(values)
        columns = (repeat(topic), repeat(partition), fields.offsets[:count], *fields[1:3], keys, values, *fields[5:])
        return list(map(_make_record, zip(*columns, strict=False))), error

    def _deserialize(
        self, deserializer: Deserializer, what: str, fields: Iterable[tuple[int, bytes | None]]
    ) -> tuple[list[Any], SerializationFailed | None]:
        """Make values of bytes, up to the first for which that fails."""
        made: list[Any] = []
        for offset, data in fields:
            try:
                made.append(None if data is None else deserializer(data))
            except Exception as error:  # noqa: BLE001 - a user's function may raise anything
                place = f"the {what} of the record at {self.state.topic_partition}, offset {offset}"
                failed = SerializationFailed(f"{place}, was not deserialized: {error}")
                failed.__cause__ = error
                return made, failed
        return made, None


def _chunks_of(walked: FetchedBatches) -> list[FetchedBatches]:
    """Divide what was fetched into parts that are decoded one after the other."""
    if len(walked.buffer) <= _CHUNK_BYTES or walked.legacy:
        return [walked]
    chunks: list[FetchedBatches] = []
    first = 0
    for position, header in walked.batches:
        if not chunks or position - first >= _CHUNK_BYTES:
            first = position
            chunks.append(FetchedBatches(walked.buffer, [], [], 0, -1, False, walked.check_crcs))
        chunks[-1].batches.append((position, header))
        chunks[-1].records_count += header.records_count
    return chunks
