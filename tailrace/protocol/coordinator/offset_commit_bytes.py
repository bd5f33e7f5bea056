"""The bytes of plain offset commits, written without a message for each.

A consumer of a thousand partitions commits a thousand records at once, all alike: one group and topic, no metadata, no
expiry of their own. `encode_record` stays what defines the bytes (and the tests hold these to it); a commit that is
anything else goes there.

    key    0001 | group string | topic string | partition i32
    value  0004 | offset i64 | leader epoch i32 | 01: no metadata | commit timestamp i64 | 00: no tags
"""

from __future__ import annotations

from struct import Struct

from tailrace.protocol.coordinator.offset_commit import OffsetCommitKey
from tailrace.protocol.coordinator.record_codec import encode_record

_VALUE = Struct(">hqibqb")
_VALUE_VERSION = 4
_NO_METADATA = 1
_PARTITION_BYTES = 4

pack_partition = Struct(">i").pack
"""What follows `key_prefix` in a key."""


def key_prefix(group: str, topic: str) -> bytes:
    """Give what all keys of a group's offsets of one topic begin with."""
    return encode_record(OffsetCommitKey(group=group, topic=topic), None)[0][:-_PARTITION_BYTES]


def plain_value(offset: int, leader_epoch: int, commit_timestamp: int) -> bytes:
    """Give the value of a commit without metadata, topic id and time of expiry."""
    return _VALUE.pack(_VALUE_VERSION, offset, leader_epoch, _NO_METADATA, commit_timestamp, 0)
