"""The header of a record batch (magic 2): read, walked over, checked and patched in place, without reading a record.

The header is all a broker needs of a batch on its way from a producer to the log and on to a consumer. Reading it
allocates one object. Where the bytes cannot be a batch, `MalformedFrame`; whether they are the bytes that were written
is `crc_matches`. What a header's values mean for a log (duplicates, epochs, limits) is for the storage layer.

    offset  0 base offset i64 | 8 length of what follows i32 | 12 leader epoch i32 | 16 magic i8 | 17 CRC-32C u32
           21 attributes u16: codec 0-2, log append time 3, transactional 4, control 5, delete horizon 6
           23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64
           51 producer epoch i16 | 53 base sequence i32 | 57 record count i32 | 61 records

The CRC covers everything from the attributes on, so base offset and leader epoch are assigned without a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.checksum import crc32c
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.compression import Compression

HEADER_SIZE: Final = 61
LENGTH_END: Final = 12
"""Bytes of base offset and length, which `batch_length` does not count."""
MAGIC_OFFSET: Final = 16
"""Where the magic is, in all three formats."""
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21
LENGTH_MIN: Final = HEADER_SIZE - LENGTH_END

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1

HEADER: Final = Struct(">qiibIHiqqqhii")
_COMPRESSIONS: Final = tuple(Compression)
_INT32_MASK: Final = 0x7FFFFFFF
_int64 = Struct(">q")
_int32 = Struct(">i")
_uint32 = Struct(">I")
_uint16 = Struct(">H")
_producer = Struct(">qhi")


class TimestampType(IntEnum):
    """Who set a record's timestamp; the members' `label` is Kafka's word for it."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """The name as `message.timestamp.type` and Kafka's tools spell it."""
        return {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}[self.value]


@dataclass(slots=True)
class BatchHeader:
    """What a batch says about itself. A snapshot: patching the bytes does not change it."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> int:
        """The offset of the last record the batch had when it was written."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The base offset of a batch that follows without a gap."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; sequences go round from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _INT32_MASK

    @property
    def compression(self) -> Compression:
        """The codec of the records; ApiError where the bits name none."""
        codec = self.attributes & COMPRESSION_MASK
        if codec >= len(_COMPRESSIONS):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {self.base_offset}: no such codec: {codec}")
        return _COMPRESSIONS[codec]

    @property
    def is_compressed(self) -> bool:
        """Whether the records are compressed."""
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        """Whether its records are markers that consumers do not see."""
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent producer wrote it."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps."""
        if self.attributes & LOG_APPEND_TIME_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time after which tombstones and markers in it may go (KIP-534)."""
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The delete horizon, where the batch has one."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


def read_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch (magic 2) that begins at `position`; MalformedFrame if none can begin there."""
    available = len(buffer) - position
    if available < HEADER_SIZE:
        raise MalformedFrame(f"{available} bytes at position {position} are too few for a batch header")
    header = BatchHeader(*HEADER.unpack_from(buffer, position))
    if header.magic != 2:
        raise MalformedFrame(f"magic {header.magic} at position {position}, where a batch of magic 2 was expected")
    if not LENGTH_MIN <= header.batch_length <= available - LENGTH_END:
        raise MalformedFrame(
            f"batch length {header.batch_length} at position {position}: "
            f"at least {LENGTH_MIN} is possible, at most {available - LENGTH_END} is there"
        )
    return header


def iterate_batch_headers(
    buffer: Buffer, position: int = 0, *, allow_partial_tail: bool = False
) -> Iterator[tuple[int, BatchHeader]]:
    """Walk over the batches (magic 2) from `position` to the end, giving each one's position and header.

    With `allow_partial_tail` a last batch that is cut off ends the walk without an error, as at the end of a fetch.
    """
    end = len(buffer)
    while position < end:
        if allow_partial_tail and is_partial(buffer, position):
            return
        header = read_batch_header(buffer, position)
        yield position, header
        position += header.batch_length + LENGTH_END


def is_partial(buffer: Buffer, position: int) -> bool:
    """Whether the entry at `position`, of any magic, goes on behind the end of the buffer."""
    available = len(buffer) - position
    if available <= MAGIC_OFFSET:
        return True
    length: int = _int32.unpack_from(buffer, position + 8)[0]
    return length > available - LENGTH_END


def magic_at(buffer: Buffer, position: int) -> int:
    """Give the magic of the entry that begins at `position`: 0 and 1 are messages, 2 is a batch."""
    if len(buffer) - position <= MAGIC_OFFSET:
        raise MalformedFrame(f"{len(buffer) - position} bytes at position {position} are too few for a record batch")
    return buffer[position + MAGIC_OFFSET]


def crc_matches(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch holds the bytes its CRC-32C was taken of."""
    end = position + header.batch_length + LENGTH_END
    crc: int = crc32c(memoryview(buffer)[position + ATTRIBUTES_OFFSET : end])
    return crc == header.crc


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise CORRUPT_MESSAGE unless the CRC matches."""
    if not crc_matches(buffer, position, header):
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE,
            f"batch at offset {header.base_offset}: its CRC-32C is not the {header.crc:#010x} it was written with",
        )


def set_base_offset(buffer: Buffer, position: int, base_offset: int) -> None:
    """Assign the batch its offset, in place."""
    _int64.pack_into(buffer, position, base_offset)


def set_leader_epoch(buffer: Buffer, position: int, leader_epoch: int) -> None:
    """Write the epoch of the leader that appends the batch, in place."""
    _int32.pack_into(buffer, position + 12, leader_epoch)


def set_max_timestamp_and_type(
    buffer: Buffer, position: int, *, max_timestamp: int, timestamp_type: TimestampType
) -> None:
    """Write max timestamp and timestamp type in place, with a new CRC where they differ from what was there."""
    attributes: int = _uint16.unpack_from(buffer, position + ATTRIBUTES_OFFSET)[0]
    changed = attributes & ~LOG_APPEND_TIME_FLAG
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        changed |= LOG_APPEND_TIME_FLAG
    if changed == attributes and _int64.unpack_from(buffer, position + 35)[0] == max_timestamp:
        return
    _uint16.pack_into(buffer, position + ATTRIBUTES_OFFSET, changed)
    _int64.pack_into(buffer, position + 35, max_timestamp)
    update_crc(buffer, position)


def set_producer(
    buffer: Buffer, position: int, *, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool
) -> None:
    """Write who produces the batch, in place, with a new CRC."""
    attributes: int = _uint16.unpack_from(buffer, position + ATTRIBUTES_OFFSET)[0]
    changed = attributes | TRANSACTIONAL_FLAG if transactional else attributes & ~TRANSACTIONAL_FLAG
    _uint16.pack_into(buffer, position + ATTRIBUTES_OFFSET, changed)
    _producer.pack_into(buffer, position + 43, producer_id, producer_epoch, base_sequence)
    update_crc(buffer, position)


def update_crc(buffer: Buffer, position: int) -> None:
    """Take the CRC-32C of the batch anew after a change to what it covers."""
    end = position + LENGTH_END + _int32.unpack_from(buffer, position + 8)[0]
    _uint32.pack_into(buffer, position + CRC_OFFSET, crc32c(memoryview(buffer)[position + ATTRIBUTES_OFFSET : end]))
