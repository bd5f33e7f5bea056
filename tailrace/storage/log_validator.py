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
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.batch_header import (
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    TimestampType,
    crc_matches,
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
_LOG_OVERHEAD = 12
_MAGIC = 2
_RECORD_ERRORS_SHOWN = 3
_ASSIGNED = Struct(">qii")
"""Base offset, length and leader epoch: what begins a batch, outside of its checksum."""


def read_leader_batches(
    records: Buffer, *, topic_partition: TopicPartition, config: LogConfig, origin: AppendOrigin
) -> list[BatchHeader]:
    """Parse what a leader is given to append, and check everything that does not depend on the log's state.

    Bytes of an incomplete batch behind the last whole one are left out, as Kafka leaves them out.
    """
    headers: list[BatchHeader] = []
    position, total = 0, len(records)
    while position < total:
        header = _read_header(records, position, topic_partition)
        if header is None:
            break
        size = header.batch_length + _LOG_OVERHEAD
        if size > config.max_message_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"The record batch size in the append to {topic_partition} is {size} bytes which exceeds the "
                f"maximum configured value of {config.max_message_bytes}.",
            )
        if not crc_matches(records, position, header):
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Record is corrupt (stored crc = {header.crc}) in topic partition {topic_partition}.",
            )
        headers.append(header)
        position += size
    if origin is AppendOrigin.CLIENT:
        if len(headers) != 1:
            raise RecordsRejected(
                ErrorCode.INVALID_RECORD,
                f"A produce request holds exactly one record batch a partition, {topic_partition} got {len(headers)}.",
            )
        _check_client_batch(headers[0], topic_partition)
    return headers


def _read_header(records: Buffer, position: int, topic_partition: TopicPartition) -> BatchHeader | None:
    """Read the header at `position`; None where the batch goes on behind the end."""
    try:
        return read_batch_header(records, position)
    except MalformedFrame as error:
        if is_partial(records, position):
            return None
        if magic_at(records, position) < _MAGIC:
            raise RecordsRejected(
                ErrorCode.INVALID_RECORD,
                f"Message format {magic_at(records, position)} can't be appended as it is to {topic_partition}.",
            ) from error
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{error} in topic partition {topic_partition}") from error


def _check_client_batch(header: BatchHeader, topic_partition: TopicPartition) -> None:
    """Refuse what no well-behaved producer sends; Kafka's words, because clients show them to people."""
    if (
        header.base_offset == 0
        and header.last_offset_delta + 1 == header.records_count > 0
        and not header.attributes & CONTROL_FLAG
        and (header.producer_id < 0 or header.base_sequence >= 0)
    ):
        return
    problem = ""
    if header.base_offset != 0:
        problem = (
            f"The baseOffset of the record batch in the append to {topic_partition} should be 0, "
            f"but it is {header.base_offset}"
        )
    elif header.last_offset_delta < 0:
        problem = (
            f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}] "
            f"in topic partition {topic_partition}"
        )
    elif header.records_count <= 0:
        problem = (
            f"Invalid reported count for record batch: {header.records_count} in topic partition {topic_partition}"
        )
    elif header.records_count != header.last_offset_delta + 1:
        problem = (
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] "
            f"and count of records {header.records_count} in topic partition {topic_partition}"
        )
    elif header.is_control:
        problem = f"Clients are not allowed to write control records in topic partition {topic_partition}"
    elif header.producer_id >= 0 and header.base_sequence < 0:
        problem = (
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id} in topic partition {topic_partition}"
        )
    if problem:
        raise RecordsRejected(ErrorCode.INVALID_RECORD, problem)


def check_records(
    records: Buffer, header: BatchHeader, *, topic_partition: TopicPartition, config: LogConfig, now_ms: int
) -> None:
    """Check a client's batch against the topic's settings: keys where it is compacted, and timestamp limits."""
    is_compacted = "compact" in config.cleanup_policy
    takes_producer_time = config.message_timestamp_type == "CreateTime"
    has_wrong_type = bool(header.attributes & LOG_APPEND_TIME_FLAG) and (
        # Kafka takes a producer's mark of LogAppendTime where the topic does not use it and a timestamp is there.
        not takes_producer_time or header.max_timestamp == NO_TIMESTAMP
    )
    if (
        not is_compacted
        and not has_wrong_type
        and not (takes_producer_time and _timestamps_need_a_look(header, config, now_ms))
    ):
        return
    errors: list[tuple[int, str]] = []
    time_errors: list[tuple[int, str]] = []
    if has_wrong_type:
        time_errors = _wrong_timestamp_type(header, topic_partition)
    elif takes_producer_time and _timestamps_need_a_look(header, config, now_ms):
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


def _timestamps_need_a_look(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    if config.message_timestamp_before_max_ms < LONG_MAX:
        return True  # The header has no smallest timestamp: the first record need not be the oldest.
    return header.max_timestamp - now_ms > config.message_timestamp_after_max_ms


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


def assign(
    records: Buffer, headers: list[BatchHeader], *, offset: int, leader_epoch: int, log_append_time_ms: int
) -> None:
    """Write offset, leader epoch and, unless it is -1, log-append time into each batch and its header."""
    position = 0
    for header in headers:
        _ASSIGNED.pack_into(records, position, offset, header.batch_length, leader_epoch)
        header.base_offset = offset
        header.partition_leader_epoch = leader_epoch
        if log_append_time_ms != NO_TIMESTAMP:
            set_max_timestamp_and_type(
                records, position, max_timestamp=log_append_time_ms, timestamp_type=TimestampType.LOG_APPEND_TIME
            )
            header.max_timestamp = log_append_time_ms
            header.attributes |= LOG_APPEND_TIME_FLAG
        offset += header.last_offset_delta + 1
        position += header.batch_length + _LOG_OVERHEAD
