"""Control records: the markers by which a transaction ends in a partition's log.

A control batch holds one record. Its key says what it is, its value the epoch of the coordinator that decided.

    key: version i16 = 0 | type i16: 0 abort, 1 commit, 2-5 what a KRaft quorum writes about itself
    value of a commit or abort: version i16 = 0 | coordinator epoch i32
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.batch_header import NO_LEADER_EPOCH, BatchHeader
from tailrace.protocol.records.reader import read_batch
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch

_key = Struct(">hh")
_value = Struct(">hi")


class ControlType(IntEnum):
    """What a control record says; UNKNOWN is any that came after this was written, which readers skip."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True)
class EndTxnMarker:
    """The end of a transaction in one partition, as its coordinator decided."""

    control_type: ControlType
    coordinator_epoch: int


def read_control_type(key: bytes | None) -> ControlType:
    """Tell what a control record is by its key."""
    if key is None or len(key) < _key.size:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the key of a control record is no version and type: {key!r}")
    version, number = _key.unpack_from(key)
    if version < 0:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the key of a control record has version {version}")
    return ControlType(number) if number in _CONTROL_TYPES else ControlType.UNKNOWN


def read_end_txn_marker(record: Record) -> EndTxnMarker | None:
    """Read a commit or abort; None where the control record is something else."""
    control_type = read_control_type(record.key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _value.size:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a marker at offset {record.offset} has no coordinator epoch")
    version, coordinator_epoch = _value.unpack_from(record.value)
    if version < 0:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a marker at offset {record.offset} has version {version}")
    return EndTxnMarker(control_type, coordinator_epoch)


def read_control_batch(buffer: Buffer, position: int, header: BatchHeader) -> EndTxnMarker | None:
    """Read the marker of a control batch; None where it is none, or compaction has removed it."""
    records = read_batch(buffer, position, header)
    return read_end_txn_marker(records[0]) if records else None


def write_end_txn_marker(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Make the control batch that ends a producer's transaction."""
    key = _key.pack(0, marker.control_type)
    value = _value.pack(0, marker.coordinator_epoch)
    return write_batch(
        [Record(base_offset, timestamp, key, value)],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        leader_epoch=leader_epoch,
        is_transactional=True,
        is_control=True,
    )


_CONTROL_TYPES = frozenset(ControlType) - {ControlType.UNKNOWN}
