"""Producer snapshots that are damaged, missing or too many, and what producers are known after a crash."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.producer_snapshot import parse_snapshot, snapshot_bytes
from tailrace.storage.producer_state import SEQUENCE_MAX, BatchMetadata, ProducerStateEntry
from tailrace.storage.producer_state_manager import ProducerStateManager
from tailrace.testing.faulty_disk import FaultyDisk
from tests.storage.golden import REFERENCE_LOG

NAME = Path("00000000000000000100.snapshot")
WHOLE = (REFERENCE_LOG / "00000000000000033978.snapshot").read_bytes()


def manager(path: Path, disk: Disk | None = None) -> ProducerStateManager:
    return ProducerStateManager(disk or Disk(), path, log_name="log-0", producer_id_expiration_ms=1000)


def append(state: ProducerStateManager, producer_id: int, sequence: int, *, transactional: bool = False) -> None:
    offset = state.map_end_offset
    info = state.prepare_update(producer_id, AppendOrigin.CLIENT)
    info.append_data_batch(
        epoch=0,
        first_sequence=sequence,
        last_sequence=sequence,
        first_offset=offset,
        last_offset=offset,
        last_timestamp=0,
        is_transactional=transactional,
    )
    state.update(info)
    state.map_end_offset = offset + 1


def reload(path: Path, end: int, *, start: int = 0) -> ProducerStateManager:
    state = manager(path)
    state.truncate_and_reload(log_start_offset=start, log_end_offset=end, now_ms=10)
    return state


@pytest.mark.parametrize("size", [*range(20), 55, 56, 57, len(WHOLE) - 46, len(WHOLE) - 1])
def test_short_snapshot_is_rejected(size: int) -> None:
    with pytest.raises(CorruptFile):
        parse_snapshot(NAME, WHOLE[:size])


@pytest.mark.parametrize("extra", [b"\0", bytes(46)])
def test_long_snapshot_is_rejected(extra: bytes) -> None:
    with pytest.raises(CorruptFile):
        parse_snapshot(NAME, WHOLE + extra)


def test_every_flipped_bit_of_a_snapshot_is_found() -> None:
    for byte in range(len(WHOLE)):
        flipped = bytearray(WHOLE)
        flipped[byte] ^= 1 << byte % 8
        with pytest.raises(CorruptFile):
            parse_snapshot(NAME, bytes(flipped))


def test_damaged_snapshot_is_skipped_for_the_one_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = manager(tmp_path)
    append(state, 1, 0)
    first = state.take_snapshot()
    append(state, 2, 0)
    second = state.take_snapshot()
    assert first is not None
    assert second is not None
    second.write_bytes(second.read_bytes()[:-1] + b"\x7f")
    with caplog.at_level(logging.WARNING):
        found = reload(tmp_path, 2)
    assert "damaged producer snapshot" in caplog.text
    assert (list(found.active_producers), found.map_end_offset) == ([1], 1)
    assert (first.exists(), second.exists()) == (True, False)


def test_all_snapshots_damaged_leave_the_log_to_be_read_from_its_start(tmp_path: Path) -> None:
    state = manager(tmp_path)
    append(state, 1, 0)
    path = state.take_snapshot()
    assert path is not None
    path.write_bytes(b"")
    found = reload(tmp_path, 5)
    assert (dict(found.active_producers), found.map_end_offset, found.snapshot_offsets) == ({}, 0, [])


def test_unreadable_snapshot_is_a_disk_error_and_stays(tmp_path: Path) -> None:
    state = manager(tmp_path)
    append(state, 1, 0)
    path = state.take_snapshot()
    assert path is not None
    disk = FaultyDisk(tmp_path)
    disk.fail("read")
    with pytest.raises(DiskError):
        manager(tmp_path, disk).truncate_and_reload(log_start_offset=0, log_end_offset=1, now_ms=0)
    assert path.exists()


def test_stray_snapshots_go_and_the_one_of_a_clean_stop_stays(tmp_path: Path) -> None:
    for offset in (0, 5, 10, 15, 20, 25):
        (tmp_path / f"{offset:020d}.snapshot").write_bytes(snapshot_bytes([]))
    (tmp_path / "notes.snapshot").write_text("not ours")
    state = manager(tmp_path)
    state.remove_stray_snapshots([0, 10, 20])
    assert state.snapshot_offsets == [0, 10, 20, 25]
    state.remove_stray_snapshots([0, 10, 20, 30])
    assert state.snapshot_offsets == [0, 10, 20]
    assert sorted(path.name for path in tmp_path.iterdir())[-1] == "notes.snapshot"


def test_snapshots_go_with_their_segments(tmp_path: Path) -> None:
    for offset in (5, 10, 15):
        (tmp_path / f"{offset:020d}.snapshot").write_bytes(snapshot_bytes([]))
    state = manager(tmp_path)
    assert state.forget_snapshot(10) == tmp_path / f"{10:020d}.snapshot"
    assert state.forget_snapshot(11) is None
    state.delete_snapshots_before(15)
    assert (state.snapshot_offsets, state.latest_snapshot_offset) == ([15], 15)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{10:020d}.snapshot", f"{15:020d}.snapshot"]


def test_full_disk_takes_no_snapshot_and_the_next_try_does(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path, capacity_bytes=40)
    state = manager(tmp_path, disk)
    append(state, 1, 0)
    with pytest.raises(DiskError) as caught:
        state.take_snapshot()
    assert caught.value.is_disk_full
    assert state.snapshot_offsets == []
    disk.heal()
    assert state.take_snapshot() is not None
    assert list(reload(tmp_path, 1).active_producers) == [1]


def test_open_transactions_are_loaded_in_the_order_of_the_log(tmp_path: Path) -> None:
    entries = [
        ProducerStateEntry(pid, 0, 0, 0, first, BatchMetadata(0, first, 0, 0)) for pid, first in ((1, 70), (2, 30))
    ]
    (tmp_path / NAME).write_bytes(snapshot_bytes(entries))
    state = reload(tmp_path, 100)
    assert (state.first_undecided_offset, state.first_unstable_offset) == (30, 30)
    assert not state.has_late_transaction(0)


def test_late_transaction_is_noticed(tmp_path: Path) -> None:
    state = manager(tmp_path)
    assert not state.has_late_transaction(10**12)
    append(state, 1, 0, transactional=True)
    state.active_producers[1].last_timestamp = 1
    assert not state.has_late_transaction(1 + 900_000 + 300_000)
    assert state.has_late_transaction(2 + 900_000 + 300_000)


numbers = st.integers(-1, 2**63 - 1)
entries = st.builds(
    lambda pid, epoch, coordinator, time, transaction, batch: ProducerStateEntry(
        pid, epoch, coordinator, time, transaction, batch and BatchMetadata(*batch, time)
    ),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**15 - 1),
    st.integers(-1, 2**31 - 1),
    numbers,
    st.none() | st.integers(0, 2**63 - 1),
    st.none() | st.tuples(st.integers(0, SEQUENCE_MAX), st.integers(0, 2**63 - 1), st.integers(0, SEQUENCE_MAX)),
)


@settings(deadline=None)
@given(st.lists(entries, max_size=8))
def test_snapshot_comes_back_as_it_was(written: list[ProducerStateEntry]) -> None:
    data = snapshot_bytes(written)
    assert len(data) == 10 + 46 * len(written)
    assert [repr(entry) for entry in parse_snapshot(NAME, data)] == [repr(entry) for entry in written]


@given(st.integers(0, SEQUENCE_MAX), st.integers(0, 1000))
def test_sequences_go_round(first: int, delta: int) -> None:
    last = (first + delta) % 2**31
    assert BatchMetadata(last, 5000, delta, 0).first_sequence == first
