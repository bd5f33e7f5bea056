"""Record batches made of Arrow columns, without a Python object a record.

A record is its lengths and numbers (varints), the key, the value and the headers. The varints of all records are
computed and laid out with numpy as a column of bytes, and Arrow's own kernel joins that column with the others, which
gives the records of a batch one behind the other, with room for its header in front: every value is copied once. A
record costs a tenth of a microsecond.

Needs pyarrow and numpy: `pip install tailrace[arrow]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import crc32c
import numpy as np

from tailrace.client.arrow_columns import RecordColumns, join
from tailrace.client.varint_columns import (
    VarintField,
    VarintRows,
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
    ) -> bytearray | memoryview:
        """Give the batch."""
        batch: bytearray | memoryview = encode_columns(self._columns)
        if self._compression is not Compression.NONE:
            records = compress(self._compression, memoryview(batch)[HEADER_SIZE:], level=self._level)
            batch = bytearray(HEADER_SIZE)
            batch += records
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


def encode_columns(columns: RecordColumns) -> memoryview:
    """Lay out the records of a batch, whose base timestamp is the first one's, behind room for its header."""
    count = len(columns)
    heads: list[VarintRows] = []
    middles: list[VarintRows] = []
    tails: list[VarintRows] = []
    for start, end in _stretches(count):
        _lay_out_stretch(columns, start, end, heads, middles, tails)
    pieces = [binary_column(heads, first_bytes=HEADER_SIZE)]
    if columns.key is not None:
        pieces += [columns.key.array, binary_column(middles)]
    pieces += [columns.value.array]
    pieces += [_NO_HEADERS] if columns.headers is None else [binary_column(tails), columns.headers.array]
    _, ends, data = join(pieces).buffers()
    return memoryview(data).cast("B")[: int(np.frombuffer(ends, dtype=np.int32)[count])]


_NO_HEADERS: Final = pa.scalar(b"\x00", pa.binary())
_OFFSET_STEPS: Final = (64, 8_192, 1_048_576, 134_217_728)
"""Where the varint of an offset in its batch takes a byte more."""


_ZERO: Final = same_in_each_row(0)
_NULL: Final = same_in_each_row(-1)
_FIRST_OFFSETS: Final = [varint_field(np.arange(start, end)) for start, end in ((0, 64), (64, 8_192))]
"""The offsets that most batches have, made once."""


def _offsets(start: int, count: int) -> VarintField:
    """Give the offsets of a stretch."""
    if start > _OFFSET_STEPS[0]:
        return varint_field(np.arange(start, start + count))
    field = _FIRST_OFFSETS[0 if start == 0 else 1]
    assert field.values is not None, "offsets are not all the same"
    return VarintField(field.values[:count], field.size, field.low)


def _stretches(count: int) -> list[tuple[int, int]]:
    """Divide a batch where its offsets take more bytes: between, rows mostly have one layout."""
    ends = [step for step in _OFFSET_STEPS if step < count]
    return list(zip([0, *ends], [*ends, count], strict=True))


def _lay_out_stretch(
    columns: RecordColumns,
    start: int,
    end: int,
    heads: list[VarintRows],
    middles: list[VarintRows],
    tails: list[VarintRows],
) -> None:
    """Lay out the varints of some rows: those before the key, those before the value, those before the headers."""
    count = end - start
    times = varint_field(columns.timestamps[start:end] - columns.timestamps[0])
    offsets = _offsets(start, count)
    value_lengths = columns.value.lengths[start:end]
    value = varint_field(value_lengths)
    body = [times, offsets, value]
    payload = value_lengths if value.low >= 0 else np.maximum(value_lengths, 0)
    key = _NULL
    if columns.key is not None:
        key_lengths = columns.key.lengths[start:end]
        key = varint_field(key_lengths)
        payload = payload + np.maximum(key_lengths, 0)
    tail = _ZERO
    if columns.headers is not None and columns.header_counts is not None:
        tail = varint_field(columns.header_counts[start:end])
        payload = payload + columns.headers.lengths[start:end]
    sizes = payload + 1
    for field in (*body, key, tail):
        sizes += field.size
    before = [varint_field(sizes), _ZERO, times, offsets, key]
    if columns.key is None:
        heads.append(lay_out([*before, value], count))
    else:
        heads.append(lay_out(before, count))
        middles.append(lay_out([value], count))
    if columns.headers is not None:
        tails.append(lay_out([tail], count))
