"""The transaction index: which aborted transactions a read_committed fetch is told of, and damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.transaction_index import ENTRY_BYTES, AbortedTransaction, TransactionIndex
from tailrace.testing.faulty_disk import FaultyDisk

FIRST = AbortedTransaction(1, 100, 110, 105)
SECOND = AbortedTransaction(2, 105, 120, 121)
THIRD = AbortedTransaction(1, 130, 140, 135)


def make(path: Path, disk: Disk | None = None) -> TransactionIndex:
    return TransactionIndex(disk or Disk(), path / "00000000000000000100.txnindex", 100)


def filled(path: Path) -> TransactionIndex:
    index = make(path)
    for entry in (FIRST, SECOND, THIRD):
        index.append(entry)
    return index


def test_log_without_aborted_transactions_has_no_file(tmp_path: Path) -> None:
    index = make(tmp_path)
    assert index.is_empty
    assert index.collect(0, 1000) == ([], False)
    index.truncate_to(0)
    index.reset()
    index.sync()
    index.sanity_check()
    assert not index.path.exists()


@pytest.mark.parametrize(
    ("first", "upper", "found", "is_complete"),
    [
        (0, 100, [], True),
        (0, 101, [FIRST], True),
        (0, 105, [FIRST], True),
        (0, 106, [FIRST, SECOND], True),
        (110, 121, [FIRST, SECOND], True),
        (111, 121, [SECOND], True),
        (111, 122, [SECOND], True),
        (121, 125, [], True),
        (121, 131, [THIRD], True),
        (121, 136, [THIRD], False),
        (141, 142, [], False),
    ],
)
def test_collected_are_those_that_overlap(
    tmp_path: Path, first: int, upper: int, found: list[AbortedTransaction], is_complete: bool
) -> None:
    filled(tmp_path)
    assert make(tmp_path).collect(first, upper) == (found, is_complete)


def test_transaction_that_goes_back_is_refused(tmp_path: Path) -> None:
    index = filled(tmp_path)
    with pytest.raises(ValueError, match="does not come after"):
        index.append(AbortedTransaction(3, 100, 140, 141))
    assert index.entries == [FIRST, SECOND, THIRD]


def test_truncated_transactions_are_gone(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.truncate_to(141)
    assert len(index.entries) == 3
    index.truncate_to(140)
    assert make(tmp_path).entries == index.entries == [FIRST, SECOND]
    index.append(THIRD)
    assert make(tmp_path).entries == [FIRST, SECOND, THIRD]
    index.reset()
    assert make(tmp_path).entries == []


def test_full_disk_leaves_memory_and_file_alike(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    index = make(tmp_path, disk)
    index.append(FIRST)
    disk.fail("write")
    with pytest.raises(DiskError):
        index.append(SECOND)
    assert index.entries == make(tmp_path).entries == [FIRST]
    index.append(SECOND)
    assert make(tmp_path).entries == [FIRST, SECOND]


def test_short_transaction_index_is_rejected(tmp_path: Path) -> None:
    index = filled(tmp_path)
    whole = index.path.read_bytes()
    for size in range(len(whole)):
        index.path.write_bytes(whole[:size])
        if size % ENTRY_BYTES:
            with pytest.raises(CorruptFile, match="no multiple of 34"):
                index.sanity_check()
        else:
            index.sanity_check()


@pytest.mark.parametrize("bit", range(ENTRY_BYTES, 2 * ENTRY_BYTES))
def test_flipped_high_bit_is_rejected_where_order_or_version_tell(tmp_path: Path, bit: int) -> None:
    index = filled(tmp_path)
    data = bytearray(index.path.read_bytes())
    data[bit] ^= 0x80
    index.path.write_bytes(bytes(data))
    field = bit - ENTRY_BYTES
    if field <= 2 or field >= 10:
        with pytest.raises(CorruptFile):
            make(tmp_path).sanity_check()
    else:
        assert len(make(tmp_path).entries) == 3


def test_zeroed_transaction_index_is_rejected(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.path.write_bytes(bytes(2 * ENTRY_BYTES))
    with pytest.raises(CorruptFile, match="can't be"):
        make(tmp_path).collect(0, 1000)


@given(
    lengths=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 20)), max_size=20),
    first=st.integers(90, 300),
    size=st.integers(1, 100),
)
def test_nothing_that_overlaps_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[tuple[int, int]], first: int, size: int
) -> None:
    index = make(tmp_path_factory.mktemp("transactions"))
    marker = 100
    for producer, (length, forward) in enumerate(lengths):
        marker += forward
        index.append(AbortedTransaction(producer, max(marker - length, 100), marker, marker + 1))
    found, _ = index.collect(first, first + size)
    overlapping = [e for e in index.entries if e.last_offset >= first and e.first_offset < first + size]
    stopped = next((e.last_offset for e in index.entries if e.last_offset >= first + size - 1), None)
    expected = [e for e in overlapping if stopped is None or e.last_offset <= stopped]
    assert found == expected
