"""LZ4 as Kafka frames it: the standard frame with independent blocks of 64 KB and no checksums but the header's.

    04 22 4D 18 | FLG: version 01, independent, block checksums, content size, content checksum | BD: block size
    | content size u64, if FLG says so | HC: second byte of xxHash32 of the descriptor
    | { size u32, high bit: stored as it is | bytes | checksum, if FLG says so }* | 0 u32 | content checksum, ditto

Apache Kafka's reader refuses frames whose blocks depend on each other, which is what cramjam's own `lz4.compress`
writes; so the frame is put together here, from independent blocks. Reading is more lenient: any other frame goes to
cramjam, once its blocks are known not to stand for more than is allowed. All integers are little-endian.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import cramjam

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.records.corrupt import CorruptStream

MAGIC: Final = b"\x04\x22\x4d\x18"
_PLAIN_FLAGS: Final = 0x60
"""Version 1, independent blocks, nothing else."""
_HEADER: Final = MAGIC + b"\x60\x40\x82"
_BLOCK_BYTES: Final = 64 * 1024
_BLOCK_BYTES_BY_CODE: Final = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_FAST_LEVEL: Final = 9
_STORED: Final = 0x80000000
_BLOCK_CHECKSUM: Final = 0x10
_CONTENT_SIZE: Final = 0x08
_MASK: Final = 0xFFFFFFFF
_uint32 = Struct("<I")


def compress(data: Buffer, *, level: int | None = None) -> bytes:
    """Compress in independent blocks.

    A level (1-17) chooses high compression, except 9, Kafka's default, which stands for the fast one.
    """
    if level is not None and level != _FAST_LEVEL:
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    view = memoryview(data)
    pieces: list[bytes] = [_HEADER]
    for start in range(0, len(view), _BLOCK_BYTES):
        block = view[start : start + _BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            pieces.append(_uint32.pack(len(packed)))
            pieces.append(packed)
        else:
            pieces.append(_uint32.pack(len(block) | _STORED))
            pieces.append(bytes(block))
    pieces.append(b"\x00\x00\x00\x00")
    return b"".join(pieces)


def decompress(data: Buffer, *, bytes_max: int, allow_broken_checksum: bool = False) -> bytes:
    """Decompress one frame."""
    view = memoryview(data)
    flags, block_bytes, descriptor_end = _read_descriptor(view, allow_broken_checksum)
    blocks = _find_blocks(view, descriptor_end, block_bytes, checksums=bool(flags & _BLOCK_CHECKSUM))
    bound = sum(size & ~_STORED if size & _STORED else block_bytes for _, size in blocks)
    if flags & ~_CONTENT_SIZE == _PLAIN_FLAGS:
        return _decompress_blocks(view, blocks, block_bytes, bytes_max)
    if bound > bytes_max + block_bytes:
        raise CorruptStream(f"its blocks can stand for {bound} bytes, where {bytes_max} are allowed")
    frame = view
    if allow_broken_checksum:
        mended = bytearray(view)
        mended[descriptor_end - 1] = _header_checksum(bytes(view[4 : descriptor_end - 1]))
        frame = memoryview(mended)
    result = bytes(cramjam.lz4.decompress(frame))
    if len(result) > bytes_max:
        raise CorruptStream(f"it stands for {len(result)} bytes, where {bytes_max} are allowed")
    return result


def _read_descriptor(view: memoryview, allow_broken_checksum: bool) -> tuple[int, int, int]:
    """Give the flags, the size of a block, and where the first block begins."""
    if len(view) < 7 or bytes(view[:4]) != MAGIC:
        raise CorruptStream("it does not begin with an LZ4 frame's header")
    flags, block_descriptor = view[4], view[5]
    if flags >> 6 != 1 or flags & 0x03:
        raise CorruptStream(f"an LZ4 frame of another version, or with a dictionary: FLG {flags:#04x}")
    if block_descriptor & 0x8F or block_descriptor >> 4 not in _BLOCK_BYTES_BY_CODE:
        raise CorruptStream(f"no such block size: BD {block_descriptor:#04x}")
    end = 14 if flags & _CONTENT_SIZE else 6
    if len(view) <= end:
        raise CorruptStream("the frame's header is cut off")
    checksum = view[end]
    if checksum != _header_checksum(bytes(view[4:end])) and not (
        allow_broken_checksum and checksum == _header_checksum(bytes(view[:end]))
    ):
        raise CorruptStream("the header's checksum does not match")
    return flags, _BLOCK_BYTES_BY_CODE[block_descriptor >> 4], end + 1


def _find_blocks(view: memoryview, position: int, block_bytes: int, *, checksums: bool) -> list[tuple[int, int]]:
    """Give the position of each block's bytes, and its size word."""
    blocks: list[tuple[int, int]] = []
    end = len(view)
    while True:
        if position + 4 > end:
            raise CorruptStream("the frame is cut off")
        size: int = _uint32.unpack_from(view, position)[0]
        position += 4
        if size == 0:
            return blocks
        length = size & ~_STORED
        if length > block_bytes or length > end - position:
            raise CorruptStream(f"a block of {length} bytes, where {min(block_bytes, end - position)} are possible")
        blocks.append((position, size))
        position += length + 4 if checksums else length


def _decompress_blocks(view: memoryview, blocks: list[tuple[int, int]], block_bytes: int, bytes_max: int) -> bytes:
    """Decompress independent blocks one by one."""
    pieces: list[bytes] = []
    output = bytearray(block_bytes)
    for position, size in blocks:
        block = view[position : position + (size & ~_STORED)]
        if size & _STORED:
            piece = bytes(block)
        else:
            length = cramjam.lz4.decompress_block_into(block, output, output_len=block_bytes)
            piece = bytes(memoryview(output)[:length])
        bytes_max -= len(piece)
        if bytes_max < 0:
            raise CorruptStream("it stands for more bytes than are allowed")
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _header_checksum(descriptor: bytes) -> int:
    """Give the second byte of xxHash32, which is what the frame keeps of it."""
    known = _CHECKSUMS.get(descriptor)
    return known if known is not None else _xxhash32(descriptor) >> 8 & 0xFF


def _xxhash32(data: bytes) -> int:
    """XxHash32 with seed 0 of the few bytes of a header."""
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    position, end = 0, len(data)
    if end >= 16:
        lanes = [(prime1 + prime2) & _MASK, prime2, 0, -prime1 & _MASK]
        while position + 16 <= end:
            for lane in range(4):
                word: int = _uint32.unpack_from(data, position)[0]
                lanes[lane] = _rotate((lanes[lane] + word * prime2) & _MASK, 13) * prime1 & _MASK
                position += 4
        total = sum(_rotate(value, turn) for value, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    else:
        total = prime5
    total = (total + end) & _MASK
    while position + 4 <= end:
        total = _rotate((total + _uint32.unpack_from(data, position)[0] * prime3) & _MASK, 17) * prime4 & _MASK
        position += 4
    while position < end:
        total = _rotate((total + data[position] * prime5) & _MASK, 11) * prime1 & _MASK
        position += 1
    total = (total ^ total >> 15) * prime2 & _MASK
    total = (total ^ total >> 13) * prime3 & _MASK
    return total ^ total >> 16


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK


_CHECKSUMS: Final = {b"\x60\x40": 0x82}
"""The header that nearly everybody writes; hashing in Python costs more than decompressing a small batch."""
