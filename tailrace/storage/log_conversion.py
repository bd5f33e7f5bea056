"""Making of produced records what the topic wants to store: another codec, or today's format of an old one.

Lives here: when a conversion is needed, and the conversion, which decodes every record and makes one new batch that
keeps producer id, epoch, sequence and the transactional mark. Promises to touch nothing but its arguments, so it runs
on a thread. Leaves the checks of the result to `log_validator`.
"""

from __future__ import annotations

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.records.batch_header import (
    COMPRESSION_MASK,
    BatchHeader,
    TimestampType,
    check_crc,
    read_batch_header,
)
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.reader import read_batch, read_records
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
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
    """Give the records as one batch of format 2 in the topic's codec."""
    try:
        if records[_MAGIC_AT] in (0, 1):
            return _upgrade(list(read_records(records)), config, _old_codec(records))
        header = read_batch_header(records)
        check_crc(records, 0, header)
        if header.size != len(records):
            raise MalformedFrame(f"one record batch of {header.size} bytes was expected, not {len(records)} bytes")
        return _recompress(records, header, config)
    except MalformedFrame as error:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, f"{error} in topic partition {topic_partition}") from error


def _recompress(records: Buffer, header: BatchHeader, config: LogConfig) -> bytearray:
    codec = _CODECS.get(config.compression_type, header.compression)
    return write_batch(
        read_batch(records, 0, header, stored_timestamps=True),
        base_offset=header.base_offset,
        compression=codec,
        level=_level(codec, config),
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )


def _upgrade(records: list[Record], config: LogConfig, codec: Compression) -> bytearray:
    """Make messages of format 0 or 1 a batch; their offsets were the producer's guess and are counted from 0."""
    for offset, record in enumerate(records):
        record.offset = offset
    wanted = _CODECS.get(config.compression_type, codec)
    return write_batch(
        records, compression=wanted, level=_level(wanted, config), timestamp_type=TimestampType.CREATE_TIME
    )


def _old_codec(records: Buffer) -> Compression:
    number = records[_MAGIC_AT + 1] & COMPRESSION_MASK
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
