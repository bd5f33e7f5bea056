"""Walking over the batches of a segment's bytes, trusting nothing.

Lives here: the few header fields that searching and recovery need, for every message format that a log may hold; the
checksum of one batch; and the question that decides between a torn tail and damage: does a good batch follow the bad
one? Promises: a walk never leaves the given range and always moves forward. Leaves the full header to `batch_header`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from tailrace.protocol.checksum import crc32c

_START = Struct(">qiib")
_REST_V2 = Struct(">Ihiqq")
_CRC_AT_V0 = 12
_MAGIC_AT = 16
_CRC_FROM_V2 = 21
_OVERHEAD_V2 = 61
_OVERHEAD_V0 = 26
_OVERHEAD_V1 = 34
_TIMESTAMP_V1 = Struct(">q")
_TIMESTAMP_AT_V1 = 18
_PIECE_BYTES = 1 << 20
_ZEROS = bytes(_PIECE_BYTES)
NO_TIMESTAMP = -1


class BatchSpan(NamedTuple):
    """Where a batch lies and which offsets and times it covers. Below format 2 the first offset is not known."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int
    magic: int

    @property
    def end(self) -> int:
        """The position behind the batch."""
        return self.position + self.size


def read_span(view: memoryview, position: int, end: int) -> BatchSpan | None:
    """Read what lies at `position`; None where no whole batch with a possible header does."""
    if end - position < _OVERHEAD_V0:
        return None
    base_offset, length, leader_epoch, magic = _START.unpack_from(view, position)
    size = length + 12
    if base_offset < 0 or size > end - position:
        return None
    if magic == 2:
        if size < _OVERHEAD_V2:
            return None
        _, _, last_delta, _, max_timestamp = _REST_V2.unpack_from(view, position + 17)
        if last_delta < 0:
            return None
        return BatchSpan(position, size, base_offset, base_offset + last_delta, max_timestamp, leader_epoch, 2)
    if magic == 1 and size >= _OVERHEAD_V1:
        (timestamp,) = _TIMESTAMP_V1.unpack_from(view, position + _TIMESTAMP_AT_V1)
        return BatchSpan(position, size, base_offset, base_offset, timestamp, -1, 1)
    if magic == 0 and size >= _OVERHEAD_V0:
        return BatchSpan(position, size, base_offset, base_offset, NO_TIMESTAMP, -1, 0)
    return None


def batch_size(view: memoryview, position: int) -> int:
    """Give what the batch at `position` says of its size; something is known to begin there."""
    return int.from_bytes(view[position + 8 : position + 12], "big", signed=True) + 12


def walk(view: memoryview, position: int, end: int) -> Iterator[BatchSpan]:
    """Give the batches from `position` on; stop at the first bytes that can't be one."""
    while (span := read_span(view, position, end)) is not None:
        yield span
        position += span.size


def checksum_matches(view: memoryview, span: BatchSpan) -> bool:
    """Whether the bytes of the batch are those that its checksum was made of."""
    position, end = span.position, span.end
    if span.magic == 2:
        stored = int.from_bytes(view[position + 17 : position + _CRC_FROM_V2], "big")
        return crc32c(view[position + _CRC_FROM_V2 : end]) == stored
    stored = int.from_bytes(view[position + _CRC_AT_V0 : position + _MAGIC_AT], "big")
    return zlib.crc32(view[position + _MAGIC_AT : end]) == stored


def is_zero(view: memoryview, start: int, end: int) -> bool:
    """Whether the range holds only zeros, as preallocated space does."""
    for position in range(start, end, _PIECE_BYTES):
        size = min(_PIECE_BYTES, end - position)
        if bytes(view[position : position + size]) != (_ZEROS if size == _PIECE_BYTES else _ZEROS[:size]):
            return False
    return True


def find_valid_batch(view: memoryview, start: int, end: int, *, offset_min: int) -> BatchSpan | None:
    """Look for a whole batch with a right checksum and an offset from `offset_min` on, at any byte of the range.

    The offset's upper half is searched for as text, in C; what it finds by chance, the checksum tells apart.
    """
    upper_half = (offset_min >> 32).to_bytes(4, "big")
    pattern = re.compile(rb"(?=" + re.escape(upper_half) + rb".{4}(?!\x00{4}).{8}[\x00-\x02])", re.DOTALL)
    for match in pattern.finditer(view[:end], start):
        span = read_span(view, match.start(), end)
        if span is None or not offset_min <= span.last_offset <= offset_min + (1 << 31):
            continue
        if checksum_matches(view, span):
            return span
    return None
