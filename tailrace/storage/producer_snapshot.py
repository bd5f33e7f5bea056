"""The `.snapshot` file: the state of all producers of a log as of the offset in its name.

    0  int16   version, 1
    2  uint32  CRC-32C of everything after it
    6  int32   number of entries, 46 bytes each:
          0 int64 producer id      8 int16 producer epoch   10 int32 last sequence   14 int64 last offset
         22 int32 offset delta    26 int64 timestamp        34 int32 coordinator epoch
         38 int64 first offset of the open transaction, -1 where there is none

Of a producer's five batches only the last is kept. An entry without a batch has last sequence -1, last offset -1.
Bytes to values and back; when to write one and what to do about a damaged one is the producer state manager's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from struct import Struct

from tailrace.protocol.checksum import crc32c
from tailrace.storage.errors import CorruptFile
from tailrace.storage.producer_state import BatchMetadata, ProducerStateEntry

VERSION = 1
_HEADER = Struct(">hIi")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_CRC_END = 6


def snapshot_bytes(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Write the entries, in their order."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.current_transaction_first_offset is None else entry.current_transaction_first_offset,
        )
        for entry in entries
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEADER.pack(VERSION, crc32c(body), len(packed)) + body[_COUNT.size :]


def parse_snapshot(path: Path, data: bytes) -> list[ProducerStateEntry]:
    """Read the entries; `CorruptFile` where the bytes are not what was written."""
    if len(data) < _HEADER.size:
        raise CorruptFile(path, f"{len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(path, f"unknown version {version} of a producer snapshot, {VERSION} expected")
    actual = crc32c(memoryview(data)[_CRC_END:])
    if actual != crc:
        raise CorruptFile(path, f"the checksum is {actual:#010x}, written was {crc:#010x}")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptFile(path, f"{len(data)} bytes do not hold {count} entries")
    return [_parse_entry(values) for values in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])]


def _parse_entry(values: tuple[int, ...]) -> ProducerStateEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction = values
    return ProducerStateEntry(
        producer_id,
        epoch,
        coordinator_epoch,
        timestamp,
        transaction if transaction >= 0 else None,
        BatchMetadata(last_sequence, last_offset, delta, timestamp) if last_offset >= 0 else None,
    )
