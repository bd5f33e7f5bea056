"""Varints of whole columns of numbers, with numpy: the fields of a row beside each other, as an Arrow column of bytes.

Rows are laid out as a matrix of bytes that has room for the longest number of each field, a column of it at a time;
what shorter numbers leave empty is then left out. No step has a loop over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailrace.protocol.records.varint import encode_varint

pa: Any = import_module("pyarrow")

Integers = NDArray[np.int64]
Octets = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class VarintField:
    """One number a row, zigzag; None where all rows have `low`, which else is the least of them.

    `size` is how many bytes each row's takes, or every row's; `size_max` how many at most.
    """

    values: NDArray[np.uint64] | None
    size: int | Integers
    size_max: int
    low: int


@dataclass(frozen=True, slots=True)
class VarintRows:
    """The bytes of some rows, one behind the other, with the bytes of each row, or of every row."""

    data: Octets
    size: int | Integers
    count: int


def varint_field(values: Integers) -> VarintField:
    """Find how many bytes numbers take, zigzag as Kafka writes them."""
    low, high = int(values.min()), int(values.max())
    if low == high:
        return same_in_each_row(low)
    if low >= 0:
        zigzag = values.astype(np.uint64)
        zigzag <<= np.uint64(1)
        least, most = low << 1, high << 1
    else:
        zigzag = ((values << 1) ^ (values >> 63)).astype(np.uint64)
        least, most = 0, max(-low * 2 - 1, high << 1)
    size = _size(most)
    return VarintField(zigzag, size if _size(least) == size else _sizes(zigzag, size), size, low)


def same_in_each_row(value: int) -> VarintField:
    """Give a field that has one number in every row."""
    size = len(encode_varint(value))
    return VarintField(None, size, size, value)


def lay_out(fields: Sequence[VarintField], count: int) -> VarintRows:
    """Write the fields of each row beside each other."""
    template = b"".join(encode_varint(field.low) if field.values is None else bytes(field.size_max) for field in fields)
    out = np.empty((count, len(template)), dtype=np.uint8)
    out[:] = np.frombuffer(template, dtype=np.uint8)
    is_filled: NDArray[np.bool_] | None = None
    column = 0
    size: Any = 0
    for field in fields:
        size = size + field.size
        if field.values is not None:
            if not isinstance(field.size, int):
                if is_filled is None:
                    is_filled = np.ones(out.shape, dtype=np.bool_)
                _fill(out[:, column:], field.values, field.size, field.size_max, is_filled[:, column:])
            else:
                _fill_alike(out[:, column:], field.values, field.size)
        column += field.size_max
    return VarintRows(out.reshape(-1) if is_filled is None else out[is_filled], size, count)


def binary_column(rows: VarintRows, *, starts: Sequence[int] = (), room: int = 0) -> Any:
    """Make an Arrow column of rows; those at `starts`, the first of which is 0, have `room` bytes in front."""
    offsets = np.zeros(rows.count + 1, dtype=np.int32)
    if isinstance(rows.size, int):
        offsets[1:] = np.arange(1, rows.count + 1) * rows.size
    else:
        np.cumsum(rows.size, out=offsets[1:])
    data = rows.data
    if room:
        gap = np.zeros(room, dtype=np.uint8)
        pieces: list[Octets] = []
        for start, end in zip(starts, [*starts[1:], rows.count], strict=True):
            pieces += [gap, data[offsets[start] : offsets[end]]]
        data = np.concatenate(pieces)
        for start in starts:
            offsets[start + 1 :] += room
    return pa.Array.from_buffers(pa.binary(), rows.count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _size(zigzag: int) -> int:
    return max((zigzag.bit_length() + 6) // 7, 1)


def _sizes(zigzag: NDArray[np.uint64], most: int) -> Integers:
    sizes = np.ones(len(zigzag), dtype=np.int64)
    for bits in range(7, 7 * most, 7):
        sizes += zigzag >= np.uint64(1 << bits)
    return sizes


def _fill_alike(out: Octets, values: NDArray[np.uint64], size: int) -> None:
    """Write varints that are all of one size."""
    for index in range(size):
        octets = (values >> np.uint64(7 * index) if index else values).astype(np.uint8)
        if index < size - 1:
            octets |= np.uint8(0x80)
        else:
            octets &= np.uint8(0x7F)
        out[:, index] = octets


def _fill(out: Octets, values: NDArray[np.uint64], size: Integers, size_max: int, is_filled: NDArray[np.bool_]) -> None:
    """Write varints of several sizes, and say which bytes they leave empty."""
    for index in range(size_max):
        octets = (values >> np.uint64(7 * index) if index else values).astype(np.uint8)
        octets &= np.uint8(0x7F)
        if index < size_max - 1:
            goes_on = size > index + 1
            octets |= goes_on.view(np.uint8) << np.uint8(7)
            is_filled[:, index + 1] = goes_on
        out[:, index] = octets
