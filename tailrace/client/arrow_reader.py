"""Arrow columns made of record batches, without a Python object a record.

`record_columns` says where every key and value lies in the bytes that were fetched; one Arrow array over those bytes,
cut at all these places, and one `take` of every second piece make the columns: six to ten million records of 100 bytes
a second of one core. What is not quite as usual goes through the plain reader, and comes out the same.

    topic string | partition int32 | offset int64 | timestamp timestamp[ms, UTC] | timestamp_type int32
    key binary | value binary | headers list<struct<key: string, value: binary>>

`decode_record_set` takes what a fetch gave for one partition: batches of any magic, compressed or not, the last one
perhaps cut off. Control batches, and for a reader of committed data the records of aborted transactions, are left out.
Needs pyarrow and numpy: `pip install tailrace[arrow]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tailrace.client.fetched_batches import AbortedRange, FetchedBatches, walk_batches
from tailrace.protocol.records.batch_header import TimestampType
from tailrace.protocol.records.corrupt import CorruptRecords
from tailrace.protocol.records.record_columns import DecodedColumns, decode_columns, decode_header_columns
from tailrace.protocol.topic_partition import TopicPartition

pa: Any = import_module("pyarrow")

Integers = NDArray[np.int64]

HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ]
)
"""What every batch looks like. Timestamps of -1, which old producers left out, are null."""
_ARROW_BYTES_MAX: Final = 0x7FFFFFFF


def decode_record_set(
    topic_partition: TopicPartition,
    records: bytes,
    *,
    first_offset: int = 0,
    aborted: Sequence[AbortedRange] | None = None,
    check_crcs: bool = True,
) -> tuple[Any, int]:
    """Give the records from `first_offset` on as a RecordBatch, and the offset to go on with.

    With `aborted` (None reads uncommitted) the records of these transactions are left out. ApiError(CORRUPT_MESSAGE)
    where a batch is not what was written.
    """
    walked = walk_batches(records, first_offset, aborted=aborted, check_crcs=check_crcs)
    return arrow_batch(topic_partition, walked, first_offset), max(first_offset, walked.next_offset)


def arrow_batch(topic_partition: TopicPartition, walked: FetchedBatches, first_offset: int) -> Any:
    """Make a RecordBatch of batches that were walked over."""
    if walked.legacy:
        return _from_records(topic_partition, walked, first_offset)
    try:
        columns = decode_columns(walked.buffer, walked.batches).after(first_offset)
        return from_columns(topic_partition, columns)
    except CorruptRecords:
        return _from_records(topic_partition, walked, first_offset)


def from_columns(topic_partition: TopicPartition, columns: DecodedColumns) -> Any:
    """Make a RecordBatch of columns of numbers."""
    count = len(columns)
    if len(columns.data) > _ARROW_BYTES_MAX:
        raise CorruptRecords("more bytes than an Arrow array of this kind can have")
    type_numbers = columns.is_append_time.astype(np.int32)
    return _batch(
        topic_partition,
        count,
        pa.array(columns.offsets),
        pa.array(columns.timestamps, mask=columns.timestamps < 0),
        pa.array(type_numbers),
        binary_column(columns.data, columns.key_starts, columns.key_lengths),
        binary_column(columns.data, columns.value_starts, columns.value_lengths),
        header_column(columns),
    )


def _batch(
    topic_partition: TopicPartition,
    count: int,
    offsets: Any,
    timestamps: Any,
    timestamp_types: Any,
    keys: Any,
    values: Any,
    headers: Any,
) -> Any:
    topic, partition = topic_partition
    columns = [
        pa.repeat(pa.scalar(topic, pa.string()), count),
        pa.repeat(pa.scalar(partition, pa.int32()), count),
        offsets,
        timestamps.view(SCHEMA.field("timestamp").type),
        timestamp_types,
        keys,
        values,
        headers,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def binary_column(data: bytes, starts: Integers, lengths: Integers) -> Any:
    """Copy pieces of `data`, which follow each other in it, into one array; a length of -1 is null.

    An array over the data itself has the pieces at its even places and what lies between them at its odd ones.
    """
    count = len(starts)
    is_null = lengths < 0
    nulls_count = int(np.count_nonzero(is_null))
    if nulls_count == count:
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0) if nulls_count else starts + lengths
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    index = np.arange(0, 2 * count, 2, dtype=np.int32)
    return pieces.take(pa.array(index, mask=is_null) if nulls_count else pa.array(index))


def header_column(columns: DecodedColumns) -> Any:
    """Make a column of the headers, of `HEADERS_TYPE`."""
    count = len(columns)
    counts = columns.header_counts
    bounds = np.zeros(count + 1, np.int32)
    if not counts.any():
        entries = pa.StructArray.from_arrays(
            [pa.array([], pa.string()), pa.array([], pa.binary())], fields=list(HEADERS_TYPE.value_type)
        )
        return pa.ListArray.from_arrays(pa.array(bounds), entries)
    found = decode_header_columns(columns)
    np.cumsum(counts, out=bounds[1:])
    names = binary_column(columns.data, found.key_starts, found.key_lengths)
    values = binary_column(columns.data, found.value_starts, found.value_lengths)
    entries = pa.StructArray.from_arrays([_as_text(names), values], fields=list(HEADERS_TYPE.value_type))
    return pa.ListArray.from_arrays(pa.array(bounds), entries)


def _as_text(names: Any) -> Any:
    """Make strings of the names of headers; what is no UTF-8 gets the sign that stands for it."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())


def _from_records(topic_partition: TopicPartition, walked: FetchedBatches, first_offset: int) -> Any:
    """Make a RecordBatch record by record: for messages of old formats and for what is not quite as usual."""
    rows = [(r, kind) for records, kind, _ in walked.read() for r in records if r.offset >= first_offset]
    headers = [
        [
            {"key": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
            for name, value in record.headers
        ]
        for record, _ in rows
    ]
    times = [None if record.timestamp < 0 else record.timestamp for record, _ in rows]
    kinds = [int(kind is TimestampType.LOG_APPEND_TIME) for _, kind in rows]
    return _batch(
        topic_partition,
        len(rows),
        pa.array([record.offset for record, _ in rows], pa.int64()),
        pa.array(times, pa.int64()),
        pa.array(kinds, pa.int32()),
        pa.array([record.key for record, _ in rows], pa.binary()),
        pa.array([record.value for record, _ in rows], pa.binary()),
        pa.array(headers, HEADERS_TYPE),
    )
