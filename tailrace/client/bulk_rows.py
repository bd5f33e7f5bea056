"""Many records as Python sequences, for `send_batch`; what Arrow columns are for `send_arrow` (arrow_writer).

Both are `BulkRecords`: they know the most bytes that each record can take, divide themselves by partition and into
batches, and make a batch's builder. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tailrace.client.partitioner import KeyHashes
from tailrace.client.producer_batch import Builder
from tailrace.protocol.records.batch_header import HEADER_SIZE
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.record import RecordHeader
from tailrace.protocol.records.writer import BatchBuilder, record_size_bound

NO_PARTITION = -1
"""In place of a partition: the record goes wherever records without a key go."""

PartitionOf = Callable[[bytes | None, bytes | None], int]
"""Gives the partition for a key and a value."""

Split = tuple[int, int, int]
"""Where a batch begins and ends among the records, and the most bytes that it takes."""

Self = TypeVar("Self")


class BulkRecords(Protocol):
    """Records that are given all at once. `rows` are their places in what the caller gave."""

    @property
    def rows(self) -> Sequence[int]:
        """Where each record was in what the caller gave."""
        ...

    @property
    def has_keys(self) -> bool:
        """Whether they say where they go, by keys or by partitions."""
        ...

    def __len__(self) -> int: ...

    def largest(self) -> tuple[int, int]:
        """Give the place of the record that can take most bytes, and how many."""
        ...

    def slice(self: Self, start: int, end: int) -> Self:
        """Give the records from `start` up to `end`."""
        ...

    def split(self, bytes_max: int) -> Iterator[Split]:
        """Divide the records into batches of `bytes_max`, or of one record: start, end, and the most bytes of each."""
        ...

    def by_partition(
        self: Self, hashes: KeyHashes, partitions_count: int, partition_of: PartitionOf | None
    ) -> Iterator[tuple[int, Self]]:
        """Group the records by partition, in order: as `partition_of` says, else by key; NO_PARTITION without one."""
        ...

    def builders(self, splits: Sequence[Split], compression: Compression, level: int | None) -> Sequence[Builder]:
        """Give what makes the batches into which these records are divided."""
        ...


@dataclass(frozen=True, slots=True)
class RecordRows:
    """Records as sequences of one length; no keys or headers where nobody has any."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    headers: Sequence[Sequence[RecordHeader]] | None
    timestamps: Sequence[int]
    rows: Sequence[int]

    @property
    def has_keys(self) -> bool:
        """Whether they say where they go."""
        return self.keys is not None

    def __len__(self) -> int:
        return len(self.values)

    def sizes(self) -> list[int]:
        """Give the most bytes that each record can take."""
        if self.headers is not None:
            keys = self.keys or [None] * len(self)
            return [record_size_bound(*record) for record in zip(keys, self.values, self.headers, strict=True)]
        least = record_size_bound(None, None)
        if self.keys is None:
            return [least + len(value or b"") for value in self.values]
        return [least + len(k or b"") + len(v or b"") for k, v in zip(self.keys, self.values, strict=True)]

    def largest(self) -> tuple[int, int]:
        """Give the place of the record that can take most bytes, and how many."""
        sizes = self.sizes()
        size = max(sizes)
        return sizes.index(size), size

    def slice(self, start: int, end: int) -> RecordRows:
        """Give the records from `start` up to `end`."""
        if start == 0 and end == len(self):
            return self
        return RecordRows(
            self.values[start:end],
            None if self.keys is None else self.keys[start:end],
            None if self.headers is None else self.headers[start:end],
            self.timestamps[start:end],
            self.rows[start:end],
        )

    def take(self, places: Sequence[int]) -> RecordRows:
        """Give some of the records, in the order of `places`."""
        if len(places) == len(self):
            return self
        return RecordRows(
            [self.values[place] for place in places],
            None if self.keys is None else [self.keys[place] for place in places],
            None if self.headers is None else [self.headers[place] for place in places],
            [self.timestamps[place] for place in places],
            [self.rows[place] for place in places],
        )

    def split(self, bytes_max: int) -> Iterator[Split]:
        """Divide the records into batches of `bytes_max`, or of one record: start, end, and the most bytes of each."""
        start, size = 0, HEADER_SIZE
        for place, record_size in enumerate(self.sizes()):
            if place > start and size + record_size > bytes_max:
                yield start, place, size
                start, size = place, HEADER_SIZE
            size += record_size
        if len(self):
            yield start, len(self), size

    def by_partition(
        self, hashes: KeyHashes, partitions_count: int, partition_of: PartitionOf | None
    ) -> Iterator[tuple[int, RecordRows]]:
        """Group the records by partition, in order: as `partition_of` says, else by key; NO_PARTITION without one."""
        keys = self.keys
        if partition_of is not None:
            chosen = [partition_of(keys[place] if keys else None, value) for place, value in enumerate(self.values)]
        elif keys is None:
            chosen = [NO_PARTITION] * len(self)
        else:
            find = hashes.partition_of
            chosen = [NO_PARTITION if key is None else find(key, partitions_count) for key in keys]
        places: dict[int, list[int]] = {}
        for place, number in enumerate(chosen):
            places.setdefault(number, []).append(place)
        for number, mine in places.items():
            yield number, self.take(mine)

    def builders(self, splits: Sequence[Split], compression: Compression, level: int | None) -> Sequence[Builder]:
        """Give what makes the batches into which these records are divided."""
        return [self._builder(start, end, size, compression, level) for start, end, size in splits]

    def _builder(self, start: int, end: int, size_max: int, compression: Compression, level: int | None) -> Builder:
        builder = BatchBuilder(compression=compression, level=level, bytes_max=size_max)
        append = builder.try_append
        keys, headers, timestamps, values = self.keys, self.headers, self.timestamps, self.values
        for place in range(start, end):
            key, own = keys[place] if keys else None, headers[place] if headers else ()
            added = append(timestamps[place], key, values[place], own)
            assert added == place - start, "a batch was made for more bytes than its records were said to take"
        return builder
