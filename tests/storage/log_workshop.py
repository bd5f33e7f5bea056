"""Logs and batches for the tests of storage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tailrace.protocol.records.batch_header import iterate_batch_headers
from tailrace.protocol.records.control import ControlType, EndTxnMarker, write_end_txn_marker
from tailrace.protocol.records.reader import read_records
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.log_config import LogConfig
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.disk import Disk
from tailrace.storage.log import AppendResult, Log
from tailrace.storage.log_context import LogContext
from tailrace.storage.log_loader import LogLoader
from tailrace.testing.virtual_clock import VirtualClock

PARTITION = TopicPartition("flights", 0)


def config(**overrides: object) -> LogConfig:
    """Give settings by their names with underscores; a segment may be small here."""
    texts = {key.replace("_", "."): str(value) for key, value in overrides.items()}
    if "segment.bytes" in texts:
        texts["internal.segment.bytes"] = texts.pop("segment.bytes")
    return LogConfig(texts)


def context(clock: VirtualClock | None = None, disk: Disk | None = None) -> LogContext:
    return LogContext(clock=clock or VirtualClock(), disk=disk or Disk())


def open_log(
    directory: Path,
    *,
    settings: LogConfig | None = None,
    surroundings: LogContext | None = None,
    was_clean_stop: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    high_watermark: int = 0,
) -> Log:
    directory.mkdir(exist_ok=True)
    return LogLoader(
        PARTITION,
        directory,
        settings or config(),
        surroundings or context(),
        was_clean_stop=was_clean_stop,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
    ).load()


def batch(
    *values: bytes,
    key: bytes | None = b"key",
    timestamp: int = 1_700_000_000_000,
    base_offset: int = 0,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
    **more: object,
) -> bytearray:
    """Make a batch of these values; `producer` is id, epoch, sequence."""
    records = [Record(base_offset + index, timestamp + index, key, value) for index, value in enumerate(values)]
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    return write_batch(
        records,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
        **more,  # type: ignore[arg-type]
    )


def append(log: Log, *values: bytes, leader_epoch: int = 0, **more: object) -> AppendResult:
    return log.append_as_leader(batch(*values, **more), leader_epoch=leader_epoch)  # type: ignore[arg-type]


def end_transaction(log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> AppendResult:
    marker = EndTxnMarker(ControlType.COMMIT if commit else ControlType.ABORT, 0)
    records = write_end_txn_marker(marker, producer_id=producer_id, producer_epoch=epoch, timestamp=1_700_000_000_000)
    return log.append_as_leader(records, leader_epoch=0, origin=AppendOrigin.COORDINATOR)


def read_all(log: Log, *, max_bytes: int = 1 << 20, start: int | None = None) -> list[Record]:
    """Read every record up to the log's end, as a consumer does: whole batches, fetch after fetch."""
    records: list[Record] = []
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        result = log.read(offset, max_bytes=max_bytes, upper_offset=log.log_end_offset, min_one_message=True)
        headers = [header for _, header in iterate_batch_headers(result.records, allow_partial_tail=True)]
        assert headers, f"nothing can be read at {offset} of {log}"
        wanted = offset
        records += [
            record for record in read_records(result.records, allow_partial_tail=True) if record.offset >= wanted
        ]
        offset = headers[-1].next_offset
    return records


def values_of(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def forget(log: Log) -> None:
    """What kill -9 leaves: descriptors are gone, nothing is trimmed or written."""
    for segment in log.segments:
        segment.close()
