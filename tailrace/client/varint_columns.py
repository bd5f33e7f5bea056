"""Varints of whole columns of numbers, with numpy: the fields of a row beside each other, as an Arrow column of bytes.

Where every row takes the same number of bytes, which is the rule, they are laid out as a matrix, a column of it at a
time; where rows differ, each byte is written to its place.
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

    `size` is how many bytes each row's takes, or every row's.
    """

    values: NDArray[np.uint64] | None
    size: int | Integers
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
    return VarintField(zigzag, size if _size(least) == size else _sizes(zigzag, size), low)


def same_in_each_row(value: int) -> VarintField:
    """Give a field that has one number in every row."""
    return VarintField(None, len(encode_varint(value)), value)


def lay_out(fields: Sequence[VarintField], count: int) -> VarintRows:
    """Write the fields of each row beside each other."""
    size: Any = 0
    for field in fields:
        size = size + field.size
    if isinstance(size, int):
        return VarintRows(_matrix(fields, count, size), size, count)
    return VarintRows(_scattered(fields, size), size, count)


def binary_column(parts: Sequence[VarintRows], *, first_bytes: int = 0) -> Any:
    """Make an Arrow column of rows, whose first value has `first_bytes` of room in front of it."""
    count = sum(part.count for part in parts)
    offsets = np.empty(count + 1, dtype=np.int32)
    offsets[0] = 0
    row, position = 0, first_bytes
    for part in parts:
        places = offsets[row + 1 : row + 1 + part.count]
        if isinstance(part.size, int):
            places[:] = np.arange(position + part.size, position + part.size * part.count + 1, part.size)
        else:
            np.cumsum(part.size, out=places)
            places += position
        row += part.count
        position += len(part.data)
    data = np.concatenate([np.zeros(first_bytes, dtype=np.uint8), *(part.data for part in parts)])
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _size(zigzag: int) -> int:
    return max((zigzag.bit_length() + 6) // 7, 1)


def _sizes(zigzag: NDArray[np.uint64], most: int) -> Integers:
    sizes = np.ones(len(zigzag), dtype=np.int64)
    for bits in range(7, 7 * most, 7):
        sizes += zigzag >= np.uint64(1 << bits)
    return sizes


def _matrix(fields: Sequence[VarintField], count: int, width: int) -> Octets:
    out = np.empty((count, width), dtype=np.uint8)
    template = bytearray()
    varying: list[tuple[int, NDArray[np.uint64], int]] = []
    for field in fields:
        assert isinstance(field.size, int), "a matrix has columns of one width"
        if field.values is None:
            template += encode_varint(field.low)
        else:
            varying.append((len(template), field.values, field.size))
            template += bytes(field.size)
    out[:] = np.frombuffer(template, dtype=np.uint8)
    for column, values, size in varying:
        for index in range(size):
            out[:, column + index] = _octets(values, index, size)
    return out.reshape(-1)


def _scattered(fields: Sequence[VarintField], size: Integers) -> Octets:
    ends = np.cumsum(size)
    out = np.empty(int(ends[-1]), dtype=np.uint8)
    position = ends - size
    for field in fields:
        if field.values is None:
            for index, octet in enumerate(encode_varint(field.low)):
                out[position + index] = octet
        elif isinstance(field.size, int):
            for index in range(field.size):
                out[position + index] = _octets(field.values, index, field.size)
        else:
            for bytes_count in np.unique(field.size).tolist():
                rows = np.flatnonzero(field.size == bytes_count)
                places, values = position[rows], field.values[rows]
                for index in range(bytes_count):
                    out[places + index] = _octets(values, index, bytes_count)
        position = position + field.size
    return out


def _octets(values: NDArray[np.uint64], index: int, size: int) -> Octets:
    """Give one byte of each varint of `size` bytes; its upper bit says whether more follow."""
    octets = (values >> np.uint64(7 * index) if index else values).astype(np.uint8)
    if index < size - 1:
        octets |= np.uint8(0x80)
    else:
        octets &= np.uint8(0x7F)
    return octets
