"""Making of produced records what the topic wants to store: another codec, or today's format of an old one.

Lives here: when a conversion is needed, and into what. The conversion itself decodes every record, within a bound for
all of them, and is `protocol.records.conversion`'s. Promises to touch nothing but its arguments, so it runs on a
thread. Leaves the checks of the result to `log_validator`.
"""

from __future__ import annotations

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.records.batch_header import (
    COMPRESSION_MASK,
    TimestampType,
    read_batch_header,
)
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.conversion import convert_records
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.log_config import LogConfig
from tailrace.storage.log_errors import RecordsRejected

_MAGIC_AT = 16
_ATTRIBUTES_AT = 22
_CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def needs_conversion(records: Buffer, config: LogConfig) -> bool:
    """Whether the records can't be stored as they came. What is no batch at all is left to the append's checks."""
    if len(records) <= _ATTRIBUTES_AT:
        return False
    if records[_MAGIC_AT] in (0, 1):
        return True
    wanted = _CODECS.get(config.compression_type)  # None for "producer": the codec they came in
    return wanted is not None and records[_ATTRIBUTES_AT] & COMPRESSION_MASK != wanted


def convert(records: Buffer, config: LogConfig, topic_partition: TopicPartition) -> bytearray:
    """Give the records as one batch of format 2 in the topic's codec; old offsets are counted anew from 0."""
    is_old = records[_MAGIC_AT] in (0, 1)
    timestamp_type = TimestampType.CREATE_TIME
    codec = _codec(records, config)
    try:
        if not is_old:
            header = read_batch_header(records)
            timestamp_type = header.timestamp_type
            if header.size != len(records):
                raise MalformedFrame(f"one record batch of {header.size} bytes was expected, not {len(records)} bytes")
        return convert_records(
            records,
            compression=codec,
            level=_level(codec, config),
            timestamp_type=timestamp_type,
            keep_offsets=not is_old,
        )
    except MalformedFrame as error:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, f"{error} in topic partition {topic_partition}") from error


def _codec(records: Buffer, config: LogConfig) -> Compression:
    """Give the topic's codec, or the one the records came in; an unknown one is left to the reading of them."""
    wanted = _CODECS.get(config.compression_type)
    if wanted is not None:
        return wanted
    attributes = records[_MAGIC_AT + 1] if records[_MAGIC_AT] in (0, 1) else records[_ATTRIBUTES_AT]
    number = attributes & COMPRESSION_MASK
    return Compression(number) if number in _KNOWN else Compression.NONE


def _level(codec: Compression, config: LogConfig) -> int | None:
    """Give the level that the topic sets for a codec; None where the codec has none or the library's own is wanted."""
    if codec is Compression.GZIP:
        return None if config.compression_gzip_level < 0 else config.compression_gzip_level
    if codec is Compression.LZ4:
        return config.compression_lz4_level
    if codec is Compression.ZSTD:
        return config.compression_zstd_level
    return None


_KNOWN = frozenset(Compression)
