"""The columns of the source: those of Spark's own Kafka connector, in its order and types.

A user's schema with fewer of them reads only those. `RowBatches` makes Arrow batches of what was fetched, with exactly
the Arrow types that Spark expects of its schema, and without a Python object a record; what a batch has in columns
that nobody asked for is not decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from tailrace.client.arrow_reader import HEADERS_TYPE, arrow_batch, binary_column, header_column
from tailrace.protocol.records.corrupt import CorruptRecords
from tailrace.protocol.records.record_columns import DecodedColumns, decode_columns
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.spark.json_values import CORRUPT_RECORD, check_json_type, decode_json
from tailrace.spark.range_reader import FetchedPiece

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")

SPARK_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
_HEADERS: Final = "headers"
_CORRUPT_COLUMN: Final = (CORRUPT_RECORD, "binary")
_MICROSECONDS: Final = pa.timestamp("us", "UTC")
_MILLISECONDS_MAX: Final = (2**63 - 1) // 1000
_ARROW_BYTES_MAX: Final = 0x7FFFFFFF


def source_schema(*, include_headers: bool, value_schema: str | None = None) -> str:
    """Give the source's columns, as Spark's DDL has them; with `value_schema` values are structs of these fields."""
    kinds = dict(SPARK_TYPES)
    if not include_headers:
        del kinds[_HEADERS]
    if value_schema is not None:
        kinds["value"] = f"struct<{value_schema}>"
        kinds[CORRUPT_RECORD] = "binary"
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items())


def check_columns(
    names_and_types: Sequence[tuple[str, str]], *, include_headers: bool, decodes_json: bool = False
) -> list[str]:
    """Give the names of a schema's columns; ValueError for one that the source does not have."""
    for name, kind in names_and_types:
        if decodes_json and ((name == "value" and kind.startswith("struct<")) or (name, kind) == _CORRUPT_COLUMN):
            continue
        expected = SPARK_TYPES.get(name)
        if expected is None:
            raise ValueError(f"there is no column '{name}': the source has {', '.join(SPARK_TYPES)}")
        if kind != expected:
            raise ValueError(f"the column '{name}' is of type {expected}, not {kind}")
        if name == _HEADERS and not include_headers:
            raise ValueError("the column 'headers' is read with the option includeHeaders=true")
    if not names_and_types:
        raise ValueError("a schema has at least one column")
    return [name for name, _ in names_and_types]


class RowBatches:
    """Makes batches of these columns; `schema` is Spark's, as an Arrow schema.

    With `decodes_json` values become structs, and what is corrupt of them is in a column of its own.
    """

    def __init__(self, schema: Any, *, decodes_json: bool = False) -> None:
        self._schema = schema
        self._names: list[str] = list(schema.names)
        self._value_type: Any = None
        if decodes_json and {"value", CORRUPT_RECORD} & set(self._names):
            if "value" not in self._names:
                raise ValueError(f"the column {CORRUPT_RECORD} is read together with the column value")
            self._value_type = schema.field("value").type
            check_json_type(self._value_type)

    def make(self, topic_partition: TopicPartition, piece: FetchedPiece, until: int) -> Any:
        """Give the records of a piece that are before `until`."""
        walked = piece.walked
        if not walked.legacy:
            try:
                return self._of_columns(topic_partition, decode_columns(walked.buffer, walked.batches), piece, until)
            except CorruptRecords:
                # The plain reader says what is wrong, or reads what is merely unusual.
                return self._of_rows(arrow_batch(topic_partition, walked, piece.first), until)
        return self._of_rows(arrow_batch(topic_partition, walked, piece.first), until)

    def _of_columns(
        self, topic_partition: TopicPartition, decoded: DecodedColumns, piece: FetchedPiece, until: int
    ) -> Any:
        first, last = np.searchsorted(decoded.offsets, [piece.first, until])
        rows = decoded.sliced(int(first), int(last))
        if len(rows.data) > _ARROW_BYTES_MAX:
            raise CorruptRecords("more bytes than an Arrow array of this kind can have")
        make = _makers(topic_partition, rows)
        wanted = [name for name in self._names if name in SPARK_TYPES]
        return self._batch({name: make[name]() for name in wanted})

    def _of_rows(self, batch: Any, until: int) -> Any:
        """Make the batch of one that `arrow_reader` made."""
        batch = batch.slice(0, int(np.searchsorted(batch.column("offset").to_numpy(), until)))
        columns = {
            name: batch.column("timestamp_type" if name == "timestampType" else name)
            for name in self._names
            if name in SPARK_TYPES
        }
        if "timestamp" in columns:
            milliseconds = columns["timestamp"].cast(pa.int64()).fill_null(-1).to_numpy()
            columns["timestamp"] = _timestamps(milliseconds)
        if _HEADERS in columns:
            columns[_HEADERS] = _null_where_empty(columns[_HEADERS])
        return self._batch(columns)

    def _batch(self, columns: dict[str, Any]) -> Any:
        if self._value_type is not None:
            columns["value"], columns[CORRUPT_RECORD] = decode_json(columns["value"], self._value_type)
        typed = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in ((columns[field.name], field) for field in self._schema)
        ]
        return pa.RecordBatch.from_arrays(typed, schema=self._schema)


def _makers(topic_partition: TopicPartition, rows: DecodedColumns) -> dict[str, Callable[[], Any]]:
    """Say how each column is made; only those are that a query asks for."""
    count = len(rows)
    topic, partition = topic_partition
    return {
        "key": lambda: binary_column(rows.data, rows.key_starts, rows.key_lengths),
        "value": lambda: binary_column(rows.data, rows.value_starts, rows.value_lengths),
        "topic": lambda: pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": lambda: pa.array(np.full(count, partition, np.int32)),
        "offset": lambda: pa.array(rows.offsets),
        "timestamp": lambda: _timestamps(rows.timestamps),
        "timestampType": lambda: pa.array(rows.is_append_time.astype(np.int32)),
        _HEADERS: lambda: _null_where_empty(header_column(rows)),
    }


def _null_where_empty(headers: Any) -> Any:
    """Give null for a record without headers, as the official connector has it."""
    is_bare = pc.equal(pc.list_value_length(headers), 0)
    if pc.all(is_bare).as_py() is not False:
        return pa.nulls(len(headers), HEADERS_TYPE)
    return pc.if_else(is_bare, pa.scalar(None, HEADERS_TYPE), headers) if pc.any(is_bare).as_py() else headers


def _timestamps(milliseconds: Any) -> Any:
    """Give times in microseconds; -1, which old producers leave, is a millisecond before 1970, as Java has it."""
    if len(milliseconds) and np.abs(milliseconds).max() > _MILLISECONDS_MAX:
        wrong = int(milliseconds[np.abs(milliseconds).argmax()])
        raise ValueError(
            f"a record's timestamp of {wrong} overflows microseconds; producers write milliseconds since 1970"
        )
    return pa.array(milliseconds * 1000).view(_MICROSECONDS)
