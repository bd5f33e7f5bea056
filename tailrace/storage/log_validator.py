"""What a batch must satisfy before a leader appends it, and the header fields the leader writes into it.

Lives here: the checks of a produced batch (magic, size, checksum, counts, control bit, sequence, keys on compacted
topics, timestamp limits) and the in-place assignment of offset, leader epoch and log-append time. Promises: records
are decoded only where the topic's settings ask for it, that is on a compacted topic, with a limit on how old a
timestamp may be, or to name the records when a limit is broken; otherwise the header and one checksum decide. Leaves
the sequence of a producer's batches to the producer state, and conversion of codecs and old formats to
`log_conversion`.
"""

from __future__ import annotations

from struct import Struct

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.checksum import crc32c
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    TimestampType,
    is_partial,
    magic_at,
    read_batch_header,
    set_max_timestamp_and_type,
)
from tailrace.protocol.records.reader import read_records
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.log_config import LogConfig
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.log_errors import RecordsRejected

NO_TIMESTAMP = -1
LONG_MAX = (1 << 63) - 1
CLIENT = AppendOrigin.CLIENT
"""By its own name: finding a member in its Enum takes 50 ns, and this is asked of every batch."""
_LOG_OVERHEAD = 12
_MAGIC = 2
_RECORD_ERRORS_SHOWN = 3
_ASSIGNED = Struct(">qii")
"""Base offset, length and leader epoch: what begins a batch, outside of its checksum."""


def read_leader_batch(
    records: Buffer, *, topic_partition: TopicPartition, config: LogConfig, origin: AppendOrigin
) -> BatchHeader:
    """Parse the one batch that a leader is given to append, and check what does not depend on the log's state.

    Bytes of an incomplete batch behind it are left out, as Kafka leaves them out.
    """
    try:
        header = read_batch_header(records)
    except MalformedFrame as error:
        raise _unreadable(records, topic_partition, error) from error
    size = header.batch_length + _LOG_OVERHEAD
    if size > config.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {topic_partition} is {size} bytes which exceeds the "
            f"maximum configured value of {config.max_message_bytes}.",
        )
    view = records if type(records) is memoryview else memoryview(records)
    if crc32c(view[ATTRIBUTES_OFFSET:size]) != header.crc:
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record is corrupt (stored crc = {header.crc}) in topic partition {topic_partition}.",
        )
    if size != len(records) and not is_partial(records, size):
        raise RecordsRejected(
            ErrorCode.INVALID_RECORD,
            f"A produce request holds exactly one record batch a partition, {topic_partition} got more.",
        )
    if origin is CLIENT and not (
        header.base_offset == 0
        and header.last_offset_delta + 1 == header.records_count > 0
        and not header.attributes & CONTROL_FLAG
        and (header.producer_id < 0 or header.base_sequence >= 0)
    ):
        raise RecordsRejected(ErrorCode.INVALID_RECORD, _client_fault(header, topic_partition))
    return header


def _unreadable(records: Buffer, topic_partition: TopicPartition, error: MalformedFrame) -> ApiError:
    """Say what is wrong with bytes that are no batch of today's format."""
    if is_partial(records, 0):
        return RecordsRejected(
            ErrorCode.INVALID_RECORD,
            f"A produce request holds exactly one record batch a partition, {topic_partition} got 0.",
        )
    magic = magic_at(records, 0)
    if magic < _MAGIC:
        return RecordsRejected(
            ErrorCode.INVALID_RECORD, f"Message format {magic} can't be appended as it is to {topic_partition}."
        )
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"{error} in topic partition {topic_partition}")


def _client_fault(header: BatchHeader, topic_partition: TopicPartition) -> str:
    """Say what no well-behaved producer sends; in Kafka's words, because clients show them to people."""
    if header.base_offset != 0:
        return (
            f"The baseOffset of the record batch in the append to {topic_partition} should be 0, "
            f"but it is {header.base_offset}"
        )
    if header.last_offset_delta < 0:
        return (
            f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}] "
            f"in topic partition {topic_partition}"
        )
    if header.records_count <= 0:
        return f"Invalid reported count for record batch: {header.records_count} in topic partition {topic_partition}"
    if header.records_count != header.last_offset_delta + 1:
        return (
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] "
            f"and count of records {header.records_count} in topic partition {topic_partition}"
        )
    if header.is_control:
        return f"Clients are not allowed to write control records in topic partition {topic_partition}"
    return (
        f"Invalid sequence number {header.base_sequence} in record batch with producerId "
        f"{header.producer_id} in topic partition {topic_partition}"
    )


def checks_records(config: LogConfig) -> bool:
    """Whether a topic's settings have `check_records` look at every batch, and not only at those of an odd time."""
    return (
        "compact" in config.cleanup_policy
        or config.message_timestamp_type != "CreateTime"
        or config.message_timestamp_before_max_ms < LONG_MAX
    )


def check_records(
    records: Buffer, header: BatchHeader, *, topic_partition: TopicPartition, config: LogConfig, now_ms: int
) -> None:
    """Check a client's batch against the topic's settings: keys where it is compacted, and timestamp limits."""
    is_compacted = "compact" in config.cleanup_policy
    has_wrong_type = needs_time_check = False
    if config.message_timestamp_type == "CreateTime":
        # Kafka takes a producer's mark of LogAppendTime where the topic does not use it and a timestamp is there.
        has_wrong_type = bool(header.attributes & LOG_APPEND_TIME_FLAG) and header.max_timestamp == NO_TIMESTAMP
        needs_time_check = (
            header.max_timestamp - now_ms > config.message_timestamp_after_max_ms
            # The header has no smallest timestamp: the first record need not be the oldest.
            or config.message_timestamp_before_max_ms < LONG_MAX
        )
    elif header.attributes & LOG_APPEND_TIME_FLAG:
        has_wrong_type = True
    if not (is_compacted or has_wrong_type or needs_time_check):
        return
    errors: list[tuple[int, str]] = []
    time_errors: list[tuple[int, str]] = []
    if has_wrong_type:
        time_errors = _wrong_timestamp_type(header, topic_partition)
    elif needs_time_check:
        time_errors = _timestamps_out_of_range(records, config, topic_partition, now_ms)
    if is_compacted:
        errors = _keyless_records(records, topic_partition)
    if time_errors:
        raise RecordsRejected(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            sorted(time_errors + errors),
        )
    if errors:
        shown = ", ".join(
            f"RecordError(batchIndex={index}, message='{message}')" for index, message in errors[:_RECORD_ERRORS_SHOWN]
        )
        raise RecordsRejected(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]",
            errors,
        )


def _timestamps_out_of_range(
    records: Buffer, config: LogConfig, topic_partition: TopicPartition, now_ms: int
) -> list[tuple[int, str]]:
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    errors: list[tuple[int, str]] = []
    try:
        for index, record in enumerate(read_records(records)):
            timestamp = record.timestamp
            if timestamp != NO_TIMESTAMP and (now_ms - timestamp > before or timestamp - now_ms > after):
                errors.append(
                    (
                        index,
                        f"Timestamp {timestamp} of message with offset {record.offset} is out of range. "
                        f"The timestamp should be within [{now_ms - before}, {now_ms + after}]",
                    )
                )
    except MalformedFrame as error:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, f"{error} in topic partition {topic_partition}") from error
    return errors


def _wrong_timestamp_type(header: BatchHeader, topic_partition: TopicPartition) -> list[tuple[int, str]]:
    message = (
        f"Invalid timestamp type in message of {topic_partition}. "
        "Producer should not set timestamp type to LogAppendTime."
    )
    return [(index, message) for index in range(header.records_count)]


def _keyless_records(records: Buffer, topic_partition: TopicPartition) -> list[tuple[int, str]]:
    message = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
    try:
        return [(index, message) for index, record in enumerate(read_records(records)) if record.key is None]
    except MalformedFrame as error:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, f"{error} in topic partition {topic_partition}") from error


def assign(records: Buffer, header: BatchHeader, *, offset: int, leader_epoch: int, log_append_time_ms: int) -> None:
    """Write offset, leader epoch and, unless it is -1, log-append time into the batch and its header."""
    _ASSIGNED.pack_into(records, 0, offset, header.batch_length, leader_epoch)
    header.base_offset = offset
    header.partition_leader_epoch = leader_epoch
    if log_append_time_ms != NO_TIMESTAMP:
        set_max_timestamp_and_type(
            records, 0, max_timestamp=log_append_time_ms, timestamp_type=TimestampType.LOG_APPEND_TIME
        )
        header.max_timestamp = log_append_time_ms
        header.attributes |= LOG_APPEND_TIME_FLAG
