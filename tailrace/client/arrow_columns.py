"""Records as Arrow columns: read from a table, sliced, grouped by partition. `arrow_writer` makes batches of them.

columns   value    binary or string, large or not; null is Kafka's null
          key      the same; optional
          headers  map<string, binary> or list<struct<key, value>>; optional
          timestamp   a timestamp, or int64 milliseconds; null or no column: now
          partition   an integer; optional
others are not looked at, so that what `poll_arrow` gives can be sent on
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tailrace.client.bulk_rows import NO_PARTITION, PartitionOf, Split
from tailrace.client.murmur2_columns import hash_keys
from tailrace.client.partitioner import KeyHashes
from tailrace.client.producer_batch import Builder
from tailrace.client.varint_columns import Integers, binary_column, lay_out, varint_field
from tailrace.protocol.records.batch_header import HEADER_SIZE
from tailrace.protocol.records.compression import Compression

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")

RECORD_OVERHEAD_BYTES: Final = 31
"""What a record without headers takes beside key and value, at most: attributes and six varints."""
_ROWS_FEW: Final = 5_000
_MILLISECONDS: Final = "ms"
_CHUNK_BYTES_MAX: Final = 1 << 30
_COLUMNS: Final = ("value", "key", "headers", "timestamp", "partition")


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """An Arrow array of bytes with 32-bit offsets, and the lengths of its values, -1 for null.

    The lengths are asked for so often that they are found once and then sliced with the array.
    """

    array: Any
    lengths: Integers

    @classmethod
    def of(cls, array: Any) -> BytesColumn:
        """Find the lengths of an array's values."""
        count = len(array)
        ends = array.buffers()[1]
        if ends is None or not count:
            return cls(array, np.full(count, -1 if array.null_count else 0, dtype=np.int64))
        places = np.frombuffer(ends, dtype=np.int32)[array.offset : array.offset + count + 1]
        lengths = np.diff(places).astype(np.int64)
        if array.null_count:
            lengths[np.asarray(array.is_null())] = -1
        return cls(array, lengths)

    def slice(self, start: int, end: int) -> BytesColumn:
        """Give the values from `start` up to `end`."""
        return BytesColumn(self.array.slice(start, end - start), self.lengths[start:end])

    def take(self, rows: NDArray[np.intp]) -> BytesColumn:
        """Give some of the values, in the order of `rows`."""
        return BytesColumn(self.array.take(pa.array(rows)), self.lengths[rows])


@dataclass(slots=True)
class RecordColumns:
    """Records as columns, all of one length. `headers` are encoded, `header_counts` say how many a record has."""

    value: BytesColumn
    key: BytesColumn | None
    headers: BytesColumn | None
    header_counts: Integers | None
    timestamps: Integers
    partitions: Integers | None
    places: Integers

    @property
    def rows(self) -> list[int]:
        """Where each record was in what the caller gave."""
        return [int(place) for place in self.places]

    @property
    def has_keys(self) -> bool:
        """Whether they say where they go, by keys or by partitions."""
        return self.key is not None or self.partitions is not None

    def __len__(self) -> int:
        return len(self.timestamps)

    def take(self, rows: NDArray[np.intp]) -> RecordColumns:
        """Give some of the records, in the order of `rows`."""
        return RecordColumns(
            self.value.take(rows),
            None if self.key is None else self.key.take(rows),
            None if self.headers is None else self.headers.take(rows),
            None if self.header_counts is None else self.header_counts[rows],
            self.timestamps[rows],
            None if self.partitions is None else self.partitions[rows],
            self.places[rows],
        )

    def slice(self, start: int, end: int) -> RecordColumns:
        """Give the records from `start` up to `end`."""
        if start == 0 and end == len(self):
            return self
        return RecordColumns(
            self.value.slice(start, end),
            None if self.key is None else self.key.slice(start, end),
            None if self.headers is None else self.headers.slice(start, end),
            None if self.header_counts is None else self.header_counts[start:end],
            self.timestamps[start:end],
            None if self.partitions is None else self.partitions[start:end],
            self.places[start:end],
        )

    def size_bounds(self) -> Integers:
        """Give the most bytes that each record can take."""
        sizes = self.value.lengths + RECORD_OVERHEAD_BYTES
        for column in (self.key, self.headers):
            if column is not None:
                sizes += column.lengths
        return sizes

    def split(self, bytes_max: int) -> Iterator[Split]:
        """Divide the records into batches of `bytes_max`, or of one record: start, end, and the most bytes of each."""
        ends = np.cumsum(self.size_bounds())
        room = bytes_max - HEADER_SIZE
        start = 0
        while start < len(self):
            before = int(ends[start - 1]) if start else 0
            end = max(int(np.searchsorted(ends, before + room, side="right")), start + 1)
            yield start, end, int(ends[end - 1]) - before + HEADER_SIZE
            start = end

    def largest(self) -> tuple[int, int]:
        """Give the place of the record that can take most bytes, and how many."""
        sizes = self.size_bounds()
        place = int(sizes.argmax())
        return place, int(sizes[place])

    def by_partition(
        self, hashes: KeyHashes, partitions_count: int, partition_of: PartitionOf | None
    ) -> Iterator[tuple[int, RecordColumns]]:
        """Group the records by partition, in order: as the column or `partition_of` says, else by key.

        NO_PARTITION has those without any; `hashes` are not needed here.
        """
        chosen = self._partitions(partitions_count, partition_of)
        if chosen is None:
            yield NO_PARTITION, self
            return
        order = np.argsort(chosen, kind="stable")
        numbers, firsts = np.unique(chosen[order], return_index=True)
        if len(numbers) == 1:
            yield int(numbers[0]), self
            return
        for number, rows in zip(numbers, np.split(order, firsts[1:]), strict=True):
            yield int(number), self.take(rows)

    def builders(self, splits: Sequence[Split], compression: Compression, level: int | None) -> Sequence[Builder]:
        """Give what makes the batches into which these records are divided."""
        from tailrace.client.arrow_writer import make_builders

        return make_builders(self, splits, compression, level)

    def _partitions(self, partitions_count: int, partition_of: PartitionOf | None) -> Integers | None:
        if self.partitions is not None:
            return self.partitions
        if partition_of is not None:
            keys = [None] * len(self) if self.key is None else self.key.array.to_pylist()
            pairs = zip(keys, self.value.array.to_pylist(), strict=True)
            return np.array([partition_of(key, value) for key, value in pairs], dtype=np.int64)
        if self.key is None:
            return None
        hashed = hash_keys(self.key.array) % partitions_count
        return np.where(self.key.lengths < 0, NO_PARTITION, hashed)


def read_columns(data: Any, now_ms: int) -> list[RecordColumns]:
    """Find the columns of a RecordBatch, or of each chunk of a Table; TypeError or ValueError for what is no record."""
    if not isinstance(data, pa.RecordBatch | pa.Table):
        raise TypeError(f"a pyarrow RecordBatch or Table is expected, not {type(data).__name__}")
    if "value" not in data.schema.names:
        raise ValueError(f"records have a column `value`; here are {', '.join(data.schema.names) or 'no columns'}")
    data = data.select([name for name in _COLUMNS if name in data.schema.names])
    if isinstance(data, pa.Table):
        chunks = data.to_batches()
        if len(chunks) > 1 and data.num_rows < len(chunks) * _ROWS_FEW:
            chunks = data.combine_chunks().to_batches()
    else:
        chunks = [data]
    found: list[RecordColumns] = []
    first = 0
    for chunk in chain.from_iterable(_of_moderate_size(chunk) for chunk in chunks):
        found.append(_read_chunk(chunk, now_ms, first))
        first += chunk.num_rows
    return found


def _of_moderate_size(chunk: Any) -> Iterator[Any]:
    """Divide what is too large for columns with 32-bit offsets, once it is laid out as records."""
    if chunk.num_rows > 1 and chunk.nbytes > _CHUNK_BYTES_MAX:
        middle = chunk.num_rows // 2
        yield from _of_moderate_size(chunk.slice(0, middle))
        yield from _of_moderate_size(chunk.slice(middle))
    elif chunk.num_rows:
        yield chunk


def _read_chunk(chunk: Any, now_ms: int, first: int) -> RecordColumns:
    column = dict(zip(chunk.schema.names, chunk.columns, strict=True))
    headers, header_counts = _read_headers(column["headers"]) if "headers" in column else (None, None)
    partitions = None
    if "partition" in column:
        if column["partition"].null_count:
            raise ValueError("the column `partition` has nulls")
        if not pa.types.is_integer(column["partition"].type):
            raise TypeError(f"the column `partition` is {column['partition'].type}; an integer is expected")
        partitions = column["partition"].cast(pa.int64()).to_numpy(zero_copy_only=False)
        if len(partitions) and partitions.min() < 0:
            raise ValueError(f"the column `partition` has {partitions.min()}; partitions begin with 0")
    timestamps = np.full(chunk.num_rows, now_ms, dtype=np.int64)
    if "timestamp" in column:
        timestamps = _read_timestamps(column["timestamp"], now_ms)
    return RecordColumns(
        value=BytesColumn.of(_as_binary(column["value"], "value")),
        key=BytesColumn.of(_as_binary(column["key"], "key")) if "key" in column else None,
        headers=headers,
        header_counts=header_counts,
        timestamps=timestamps,
        partitions=partitions,
        places=np.arange(first, first + chunk.num_rows, dtype=np.int64),
    )


def _as_binary(column: Any, name: str) -> Any:
    """Give a column of bytes with 32-bit offsets."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(is_kind(kind) for is_kind in _KINDS_OF_BYTES):
        raise TypeError(f"the column `{name}` is {kind}; binary or string is expected")
    return column.cast(pa.binary())


_KINDS_OF_BYTES: Final = (
    pa.types.is_null,
    pa.types.is_binary,
    pa.types.is_string,
    pa.types.is_large_binary,
    pa.types.is_large_string,
    pa.types.is_binary_view,
    pa.types.is_string_view,
    pa.types.is_fixed_size_binary,
)


def _read_timestamps(column: Any, now_ms: int) -> Integers:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp(_MILLISECONDS, column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type):
        raise TypeError(f"the column `timestamp` is {column.type}; a timestamp or milliseconds are expected")
    milliseconds: Integers = column.cast(pa.int64()).fill_null(now_ms).to_numpy(zero_copy_only=False)
    return milliseconds


def _read_headers(column: Any) -> tuple[BytesColumn, Integers]:
    """Encode all headers, and give those of each record as one value, with how many they are."""
    kind = column.type
    if column.null_count:
        column = column.take(pa.array(np.arange(len(column))))  # nulls may hide entries; taken anew they have none
    if pa.types.is_map(kind):
        keys, items = column.keys, column.items
    elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2:
        keys, items = column.values.flatten()
    else:
        raise TypeError(f"the column `headers` is {kind}; map<string, binary> or list<struct<key, value>> is expected")
    names, values = BytesColumn.of(_as_binary(keys, "headers")), BytesColumn.of(_as_binary(items, "headers"))
    if names.array.null_count:
        raise ValueError("the column `headers` has a header without a key")
    rows = column.offsets.to_numpy()
    counts: Integers = np.diff(rows).astype(np.int64)
    encoded = join([_lengths_column(names), names.array, _lengths_column(values), values.array])
    _, ends, data = encoded.buffers()
    places = np.frombuffer(ends, dtype=np.int32)[: len(encoded) + 1] if len(encoded) else np.zeros(1, dtype=np.int32)
    starts = np.ascontiguousarray(places[rows])
    array = pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(starts), data])
    return BytesColumn.of(array), counts


def _lengths_column(column: BytesColumn) -> Any:
    count = len(column.lengths)
    return binary_column(lay_out([varint_field(column.lengths)] if count else [], count))


def join(pieces: list[Any]) -> Any:
    """Put what several columns have in a row behind each other; a null is nothing."""
    return pc.binary_join_element_wise(*pieces, _EMPTY, null_handling="replace", null_replacement="")


_EMPTY: Final = pa.scalar(b"", pa.binary())
