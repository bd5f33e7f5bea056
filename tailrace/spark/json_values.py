"""Values that are JSON objects, decoded in the worker straight into typed columns.

All values of a fetch are parsed at once; one that cannot be parsed makes that fail, and is then found by halving, so
that it alone comes out as null, with its bytes in the column `_corrupt_record`. A value is corrupt where it is not one
object, or where a field is not of its type: numbers are not read as text, nor text as numbers. Fields that the schema
does not have are left out, those that are missing are null. Times are ISO 8601, in UTC where they have no zone.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")
pa_json: Any = import_module("pyarrow.json")

CORRUPT_RECORD: Final = "_corrupt_record"
_NEWLINE: Final = 10
_OPENS, _CLOSES = b"{}"


def check_json_type(kind: Any) -> None:
    """Raise ValueError for an Arrow type that values cannot be decoded to."""
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            raise ValueError("valueSchema has a struct without fields")
        for index in range(kind.num_fields):
            check_json_type(kind.field(index).type)
    elif pa.types.is_list(kind):
        check_json_type(kind.value_type)
    else:
        is_known = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string)
        if not any(test(kind) for test in is_known) and not pa.types.is_timestamp(kind):
            raise ValueError(f"valueSchema: JSON is not decoded to {kind}; decode such a field as string, and cast it")


def decode_json(values: Any, kind: Any) -> tuple[Any, Any]:
    """Make structs of type `kind` of a binary array; and give what is corrupt of it, other values being null."""
    count = len(values)
    pieces: list[Any] = []
    is_bad = np.zeros(count, bool)
    schema = pa.schema(list(kind))
    is_object = _are_objects(values)
    if not count:
        return pa.array([], kind), pa.array([], pa.binary())
    if is_object.all():
        _parse(values, schema, 0, pieces, is_bad)
    else:
        first = 0
        for row in [*np.flatnonzero(~is_object).tolist(), count]:
            if row > first:
                _parse(values.slice(first, row - first), schema, first, pieces, is_bad)
            if row < count:
                _parse_one(values[row].as_py(), schema, row, pieces, is_bad)
            first = row + 1
    made = pa.concat_arrays([piece.cast(kind) for piece in pieces])
    corrupt = pc.if_else(pa.array(is_bad), values, pa.scalar(None, pa.binary()))
    return made, corrupt


def _are_objects(values: Any) -> Any:
    """Say of each value whether it begins and ends as an object: then none runs over into the next one."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    found = ends - starts >= 2
    if values.null_count:
        found &= values.is_valid().to_numpy(zero_copy_only=False)
    if found.any():
        raw = np.frombuffer(values.buffers()[2], np.uint8)
        last = len(raw) - 1
        found &= (raw[np.minimum(starts, last)] == _OPENS) & (raw[np.minimum(np.maximum(ends - 1, 0), last)] == _CLOSES)
    return found


def _parse(values: Any, schema: Any, first: int, pieces: list[Any], is_bad: Any) -> None:
    """Parse values that look like objects; where that fails, each half of them."""
    made = _parsed(values, schema)
    if made is not None:
        pieces += made
    elif len(values) == 1:
        is_bad[first] = True
        pieces.append(pa.nulls(1, pa.struct(list(schema))))
    else:
        half = len(values) // 2
        _parse(values.slice(0, half), schema, first, pieces, is_bad)
        _parse(values.slice(half), schema, first + half, pieces, is_bad)


def _parse_one(value: bytes | None, schema: Any, row: int, pieces: list[Any], is_bad: Any) -> None:
    """Parse a value that is null, or that has something around the object, or is none."""
    stripped = None if value is None else value.strip()
    if stripped and stripped[0] == _OPENS and stripped[-1] == _CLOSES:
        _parse(pa.array([stripped], pa.binary()), schema, row, pieces, is_bad)
    else:
        is_bad[row] = value is not None
        pieces.append(pa.nulls(1, pa.struct(list(schema))))


def _parsed(values: Any, schema: Any) -> Sequence[Any] | None:
    """Give the objects, or None where one of the values is corrupt."""
    count = len(values)
    try:
        values.cast(pa.string())  # Arrow's parser takes bytes that are no UTF-8
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), values), b"\n")[0].as_buffer()
        has_more_lines = np.count_nonzero(np.frombuffer(lines, np.uint8) == _NEWLINE) >= count
        table = pa_json.read_json(
            pa.BufferReader(lines),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=lines.size + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=has_more_lines
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != count:
        return None
    chunks: list[Any] = table.to_struct_array().chunks
    return chunks
