"""Record batches made of Arrow columns, without a Python object a record.

A record is its lengths and numbers (varints), the key, the value and the headers. The varints of all records are
computed and laid out with numpy as a column of bytes, and Arrow's own kernel joins that column with the others, which
gives the records of a batch one behind the other, with room for its header in front: every value is copied once. A
record costs a tenth of a microsecond.

Needs pyarrow and numpy: `pip install tailrace[arrow]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import crc32c
import numpy as np

from tailrace.client.arrow_columns import BytesColumn, RecordColumns, join
from tailrace.client.bulk_rows import Split
from tailrace.client.varint_columns import (
    Integers,
    VarintField,
    binary_column,
    lay_out,
    same_in_each_row,
    varint_field,
)
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


class EncodedColumns:
    """Several batches of columns, laid out together when the first of them is asked for.

    Most of what numpy takes for a batch it takes for each of its calls, so it is called for some batches at once.
    """

    def __init__(self, columns: RecordColumns, starts: Sequence[int]) -> None:
        self._columns: RecordColumns | None = columns
        self._starts = starts
        self._batches: list[memoryview] = []

    def batch(self, index: int) -> memoryview:
        """Give one batch, without its header."""
        if self._columns is not None:
            self._batches = encode_columns(self._columns, self._starts)
            self._columns = None
        return self._batches[index]


class ArrowBatchBuilder:
    """Makes one batch of columns, when it is asked for its bytes: until then there is nothing but views of them."""

    __slots__ = ("_compression", "_encoded", "_index", "_level", "_times", "records_count", "size")

    def __init__(
        self,
        encoded: EncodedColumns,
        index: int,
        times: Integers,
        size: int,
        compression: Compression,
        level: int | None,
    ) -> None:
        self._encoded = encoded
        self._index = index
        self._times = times
        self._compression = compression
        self._level = level
        self.records_count = len(times)
        self.size = size

    def finish(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> bytearray | memoryview:
        """Give the batch."""
        batch: bytearray | memoryview = self._encoded.batch(self._index)
        if self._compression is not Compression.NONE:
            records = compress(self._compression, memoryview(batch)[HEADER_SIZE:], level=self._level)
            batch = bytearray(HEADER_SIZE)
            batch += records
        attributes = int(self._compression) | (TRANSACTIONAL_FLAG if is_transactional else 0)
        numbers = (producer_id, producer_epoch, base_sequence, self.records_count)
        times = (int(self._times[0]), int(self._times.max()))
        length = len(batch) - LENGTH_END
        HEADER.pack_into(
            batch, 0, 0, length, NO_LEADER_EPOCH, 2, 0, attributes, self.records_count - 1, *times, *numbers
        )
        crc = crc32c.crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
        batch[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc.to_bytes(4, "big")
        return batch


def make_builders(
    columns: RecordColumns, splits: Sequence[Split], compression: Compression, level: int | None
) -> list[ArrowBatchBuilder]:
    """Give the builders of the batches into which columns are divided."""
    encoded = EncodedColumns(columns, [start for start, _, _ in splits])
    return [
        ArrowBatchBuilder(encoded, index, columns.timestamps[start:end], size, compression, level)
        for index, (start, end, size) in enumerate(splits)
    ]


def encode_columns(columns: RecordColumns, starts: Sequence[int]) -> list[memoryview]:
    """Lay out the records of batches that begin at `starts`, each batch behind room for its header.

    A batch's base timestamp is its first record's.
    """
    count = len(columns)
    counts = np.diff(np.array([*starts, count]))
    firsts = np.repeat(np.array(starts), counts)
    times = varint_field(columns.timestamps - columns.timestamps[firsts])
    offsets = varint_field(np.arange(count) - firsts)
    value = varint_field(columns.value.lengths)
    payload = _without_nulls(columns.value, value) + 1  # with the record's attributes, which are always 0
    key, tail = _NULL, _ZERO
    if columns.key is not None:
        key = varint_field(columns.key.lengths)
        payload += _without_nulls(columns.key, key)
    if columns.headers is not None and columns.header_counts is not None:
        tail = varint_field(columns.header_counts)
        payload += columns.headers.lengths
    for field in (times, offsets, key, value, tail):
        payload += field.size
    before = [varint_field(payload), _ZERO, times, offsets, key]
    if columns.key is None:
        pieces = [binary_column(lay_out([*before, value], count), starts=starts, room=HEADER_SIZE)]
    else:
        pieces = [binary_column(lay_out(before, count), starts=starts, room=HEADER_SIZE), columns.key.array]
        pieces.append(binary_column(lay_out([value], count)))
    pieces.append(columns.value.array)
    pieces += (
        [_NO_HEADERS] if columns.headers is None else [binary_column(lay_out([tail], count)), columns.headers.array]
    )
    _, ends, data = join(pieces).buffers()
    places = np.frombuffer(ends, dtype=np.int32)
    octets = memoryview(data).cast("B")
    return [octets[places[start] : places[end]] for start, end in zip(starts, [*starts[1:], count], strict=True)]


def _without_nulls(column: BytesColumn, field: VarintField) -> Integers:
    return column.lengths if field.low >= 0 else np.maximum(column.lengths, 0)


_ZERO: Final = same_in_each_row(0)
_NULL: Final = same_in_each_row(-1)
_NO_HEADERS: Final = pa.scalar(b"\x00", pa.binary())
