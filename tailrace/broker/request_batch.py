"""The batch that a produce request carries for a partition: what its first bytes tell before any log is asked.

Kafka's brokers take exactly one batch of format 2 for each partition (Produce v3+). What else has to hold of it, its
checksum first of all, the log checks.
"""

from __future__ import annotations

from struct import Struct

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode

ZSTD_VERSION_FIRST = 7
NO_ERROR = ErrorCode.NONE

_HEAD = Struct(">8xi4xb4xh")
"""Length, magic and attributes; between them base offset, leader epoch and checksum."""
_LENGTH_AT = 8
_LENGTH_END = 12
_MAGIC_AT = 16
ATTRIBUTES_AT = 22
"""The lower byte of the attributes, where every flag is."""
_PRODUCER = Struct(">43xqhi")
"""Producer id, its epoch and the first record's sequence number."""
_PRODUCER_ID_AT = 43
_BATCH_OVERHEAD = 61
_BATCH_SIZE_MIN = 26
"""Offset, length and the 14 bytes without which no record of any format is one."""
_CODEC_MASK = 0x07
_ZSTD = 4
TRANSACTIONAL = 0x10


def check_request_batch(version: int, records: Buffer | None) -> ErrorCode:
    """Check that a partition was sent exactly one batch, of format 2, in a codec its version may use."""
    if records is None or len(records) < _HEAD.size:
        return ErrorCode.INVALID_RECORD if not _has_impossible_size(records) else ErrorCode.CORRUPT_MESSAGE
    length, magic, attributes = _HEAD.unpack_from(records)
    batch_size = _LENGTH_END + length
    if batch_size != len(records):
        if batch_size < _BATCH_SIZE_MIN:
            return ErrorCode.CORRUPT_MESSAGE
        if batch_size > len(records) or _has_second_batch(records, batch_size):
            return ErrorCode.INVALID_RECORD
    if magic != 2:
        return ErrorCode.INVALID_RECORD if 0 <= magic < 2 else ErrorCode.CORRUPT_MESSAGE
    if version < ZSTD_VERSION_FIRST and attributes & _CODEC_MASK == _ZSTD:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    return NO_ERROR


def is_transactional(records: Buffer | None) -> bool:
    """Whether the batch is part of a transaction; no for what is no batch."""
    return (
        records is not None
        and len(records) > ATTRIBUTES_AT
        and bool(records[ATTRIBUTES_AT] & TRANSACTIONAL)
        and records[_MAGIC_AT] == 2
    )


def has_producer_id(records: Buffer) -> bool:
    """Whether the batch comes from an idempotent producer."""
    return len(records) >= _BATCH_OVERHEAD and records[_PRODUCER_ID_AT] < 0x80


def producer_of(records: Buffer) -> tuple[int, int, int]:
    """Give producer id, epoch and first sequence number of a batch; -1 each where it has no producer id."""
    if len(records) < _BATCH_OVERHEAD:
        return -1, -1, -1
    producer_id, producer_epoch, sequence = _PRODUCER.unpack_from(records)
    return (producer_id, producer_epoch, sequence) if producer_id >= 0 else (-1, -1, -1)


def _has_impossible_size(records: Buffer | None) -> bool:
    if records is None or len(records) < _LENGTH_END:
        return False
    return _LENGTH_END + _length(records, 0) < _BATCH_SIZE_MIN


def _has_second_batch(records: Buffer, first_size: int) -> bool:
    """Say whether a whole batch follows the first; bytes that are none are ignored, as Kafka ignores them."""
    left = len(records) - first_size
    return left > _MAGIC_AT and _LENGTH_END + _length(records, first_size) <= left


def _length(records: Buffer, position: int) -> int:
    return int.from_bytes(records[position + _LENGTH_AT : position + _LENGTH_END], "big", signed=True)
