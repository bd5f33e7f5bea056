"""Record batches made of Arrow columns, without a Python object a record.

A record is its lengths and numbers (varints), the key, the value and the headers. The varints of all records are
computed and laid out with numpy as a column of bytes, and Arrow's own kernel joins that column with the others, which
gives the records of a batch one behind the other: a tenth of a microsecond a record of 100 bytes.

    columns   value    binary or string, large or not; null is Kafka's null
              key      the same; optional
              headers  map<string, binary> or list<struct<key, value>>; optional
              timestamp   a timestamp, or int64 milliseconds; null or no column: now
              partition   an integer; optional
    others are not looked at, so that what `poll_arrow` gives can be sent on

Needs pyarrow and numpy: `pip install tailrace[arrow]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any, Final

import crc32c
import numpy as np
from numpy.typing import NDArray

from tailrace.client.bulk_rows import NO_PARTITION, PartitionOf
from tailrace.client.murmur2_columns import hash_keys
from tailrace.client.partitioner import KeyHashes
from tailrace.client.producer_batch import Builder
from tailrace.protocol.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
)
from tailrace.protocol.records.compression import Compression, compress

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")

Integers = NDArray[np.int64]

RECORD_OVERHEAD_BYTES: Final = 31
"""What a record without headers takes beside key and value, at most: attributes and six varints."""
_ROWS_FEW: Final = 5_000
_VARINT_BYTES_MAX: Final = 10
_MILLISECONDS: Final = "ms"
_CHUNK_BYTES_MAX: Final = 1 << 30
_COLUMNS: Final = ("value", "key", "headers", "timestamp", "partition")


@dataclass(slots=True)
class RecordColumns:
    """Records as columns, all of one length. `headers` are encoded, `header_counts` say how many a record has."""

    value: Any
    key: Any | None
    headers: Any | None
    header_counts: Integers | None
    timestamps: Integers
    partitions: Integers | None
    places: Integers

    @property
    def rows(self) -> list[int]:
        """Where each record was in what the caller gave."""
        return [int(place) for place in self.places]

    def __len__(self) -> int:
        return len(self.timestamps)

    def take(self, rows: NDArray[np.intp]) -> RecordColumns:
        """Give some of the records, in the order of `rows`."""
        index = pa.array(rows)
        return RecordColumns(
            self.value.take(index),
            None if self.key is None else self.key.take(index),
            None if self.headers is None else self.headers.take(index),
            None if self.header_counts is None else self.header_counts[rows],
            self.timestamps[rows],
            None if self.partitions is None else self.partitions[rows],
            self.places[rows],
        )

    def slice(self, start: int, end: int) -> RecordColumns:
        """Give the records from `start` up to `end`."""
        count = end - start
        return RecordColumns(
            self.value.slice(start, count),
            None if self.key is None else self.key.slice(start, count),
            None if self.headers is None else self.headers.slice(start, count),
            None if self.header_counts is None else self.header_counts[start:end],
            self.timestamps[start:end],
            None if self.partitions is None else self.partitions[start:end],
            self.places[start:end],
        )

    def size_bounds(self) -> Integers:
        """Give the most bytes that each record can take."""
        sizes = np.maximum(_lengths(self.value), 0) + RECORD_OVERHEAD_BYTES
        for column in (self.key, self.headers):
            if column is not None:
                sizes += np.maximum(_lengths(column), 0)
        return sizes

    def split(self, bytes_max: int) -> Iterator[tuple[int, int, int]]:
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

    def builder(self, size_max: int, compression: Compression, level: int | None) -> Builder:
        """Give what makes one batch of all these records, which take `size_max` bytes at most."""
        return ArrowBatchBuilder(self, size_max, compression, level)

    def _partitions(self, partitions_count: int, partition_of: PartitionOf | None) -> Integers | None:
        if self.partitions is not None:
            return self.partitions
        if partition_of is not None:
            keys = [None] * len(self) if self.key is None else self.key.to_pylist()
            pairs = zip(keys, self.value.to_pylist(), strict=True)
            return np.array([partition_of(key, value) for key, value in pairs], dtype=np.int64)
        if self.key is None:
            return None
        hashed = hash_keys(self.key) % partitions_count
        return np.where(_lengths(self.key) < 0, NO_PARTITION, hashed)


class ArrowBatchBuilder:
    """Makes one batch of columns, when it is asked for its bytes: until then it holds nothing but views of them."""

    __slots__ = ("_columns", "_compression", "_level", "records_count", "size")

    def __init__(self, columns: RecordColumns, size: int, compression: Compression, level: int | None) -> None:
        self._columns = columns
        self._compression = compression
        self._level = level
        self.records_count = len(columns)
        self.size = size

    def finish(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> bytearray:
        """Give the batch."""
        records = encode_columns(self._columns)
        if self._compression is not Compression.NONE:
            records = memoryview(compress(self._compression, records, level=self._level))
        batch = bytearray(HEADER_SIZE + len(records))
        batch[HEADER_SIZE:] = records
        timestamps = self._columns.timestamps
        attributes = int(self._compression) | (TRANSACTIONAL_FLAG if is_transactional else 0)
        numbers = (producer_id, producer_epoch, base_sequence, self.records_count)
        times = (int(timestamps[0]), int(timestamps.max()))
        length = len(batch) - LENGTH_END
        HEADER.pack_into(
            batch, 0, 0, length, NO_LEADER_EPOCH, 2, 0, attributes, self.records_count - 1, *times, *numbers
        )
        crc = crc32c.crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
        batch[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc.to_bytes(4, "big")
        return batch


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


def encode_columns(columns: RecordColumns) -> memoryview:
    """Lay out the records of a batch, whose base timestamp is the first one's."""
    count = len(columns)
    value_lengths = _lengths(columns.value)
    numbers = [_zigzag(columns.timestamps - columns.timestamps[0]), _zigzag(np.arange(count, dtype=np.int64))]
    sizes = 1 + np.maximum(value_lengths, 0)
    lengths = [_zigzag(value_lengths)]
    if columns.key is not None:
        key_lengths = _lengths(columns.key)
        numbers.append(_zigzag(key_lengths))
        sizes += np.maximum(key_lengths, 0)
    else:
        lengths.insert(0, np.ones(count, dtype=np.uint64))  # the varint of -1: a null key
    tails = [np.zeros(count, dtype=np.uint64)]
    if columns.headers is not None and columns.header_counts is not None:
        tails = [_zigzag(columns.header_counts)]
        sizes += _lengths(columns.headers)
    for part in (*numbers, *lengths, *tails):
        sizes += _varint_sizes(part)
    heads = [_zigzag(sizes), np.zeros(count, dtype=np.uint64), *numbers]  # a record's attributes are always 0
    if columns.key is None:
        pieces = [_varint_column([*heads, *lengths]), columns.value]
    else:
        pieces = [_varint_column(heads), columns.key, _varint_column(lengths), columns.value]
    pieces.append(_varint_column(tails) if columns.headers is not None else _NO_HEADERS)
    if columns.headers is not None:
        pieces.append(columns.headers)
    joined = pc.binary_join_element_wise(*pieces, _EMPTY, null_handling="replace", null_replacement="")
    _, ends, data = joined.buffers()
    return memoryview(data)[: int(np.frombuffer(ends, dtype=np.int32)[count])]


_EMPTY: Final = pa.scalar(b"", pa.binary())
_NO_HEADERS: Final = pa.scalar(b"\x00", pa.binary())


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
        value=_as_binary(column["value"], "value"),
        key=_as_binary(column["key"], "key") if "key" in column else None,
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


def _read_headers(column: Any) -> tuple[Any, Integers]:
    """Encode all headers, and give those of each record as one value, with how many they are."""
    kind = column.type
    if column.null_count:
        column = column.take(pa.array(np.arange(len(column))))  # nulls may hide entries; taken anew they have none
    if pa.types.is_map(kind):
        names, values = column.keys, column.items
    elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2:
        names, values = column.values.flatten()
    else:
        raise TypeError(f"the column `headers` is {kind}; map<string, binary> or list<struct<key, value>> is expected")
    names, values = _as_binary(names, "headers"), _as_binary(values, "headers")
    if names.null_count:
        raise ValueError("the column `headers` has a header without a key")
    pieces = (_varint_column([_zigzag(_lengths(names))]), names, _varint_column([_zigzag(_lengths(values))]), values)
    encoded = pc.binary_join_element_wise(*pieces, _EMPTY, null_handling="replace", null_replacement="")
    _, ends, data = encoded.buffers()
    places = np.frombuffer(ends, dtype=np.int32)[: len(encoded) + 1] if len(encoded) else np.zeros(1, dtype=np.int32)
    rows = column.offsets.to_numpy()
    counts: Integers = np.diff(rows).astype(np.int64)
    starts = np.ascontiguousarray(places[rows].astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(column), [None, pa.py_buffer(starts), data]), counts


def _lengths(column: Any) -> Integers:
    """Give the lengths of a column's values; -1 for null."""
    lengths: Integers = pc.binary_length(column).cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return lengths


def _zigzag(values: Integers) -> NDArray[np.uint64]:
    return ((values << 1) ^ (values >> 63)).astype(np.uint64)


def _varint_sizes(values: NDArray[np.uint64]) -> Integers:
    sizes = np.ones(len(values), dtype=np.int64)
    largest = int(values.max()) if len(values) else 0
    for bits in range(7, 7 * _VARINT_BYTES_MAX, 7):
        if largest >> bits == 0:
            break
        sizes += values >> np.uint64(bits) != 0
    return sizes


def _varint_column(fields: list[NDArray[np.uint64]]) -> Any:
    """Write the varints of several fields beside each other, as one value a row."""
    sizes = [_varint_sizes(field) for field in fields]
    ends = np.cumsum(sum(sizes[1:], start=sizes[0]))
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    out = np.empty(int(offsets[-1]), dtype=np.uint8)
    position = offsets[:-1].astype(np.int64)
    for field, size in zip(fields, sizes, strict=True):
        _write_varints(out, position, field, size)
        position = position + size
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(out)])


def _write_varints(out: NDArray[np.uint8], position: Integers, field: NDArray[np.uint64], size: Integers) -> None:
    longest = int(size.max()) if len(size) else 0
    if longest == 1:
        out[position] = field.astype(np.uint8)
        return
    rest, places, sizes = field, position, size
    for index in range(longest):
        if index:
            more = sizes > index
            rest, places, sizes = rest[more], places[more], sizes[more]
        low = ((rest >> np.uint64(7 * index)) & np.uint64(0x7F)).astype(np.uint8)
        out[places + index] = low | np.where(sizes > index + 1, 0x80, 0).astype(np.uint8)
