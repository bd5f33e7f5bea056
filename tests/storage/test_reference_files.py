"""Every small file of a log that Apache Kafka 4.1 wrote: read, found sane, and written again to the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tailrace.protocol.uuid import uuid_text
from tailrace.storage.disk import Disk
from tailrace.storage.leader_epoch_cache import EpochEntry, LeaderEpochCache
from tailrace.storage.offset_index import OffsetIndex, OffsetIndexEntry
from tailrace.storage.partition_metadata import read_partition_metadata, write_partition_metadata
from tailrace.storage.producer_snapshot import parse_snapshot, snapshot_bytes
from tailrace.storage.time_index import TimeIndex, TimeIndexEntry
from tailrace.storage.transaction_index import AbortedTransaction, TransactionIndex
from tests.storage.golden import BASE_OFFSETS, REFERENCE_LOG, SEGMENT_INDEX_BYTES

SNAPSHOTS = sorted(REFERENCE_LOG.glob("*.snapshot"))
by_segment = pytest.mark.parametrize("base_offset", BASE_OFFSETS)


def reference(base_offset: int, suffix: str) -> Path:
    return REFERENCE_LOG / f"{base_offset:020d}{suffix}"


@by_segment
def test_offset_index_is_read_and_written_as_kafka_wrote_it(base_offset: int, tmp_path: Path) -> None:
    source = reference(base_offset, ".index")
    index = OffsetIndex(Disk(), source, base_offset, size_bytes_max=SEGMENT_INDEX_BYTES)
    index.sanity_check(log_bytes=reference(base_offset, ".log").stat().st_size, every_entry=True)
    written = OffsetIndex(Disk(), tmp_path / source.name, base_offset, size_bytes_max=SEGMENT_INDEX_BYTES)
    for slot in range(index.entries):
        written.append(*index.entry(slot))
    assert written.path.stat().st_size == SEGMENT_INDEX_BYTES
    written.close()
    assert written.path.read_bytes() == source.read_bytes()


@by_segment
def test_offset_index_points_to_batches(base_offset: int) -> None:
    index = OffsetIndex(Disk(), reference(base_offset, ".index"), base_offset, size_bytes_max=SEGMENT_INDEX_BYTES)
    log = reference(base_offset, ".log").read_bytes()
    entries = [index.entry(slot) for slot in range(index.entries)]
    for entry in entries:
        base = int.from_bytes(log[entry.position : entry.position + 8], "big")
        last = base + int.from_bytes(log[entry.position + 23 : entry.position + 27], "big")
        assert last == entry.offset


@by_segment
def test_time_index_is_read_and_written_as_kafka_wrote_it(base_offset: int, tmp_path: Path) -> None:
    source = reference(base_offset, ".timeindex")
    index = TimeIndex(Disk(), source, base_offset, size_bytes_max=SEGMENT_INDEX_BYTES)
    index.sanity_check(every_entry=True)
    written = TimeIndex(Disk(), tmp_path / source.name, base_offset, size_bytes_max=SEGMENT_INDEX_BYTES)
    for slot in range(index.entries):
        written.maybe_append(*index.entry(slot), is_closing=True)
    assert written.path.stat().st_size == SEGMENT_INDEX_BYTES - SEGMENT_INDEX_BYTES % 12
    written.close()
    assert written.path.read_bytes() == source.read_bytes()


def test_known_entries_of_the_indexes() -> None:
    index = OffsetIndex(Disk(), reference(7092, ".index"), 7092, size_bytes_max=SEGMENT_INDEX_BYTES)
    times = TimeIndex(Disk(), reference(0, ".timeindex"), 0, size_bytes_max=SEGMENT_INDEX_BYTES)
    assert (index.entries, index.is_full, index.last_offset) == (169, False, 14090)
    assert index.lookup(7092) == OffsetIndexEntry(7092, 0)
    assert times.entry(0) == TimeIndexEntry(1700000002023, 0x58)
    assert times.is_full


def test_transaction_index_is_read_and_written_as_kafka_wrote_it(tmp_path: Path) -> None:
    source = reference(30220, ".txnindex")
    index = TransactionIndex(Disk(), source, 30220)
    index.sanity_check()
    assert index.entries[0] == AbortedTransaction(3, 30221, 30441, 30442)
    assert len(index.entries) == 6
    written = TransactionIndex(Disk(), tmp_path / source.name, 30220)
    for entry in index.entries:
        written.append(entry)
    assert written.path.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.stem.lstrip("0"))
def test_producer_snapshot_is_read_and_written_as_kafka_wrote_it(path: Path) -> None:
    data = path.read_bytes()
    entries = parse_snapshot(path, data)
    assert [entry.producer_id for entry in entries] == list(range(len(entries)))
    assert all(entry.last_offset < int(path.stem) for entry in entries)
    assert snapshot_bytes(entries) == data


def test_snapshot_with_an_open_transaction() -> None:
    path = reference(30220, ".snapshot")
    last = parse_snapshot(path, path.read_bytes())[-1]
    assert (last.producer_id, last.current_transaction_first_offset, last.last_offset) == (3, 30000, 30199)
    assert (last.batches[0].first_sequence, last.batches[0].last_sequence, last.coordinator_epoch) == (191, 199, -1)


def test_leader_epoch_checkpoint_is_read_and_written_as_kafka_wrote_it(tmp_path: Path) -> None:
    source = REFERENCE_LOG / "leader-epoch-checkpoint"
    assert LeaderEpochCache(Disk(), source).entries == [EpochEntry(0, 0)]
    written = LeaderEpochCache(Disk(), tmp_path / source.name)
    written.assign(0, 0)
    assert written.path.read_bytes() == source.read_bytes()


def test_partition_metadata_is_read_and_written_as_kafka_wrote_it(tmp_path: Path) -> None:
    topic_id = read_partition_metadata(Disk(), REFERENCE_LOG)
    assert topic_id is not None
    assert uuid_text(topic_id) == "SCPlI_y6R1CT7hVfYT-Ynw"
    write_partition_metadata(Disk(), tmp_path, topic_id)
    assert (tmp_path / "partition.metadata").read_bytes() == (REFERENCE_LOG / "partition.metadata").read_bytes()
