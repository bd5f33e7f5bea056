"""Unsigned varints, as flexible versions use them for lengths, counts and tags: seven bits a byte, lowest first.

At most five bytes and at most 2^32 - 1. The compiled codec reads and writes the usual one-byte varint in place and
calls here for a longer one. (The signed, zigzag varints of records are in `records.varint`.)
"""

from __future__ import annotations

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.errors import MalformedFrame

SHORT_VARINTS = tuple(bytes((value,)) for value in range(128))
"""The varints of one byte."""


def unsigned_varint(value: int) -> bytes:
    """Write a value of 0 to 2^32 - 1."""
    if value < 128:
        return SHORT_VARINTS[value]
    if value < 16384:
        return bytes((value & 127 | 128, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Give the value and the position behind it; IndexError where the buffer ends before the varint does."""
    first = buffer[position]
    return (first, position + 1) if first < 128 else finish_unsigned_varint(buffer, position + 1, first)


def finish_unsigned_varint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Go on after a first byte that said there is more."""
    byte = buffer[position]
    if byte < 128:
        return first & 127 | byte << 7, position + 1  # two bytes: nearly every record batch's length
    value = first & 127 | (byte & 127) << 7
    for shift in (14, 21, 28):
        position += 1
        byte = buffer[position]
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, position + 1
    raise MalformedFrame("a varint of more than 32 bits")
