"""Coordinators' records to bytes and back.

    key:   record type i16 | fields of the key          (the type is the "version" of the key's message)
    value: version i16     | fields of the value in that version          none: a tombstone

`encode_record` writes each value in the version in which Kafka 4.1 writes it; `decode_record` reads every version that
was ever written. A record type of somebody else's (share and streams groups, what comes after this was written) is an
`UnknownRecord`: whoever loads a log skips it, and compaction keeps it. Bytes that are no record of the type they name
raise MalformedFrame.

One example, the offset 42 of topic "t", partition 0, group "g", committed at 1700000000000 without metadata:

    key    0001 0001 67 0001 74 00000000                              type 1, "g", "t", partition 0
    value  0004 000000000000002a ffffffff 01 0000018bcfe56800 00      version 4, offset, no epoch, "", time, no tags
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple, TypeAlias

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.codec import decode_message, encoder_of
from tailrace.protocol.coordinator import consumer_group, group_metadata, offset_commit, transaction_log
from tailrace.protocol.coordinator.offset_commit import OffsetCommitValue
from tailrace.protocol.coordinator.record_types import CoordinatorKey, CoordinatorValue
from tailrace.protocol.errors import MalformedFrame

_int16 = Struct(">h")

NO_EXPIRE_TIMESTAMP = -1


class RecordType(NamedTuple):
    """The two halves of one kind of record."""

    key_class: type[CoordinatorKey]
    value_class: type[CoordinatorValue]


RecordTable: TypeAlias = dict[int, RecordType]
"""The kinds of records that one coordinator's topic holds, by their number."""

GROUP_RECORDS: RecordTable = {
    # Up to Kafka 0.9 an offset's key had type 0; its fields and its value's are those of today's first version.
    0: RecordType(offset_commit.OffsetCommitKey, OffsetCommitValue),
    1: RecordType(offset_commit.OffsetCommitKey, OffsetCommitValue),
    2: RecordType(group_metadata.GroupMetadataKey, group_metadata.GroupMetadataValue),
    3: RecordType(consumer_group.ConsumerGroupMetadataKey, consumer_group.ConsumerGroupMetadataValue),
    4: RecordType(consumer_group.ConsumerGroupPartitionMetadataKey, consumer_group.ConsumerGroupPartitionMetadataValue),
    5: RecordType(consumer_group.ConsumerGroupMemberMetadataKey, consumer_group.ConsumerGroupMemberMetadataValue),
    6: RecordType(
        consumer_group.ConsumerGroupTargetAssignmentMetadataKey,
        consumer_group.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: RecordType(
        consumer_group.ConsumerGroupTargetAssignmentMemberKey, consumer_group.ConsumerGroupTargetAssignmentMemberValue
    ),
    8: RecordType(
        consumer_group.ConsumerGroupCurrentMemberAssignmentKey, consumer_group.ConsumerGroupCurrentMemberAssignmentValue
    ),
    16: RecordType(
        consumer_group.ConsumerGroupRegularExpressionKey, consumer_group.ConsumerGroupRegularExpressionValue
    ),
}
"""What is in `__consumer_offsets`."""

TRANSACTION_RECORDS: RecordTable = {
    0: RecordType(transaction_log.TransactionLogKey, transaction_log.TransactionLogValue)
}
"""What is in `__transaction_state`."""


class CoordinatorRecord(NamedTuple):
    """A key with its value, or without one: then whatever the key stood for is gone."""

    key: CoordinatorKey
    value: CoordinatorValue | None


@dataclass(frozen=True, slots=True)
class UnknownRecord:
    """A record of a type that is not ours to understand."""

    record_type: int


def encode_record(
    key: CoordinatorKey, value: CoordinatorValue | None, *, version: int | None = None
) -> tuple[bytes, bytes | None]:
    """Give the bytes of a record; `version` is the value's, where it is not the one of `written_version`."""
    encode_key = key.encoders.get(0) or encoder_of(type(key), 0)
    key_bytes = bytes(encode_key(key, bytearray(_int16.pack(key.record_type)), None))
    if value is None:
        return key_bytes, None
    if version is None:
        version = written_version(value)
    encode_value = value.encoders.get(version) or encoder_of(type(value), version)
    return key_bytes, bytes(encode_value(value, bytearray(_int16.pack(version)), None))


def written_version(value: CoordinatorValue) -> int:
    """Give the version in which Kafka 4.1 writes a value.

    An offset that has its own time of expiry (OffsetCommit v2 to v4) can say so in version 1 only. Group metadata stays
    at version 3, so that older brokers can read it.
    """
    if isinstance(value, OffsetCommitValue):
        return 1 if value.expire_timestamp != NO_EXPIRE_TIMESTAMP else 4
    if isinstance(value, group_metadata.GroupMetadataValue):
        return 3
    return value.versions.last


def decode_record(table: RecordTable, key: Buffer | None, value: Buffer | None) -> CoordinatorRecord | UnknownRecord:
    """Read a record of the topic that `table` describes."""
    decoded = decode_key(table, key)
    if isinstance(decoded, UnknownRecord) or value is None:
        return decoded if isinstance(decoded, UnknownRecord) else CoordinatorRecord(decoded, None)
    return CoordinatorRecord(decoded, decode_value(table, decoded, value))


def decode_key(table: RecordTable, data: Buffer | None) -> CoordinatorKey | UnknownRecord:
    """Read a key."""
    record_type = _leading_int16(data, "key")
    found = table.get(record_type)
    if data is None or found is None:
        return UnknownRecord(record_type)
    return decode_message(found.key_class, 0, data, _int16.size)


def decode_value(table: RecordTable, key: CoordinatorKey, data: Buffer) -> CoordinatorValue:
    """Read the value that goes with a key."""
    value_class = table[key.record_type].value_class
    version = _leading_int16(data, "value")
    if version not in value_class.versions:
        raise MalformedFrame(f"{value_class.__name__} has versions {value_class.versions}, not {version}")
    return decode_message(value_class, version, data, _int16.size)


def _leading_int16(data: Buffer | None, part: str) -> int:
    if data is None or len(data) < _int16.size:
        raise MalformedFrame(f"the {part} of a coordinator's record is too short: {data!r}")
    number: int = _int16.unpack_from(data)[0]
    return number
