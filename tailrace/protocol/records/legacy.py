"""Messages of before Kafka 0.11: magic 0 and 1, alone or compressed in sets.

    offset i64 | size i32 | CRC-32 u32 | magic i8 | attributes i8 | timestamp i64, magic 1 only
    | key: length i32 (-1 null), bytes | value: length i32 (-1 null), bytes

The CRC covers everything behind itself. A message whose attributes name a codec is a wrapper: its value is a set of
messages of the same magic, compressed. Inside a wrapper of magic 0 offsets are absolute; inside one of magic 1 they
count up from where the set began, and the wrapper has the offset of the last. Only reading is here: nothing writes
these formats any more, neither Kafka 4 nor Tailrace.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.compression import Compression, decompress
from tailrace.protocol.records.record import Record

_COMPRESSION_MASK: Final = 0x07
_LOG_APPEND_TIME_FLAG: Final = 0x08
_KEY_OFFSET: Final = (18, 26)
"""Where the key begins, by magic."""
_SIZE_MIN: Final = (14, 22)
"""What `size` counts of a message without key and value, by magic."""
_NO_TIMESTAMP: Final = -1
_head = Struct(">qiIbB")
_int32 = Struct(">i")
_int64 = Struct(">q")
_CODECS: Final = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)


def message_attributes(buffer: Buffer, position: int) -> int:
    """Give the attributes of the message at `position`."""
    return buffer[position + 17]


def message_codec(buffer: Buffer, position: int) -> Compression:
    """Give the codec of the message at `position`: NONE unless it is a wrapper."""
    codec = buffer[position + 17] & _COMPRESSION_MASK
    if codec >= len(_CODECS):
        raise _corrupt(buffer, position, f"no such codec for this magic: {codec}")
    return _CODECS[codec]


def read_message(
    buffer: Buffer, position: int, *, check_crcs: bool = True, decompressed_bytes_max: int
) -> list[Record]:
    """Give the record of the message at `position`, or all the records that it wraps."""
    offset, size, crc, magic, attributes = _read_head(buffer, position)
    end = position + 12 + size
    if check_crcs and zlib.crc32(memoryview(buffer)[position + 16 : end]) != crc:
        raise _corrupt(buffer, position, f"its CRC-32 is not the {crc:#010x} it was written with")
    timestamp: int = _int64.unpack_from(buffer, position + 18)[0] if magic else _NO_TIMESTAMP
    key, value = _read_key_and_value(buffer, position, position + _KEY_OFFSET[magic], end)
    codec = message_codec(buffer, position)
    if codec is Compression.NONE:
        return [Record(offset, timestamp, key, value)]
    if value is None:
        raise _corrupt(buffer, position, "it has a codec and no value")
    wrapped = decompress(codec, value, bytes_max=decompressed_bytes_max, allow_broken_lz4_checksum=magic == 0)
    records = _read_wrapped(wrapped, magic)
    if not records:
        raise _corrupt(buffer, position, "it wraps no message")
    if magic:
        if not _place(records, offset):
            raise _corrupt(buffer, position, f"below the offset {records[-1].offset} of the last message it wraps")
        if attributes & _LOG_APPEND_TIME_FLAG:
            for record in records:
                record.timestamp = timestamp
    return records


def _read_wrapped(data: bytes, magic: int) -> list[Record]:
    """Read the messages of a decompressed set; their CRCs are covered by the wrapper's."""
    records: list[Record] = []
    position, end = 0, len(data)
    while position < end:
        offset, size, _, inner_magic, attributes = _read_inner_head(data, position)
        if inner_magic != magic:
            raise _corrupt(data, position, f"magic {inner_magic} in a wrapper of magic {magic}")
        if attributes & _COMPRESSION_MASK:
            raise _corrupt(data, position, "a wrapper in a wrapper")
        timestamp: int = _int64.unpack_from(data, position + 18)[0] if magic else _NO_TIMESTAMP
        key, value = _read_key_and_value(data, position, position + _KEY_OFFSET[magic], position + 12 + size)
        records.append(Record(offset, timestamp, key, value))
        position += 12 + size
    return records


def _place(records: list[Record], wrapper_offset: int) -> bool:
    """Turn relative offsets into absolute ones: the wrapper's is the last message's, or 0 as some producers send it."""
    base_offset = wrapper_offset - records[-1].offset
    if base_offset < 0 and wrapper_offset != 0:
        return False
    for record in records:
        record.offset += max(base_offset, 0)
    return True


def _read_inner_head(data: bytes, position: int) -> tuple[int, int, int, int, int]:
    """Read a head inside a wrapper, where wrong lengths are the wrapper's corruption and not the frame's."""
    try:
        return _read_head(data, position)
    except MalformedFrame as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"in a wrapper: {error}") from error


def _read_head(buffer: Buffer, position: int) -> tuple[int, int, int, int, int]:
    """Give offset, size, CRC, magic and attributes of a message; MalformedFrame if none can be there."""
    available = len(buffer) - position
    if available < _head.size:
        raise MalformedFrame(f"{available} bytes at position {position} are too few for a message")
    offset, size, crc, magic, attributes = _head.unpack_from(buffer, position)
    if magic not in (0, 1):
        raise MalformedFrame(f"magic {magic} at position {position}, where a message of magic 0 or 1 was expected")
    if not _SIZE_MIN[magic] <= size <= available - 12:
        raise MalformedFrame(
            f"message size {size} at position {position}: "
            f"at least {_SIZE_MIN[magic]} is possible, at most {available - 12} is there"
        )
    return offset, size, crc, magic, attributes


def _read_key_and_value(buffer: Buffer, position: int, key: int, end: int) -> tuple[bytes | None, bytes | None]:
    """Read key and value, which have to end where the message ends."""
    key_bytes, value = _read_bytes(buffer, position, key, end)
    value_bytes, last = _read_bytes(buffer, position, value, end)
    if last != end:
        raise _corrupt(buffer, position, f"key and value end {end - last} bytes before the message does")
    return key_bytes, value_bytes


def _read_bytes(buffer: Buffer, position: int, start: int, end: int) -> tuple[bytes | None, int]:
    """Read a nullable field at `start`; give it and the position behind it."""
    if start + 4 > end:
        raise _corrupt(buffer, position, "a field's length is cut off")
    length: int = _int32.unpack_from(buffer, start)[0]
    start += 4
    if length == -1:
        return None, start
    if not 0 <= length <= end - start:
        raise _corrupt(buffer, position, f"a field of {length} bytes, where {end - start} are left")
    return bytes(buffer[start : start + length]), start + length


def _corrupt(buffer: Buffer, position: int, reason: str) -> ApiError:
    offset: int = _int64.unpack_from(buffer, position)[0]
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"message at offset {offset}: {reason}")
