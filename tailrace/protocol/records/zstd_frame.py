"""Zstandard frames: how much they can stand for, known before they are decompressed.

    28 B5 2F FD | descriptor u8 | window u8, unless single segment | dictionary id | content size
    | { block header u24: last 0, type 1-2 (raw, RLE, compressed), size 3-23 | bytes }* | checksum u32, if flagged

A compressed block becomes 128 KB at most, the other two say what they become. Where the sum is within the limit the
stream is decompressed at once; where it is above (a writer that was flushed after every record) into a buffer of the
limit's size, whose pages the system gives as they are written.
"""

from __future__ import annotations

import mmap
from typing import Final

import cramjam

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.records.corrupt import CorruptStream

MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = b"\x2a\x4d\x18"
"""The last three bytes of a skippable frame's magic; the first is 50 to 5F."""
_BLOCK_BYTES_MAX: Final = 128 * 1024
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
_DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)


def decompress(data: Buffer, *, bytes_max: int) -> bytes:
    """Decompress every frame of `data`."""
    view = memoryview(data)
    position, bound = 0, 0
    while position < len(view):
        position, frame_bound = _measure_frame(view, position, bytes_max)
        bound += frame_bound
    if bound <= bytes_max:
        return bytes(cramjam.zstd.decompress(view))
    return _decompress_bounded(view, bytes_max)


def _decompress_bounded(view: memoryview, bytes_max: int) -> bytes:
    """Decompress into anonymous memory of the limit's size: what is not written costs nothing."""
    with mmap.mmap(-1, bytes_max + 1) as output:
        length: int = cramjam.zstd.decompress_into(view, output)
        if length > bytes_max:
            raise CorruptStream(f"it stands for more than the {bytes_max} bytes that are allowed")
        return output[:length]


def _measure_frame(view: memoryview, position: int, bytes_max: int) -> tuple[int, int]:
    """Give the end of the frame at `position` and the most it can stand for."""
    magic = bytes(view[position : position + 4])
    if magic[1:] == _SKIPPABLE and magic[0] >> 4 == 5:
        end = position + 8 + int.from_bytes(view[position + 4 : position + 8], "little")
        if end > len(view):
            raise CorruptStream("a skippable frame is cut off")
        return end, 0
    if magic != MAGIC or position + 5 > len(view):
        raise CorruptStream("it is no Zstandard frame")
    descriptor = view[position + 4]
    single_segment = descriptor >> 5 & 1
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6] or single_segment
    blocks = position + 5 + (1 - single_segment) + _DICTIONARY_ID_BYTES[descriptor & 3]
    if size_bytes:
        content = int.from_bytes(view[blocks : blocks + size_bytes], "little") + (256 if size_bytes == 2 else 0)
        if content > bytes_max:
            raise CorruptStream(f"it stands for {content} bytes, where {bytes_max} are allowed")
    end, bound = _measure_blocks(view, blocks + size_bytes)
    return end + (4 if descriptor & 4 else 0), bound


def _measure_blocks(view: memoryview, position: int) -> tuple[int, int]:
    """Give the end of a frame's blocks and the most they can stand for."""
    bound, end = 0, len(view)
    while True:
        if position + 3 > end:
            raise CorruptStream("the frame is cut off")
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        kind, size = header >> 1 & 3, header >> 3
        position += 3 + (1 if kind == 1 else size)
        bound += _BLOCK_BYTES_MAX if kind == 2 else size
        if header & 1:
            return position, bound
