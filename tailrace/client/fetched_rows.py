"""Batches decoded into rows, from which records are made some at a time.

Pure. `decode_rows` picks the way: as columns with numpy where there are many records, else one by one. A record made of
columns costs half a microsecond, most of it for the objects that the caller sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from tailrace.client.fetched_batches import FetchedBatches
from tailrace.protocol.records.batch_header import TimestampType
from tailrace.protocol.records.corrupt import CorruptRecords
from tailrace.protocol.records.record import HEADER_KEY_ERRORS, Record, RecordHeader

try:
    from tailrace.protocol.records import record_columns
except ImportError:  # numpy is an extra
    record_columns = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from tailrace.protocol.records.record_columns import DecodedColumns, Integers

Deserializer = Callable[[bytes], Any]

COLUMNS_RECORDS_MIN: Final = 40
"""Fewer records are decoded sooner one by one."""


class Fields(NamedTuple):
    """Rows as columns of Python values; those that can be endless are as long as `offsets`."""

    offsets: list[int]
    timestamps: list[int]
    timestamp_types: Iterable[TimestampType]
    keys: Iterable[bytes | None]
    values: Iterable[bytes | None]
    headers: Iterable[Sequence[RecordHeader]]
    leader_epochs: list[int]


class Rows(Protocol):
    """Records that were decoded."""

    count: int

    def fields(self, first: int, last: int) -> Fields:
        """Give the rows from `first` to before `last`."""
        ...


def decode_rows(batches: FetchedBatches, first_offset: int) -> Rows:
    """Decode batches, without what comes before `first_offset`; ApiError where they are corrupt."""
    is_many = batches.records_count >= COLUMNS_RECORDS_MIN
    if is_many and not batches.legacy and record_columns is not None:
        try:
            return _ColumnRows(record_columns.decode_columns(batches.buffer, batches.batches).after(first_offset))
        except CorruptRecords:
            return _PlainRows(batches, first_offset)
    return _PlainRows(batches, first_offset)


class _PlainRows:
    """Records that were decoded one by one."""

    def __init__(self, batches: FetchedBatches, first_offset: int) -> None:
        self._rows: list[tuple[Record, TimestampType, int]] = [
            (record, kind, epoch)
            for records, kind, epoch in batches.read()
            for record in records
            if record.offset >= first_offset
        ]
        self.count = len(self._rows)

    def fields(self, first: int, last: int) -> Fields:
        """Give the rows from `first` to before `last`."""
        rows = self._rows[first:last]
        return Fields(
            [record.offset for record, _, _ in rows],
            [record.timestamp for record, _, _ in rows],
            [kind for _, kind, _ in rows],
            [record.key for record, _, _ in rows],
            [record.value for record, _, _ in rows],
            [record.headers for record, _, _ in rows],
            [epoch for _, _, epoch in rows],
        )


class _ColumnRows:
    """Records that were decoded all together."""

    def __init__(self, columns: DecodedColumns) -> None:
        self._columns = columns
        self.count = len(columns)
        self._headers = _headers(columns) if columns.header_counts.any() else None
        self._has_append_times = bool(columns.is_append_time.any())

    def fields(self, first: int, last: int) -> Fields:
        """Give the rows from `first` to before `last`."""
        columns, rows = self._columns, slice(first, last)
        types: Iterable[TimestampType] = repeat(TimestampType.CREATE_TIME)
        if self._has_append_times:
            types = [TimestampType(int(flag)) for flag in columns.is_append_time[rows].tolist()]
        return Fields(
            columns.offsets[rows].tolist(),
            columns.timestamps[rows].tolist(),
            types,
            _pieces(columns.data, columns.key_starts[rows], columns.key_lengths[rows]),
            _pieces(columns.data, columns.value_starts[rows], columns.value_lengths[rows]),
            repeat(()) if self._headers is None else self._headers[first:last],
            columns.leader_epochs[rows].tolist(),
        )


def _pieces(data: bytes, starts: Integers, lengths: Integers) -> Iterable[bytes | None]:
    """Cut keys or values out of the data; a length of -1 is null."""
    ends = (starts + lengths).tolist()
    if not len(lengths) or lengths.min() >= 0:
        return [data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
    if lengths.max() < 0:
        return repeat(None)
    return [None if end < start else data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]


def _headers(columns: DecodedColumns) -> list[Sequence[RecordHeader]]:
    """Give every record's headers."""
    assert record_columns is not None, "these columns are its"
    found = record_columns.decode_header_columns(columns)
    headers: list[Any] = [()] * len(columns)
    keys = _pieces(columns.data, found.key_starts, found.key_lengths)
    values = _pieces(columns.data, found.value_starts, found.value_lengths)
    for row, key, value in zip(found.rows.tolist(), keys, values, strict=False):
        entry = ((key or b"").decode("utf-8", HEADER_KEY_ERRORS), value)
        if headers[row]:
            headers[row].append(entry)
        else:
            headers[row] = [entry]
    return headers
