"""Snappy as Kafka frames it: the blocks of Xerial's SnappyOutputStream.

    82 'SNAPPY' 00 | version i32 = 1 | compatible version i32 = 1 | { length i32 | raw snappy }*

Kafka's Java clients write blocks of 32 KB. Some other clients write one raw snappy block without any frame, and
readers accept that too.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import cramjam

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.records.corrupt import CorruptStream

MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_BLOCK_BYTES: Final = 32 * 1024
_length = Struct(">i")


def compress(data: Buffer) -> bytes:
    """Compress in blocks of 32 KB."""
    view = memoryview(data)
    pieces: list[bytes] = [_HEADER]
    for start in range(0, len(view), _BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _BLOCK_BYTES]))
        pieces.append(_length.pack(len(block)))
        pieces.append(block)
    return b"".join(pieces)


def decompress(data: Buffer, *, bytes_max: int) -> bytes:
    """Decompress the framed blocks, or the one raw block."""
    view = memoryview(data)
    if bytes(view[: len(MAGIC)]) != MAGIC:
        return _decompress_block(view, bytes_max)
    if len(view) < len(_HEADER):
        raise CorruptStream("the frame's header is cut off")
    pieces: list[bytes] = []
    position = len(_HEADER)
    end = len(view)
    while position < end:
        if position + 4 > end:
            raise CorruptStream("a block's length is cut off")
        length: int = _length.unpack_from(view, position)[0]
        position += 4
        if not 0 < length <= end - position:
            raise CorruptStream(f"a block of {length} bytes, where {end - position} are left")
        piece = _decompress_block(view[position : position + length], bytes_max)
        bytes_max -= len(piece)
        pieces.append(piece)
        position += length
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decompress_block(block: memoryview, bytes_max: int) -> bytes:
    """Decompress a raw block, whose first bytes say what it becomes."""
    length: int = cramjam.snappy.decompress_raw_len(block)
    if length > bytes_max:
        raise CorruptStream(f"a block stands for {length} bytes, where {bytes_max} are allowed")
    return bytes(cramjam.snappy.decompress_raw(block))
