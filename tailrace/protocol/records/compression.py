"""The codecs of record batches, in the framings Kafka gives them, and never more memory than the caller allows.

`compress` makes what Apache Kafka's readers accept; `decompress` reads that and what other clients write. A codec's
output is bounded before it is made: from the lengths in the stream where it has them, else by a buffer of fixed size.
Whatever is wrong with the bytes is ApiError(CORRUPT_MESSAGE). The framings themselves are in `lz4_frame`,
`snappy_blocks` and `zstd_frame`.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Final

import cramjam

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records import lz4_frame, snappy_blocks, zstd_frame
from tailrace.protocol.records.corrupt import CorruptStream

DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024
"""What one batch may become by default. Kafka has no such limit; a megabyte of zstd can stand for 30 GB of zeros."""

_GZIP_WINDOW: Final = 31
"""zlib's code for a 32 KB window in a gzip envelope."""
_GZIP_LEVEL_DEFAULT: Final = 6
_ZSTD_LEVEL_DEFAULT: Final = 3


class Compression(IntEnum):
    """A codec, by its number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name as `compression.type` spells it."""
        return self.name.lower()

    @classmethod
    def parse(cls, label: str) -> Compression:
        """Find a codec by its name; ValueError lists what there is."""
        for member in cls:
            if member.label == label:
                return member
        raise ValueError(f"no such compression: {label!r}; there are {', '.join(member.label for member in cls)}")


def compress(codec: Compression, data: Buffer, *, level: int | None = None) -> Buffer:
    """Compress `data` into one stream; `level` is the codec's own, and only gzip, lz4 and zstd have any."""
    if codec is Compression.NONE:
        return data
    if codec is Compression.GZIP:
        deflate = zlib.compressobj(_GZIP_LEVEL_DEFAULT if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
        return deflate.compress(data) + deflate.flush()
    if codec is Compression.SNAPPY:
        return snappy_blocks.compress(data)
    if codec is Compression.LZ4:
        return lz4_frame.compress(data, level=level)
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL_DEFAULT if level is None else level))


def decompress(
    codec: Compression,
    data: Buffer,
    *,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
    allow_broken_lz4_checksum: bool = False,
) -> bytes:
    """Give back what was compressed; CORRUPT_MESSAGE where it is no such stream or stands for more than `bytes_max`.

    Clients of before Kafka 0.10 took the checksum of an LZ4 frame's header over the wrong bytes (KAFKA-3160); with
    `allow_broken_lz4_checksum`, for messages of magic 0, both are accepted.
    """
    try:
        if codec is Compression.NONE:
            return bytes(data)
        if codec is Compression.GZIP:
            return _gunzip(data, bytes_max)
        if codec is Compression.SNAPPY:
            return snappy_blocks.decompress(data, bytes_max=bytes_max)
        if codec is Compression.LZ4:
            return lz4_frame.decompress(data, bytes_max=bytes_max, allow_broken_checksum=allow_broken_lz4_checksum)
        return zstd_frame.decompress(data, bytes_max=bytes_max)
    except (CorruptStream, cramjam.DecompressionError, zlib.error) as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{len(data)} bytes of {codec.label}: {error}") from error


def _gunzip(data: Buffer, bytes_max: int) -> bytes:
    """Inflate every member of a gzip stream; a writer that was flushed may have begun a new one."""
    pieces: list[bytes] = []
    total = 0
    rest: Buffer = data
    while True:
        inflate = zlib.decompressobj(_GZIP_WINDOW)
        piece = inflate.decompress(rest, bytes_max - total + 1)
        total += len(piece)
        if total > bytes_max:
            raise CorruptStream(f"it stands for more than the {bytes_max} bytes that are allowed")
        if not inflate.eof:
            raise CorruptStream("the stream is cut off")
        pieces.append(piece)
        rest = inflate.unused_data
        if not rest:
            return piece if len(pieces) == 1 else b"".join(pieces)
