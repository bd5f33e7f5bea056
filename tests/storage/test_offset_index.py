"""The offset index against a list, and damaged ones against its checks."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.offset_index import OffsetIndex, OffsetIndexEntry
from tailrace.testing.faulty_disk import FaultyDisk

BASE = 1000


def make(path: Path, *, size_bytes_max: int = 64 * 1024, disk: Disk | None = None) -> OffsetIndex:
    return OffsetIndex(disk or Disk(), path / f"{BASE:020d}.index", BASE, size_bytes_max=size_bytes_max)


def filled(path: Path, entries: int = 100) -> OffsetIndex:
    index = make(path)
    for slot in range(entries):
        index.append(BASE + 10 * slot + 9, 4096 * (slot + 1))
    return index


def damage(index: OffsetIndex, data: bytes) -> OffsetIndex:
    index.close()
    index.path.write_bytes(data)
    return make(index.path.parent)


def test_lookup_gives_the_last_entry_at_or_below(tmp_path: Path) -> None:
    index = filled(tmp_path)
    assert index.lookup(BASE - 5) == (BASE, 0)
    assert index.lookup(BASE + 8) == (BASE, 0)
    assert index.lookup(BASE + 9) == (BASE + 9, 4096)
    assert index.lookup(BASE + 28) == (BASE + 19, 8192)
    assert index.lookup(BASE + 10**6) == (BASE + 999, 409600)


def test_empty_index_begins_at_the_segment(tmp_path: Path) -> None:
    index = make(tmp_path)
    assert index.lookup(BASE + 5) == OffsetIndexEntry(BASE, 0)
    assert index.upper_bound(0, 100) is None
    assert (index.entries, index.last_offset, index.is_full) == (0, BASE, False)
    index.sanity_check(log_bytes=0, every_entry=True)
    assert not index.path.exists(), "an idle partition needs no file"


def test_close_makes_the_file_even_if_it_is_empty(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.close()
    assert index.path.stat().st_size == 0


def test_file_has_its_full_size_while_active_and_its_entries_once_closed(tmp_path: Path) -> None:
    index = make(tmp_path, size_bytes_max=1003)
    index.append(BASE + 1, 100)
    assert (index.path.stat().st_size, index.entries_max) == (1000, 125)
    index.close()
    assert index.path.stat().st_size == 8
    assert index.lookup(BASE + 1) == (BASE + 1, 100)
    index.append(BASE + 2, 200)
    assert index.path.stat().st_size == 1000
    assert make(tmp_path).entries == 125, "a file that was not trimmed counts its zeros"


@pytest.mark.parametrize("entry", [(BASE + 9, 5000), (BASE + 8, 5000), (BASE + 10, 4096), (BASE + 10, 100)])
def test_entry_that_goes_back_is_refused(tmp_path: Path, entry: tuple[int, int]) -> None:
    index = filled(tmp_path, 1)
    with pytest.raises(ValueError, match="does not come after"):
        index.append(*entry)
    assert index.entries == 1


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31])
def test_offset_that_is_too_far_is_refused(tmp_path: Path, offset: int) -> None:
    with pytest.raises(ValueError, match="within 2"):
        make(tmp_path).append(offset, 100)
    index = make(tmp_path)
    index.append(BASE + 2**31 - 1, 2**31 - 1)
    assert index.entry(0) == (BASE + 2**31 - 1, 2**31 - 1)


def test_full_index_is_full(tmp_path: Path) -> None:
    index = make(tmp_path, size_bytes_max=16)
    index.append(BASE + 1, 1)
    assert not index.is_full
    index.append(BASE + 2, 2)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        index.append(BASE + 3, 3)
    index.resize(24)
    index.append(BASE + 3, 3)
    index.resize(8)
    assert index.is_full
    assert [index.entry(slot).position for slot in range(3)] == [1, 2, 3]


def test_upper_bound_is_the_first_entry_behind_the_range(tmp_path: Path) -> None:
    index = filled(tmp_path, 3)
    assert index.upper_bound(0, 1) == (BASE + 9, 4096)
    assert index.upper_bound(4096, 4096) == (BASE + 19, 8192)
    assert index.upper_bound(4096, 4097) == (BASE + 29, 12288)
    assert index.upper_bound(8192, 4097) is None


def test_truncated_entries_do_not_come_back_after_a_kill(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.truncate_to(BASE + 19)
    assert (index.entries, index.last_offset) == (1, BASE + 9)
    found = make(tmp_path)
    assert found.entry(0) == (BASE + 9, 4096)
    with pytest.raises(CorruptFile):
        found.sanity_check()
    index.truncate()
    assert (index.entries, index.lookup(BASE + 50)) == (0, (BASE, 0))


def test_renamed_index_goes_on(tmp_path: Path) -> None:
    index = filled(tmp_path, 2)
    index.rename(index.path.with_suffix(".index.deleted"))
    index.append(BASE + 100, 99999)
    index.close()
    assert not (tmp_path / f"{BASE:020d}.index").exists()
    assert len(index.path.read_bytes()) == 24


def test_short_offset_index_is_rejected(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.close()
    whole = index.path.read_bytes()
    for cut in range(1, 8):
        with pytest.raises(CorruptFile, match="no multiple of 8"):
            damage(index, whole[:-cut]).sanity_check()
        index = damage(index, whole)


def test_zeroed_tail_of_an_offset_index_is_rejected(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.close()
    with pytest.raises(CorruptFile, match="not after its first"):
        damage(index, index.path.read_bytes() + bytes(80)).sanity_check()


def test_offset_index_that_points_behind_the_log_is_rejected(tmp_path: Path) -> None:
    index = filled(tmp_path, 2)
    index.sanity_check(log_bytes=8193)
    with pytest.raises(CorruptFile, match="points to byte 8192"):
        index.sanity_check(log_bytes=8192)


@pytest.mark.parametrize("byte", [400, 402, 404, 406])
def test_bit_flip_that_breaks_the_order_is_found_by_reading_every_entry(tmp_path: Path, byte: int) -> None:
    index = filled(tmp_path)
    index.close()
    data = bytearray(index.path.read_bytes())
    data[byte] ^= 0x40
    flipped = damage(index, bytes(data))
    flipped.sanity_check()
    with pytest.raises(CorruptFile, match="ascending"):
        flipped.sanity_check(every_entry=True)


def test_negative_beginning_of_an_offset_index_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match="before the base offset"):
        damage(filled(tmp_path), b"\xff" * 16).sanity_check()


def test_full_disk_is_an_error_and_not_a_signal(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path, capacity_bytes=4096)
    index = make(tmp_path, disk=disk)
    for slot in range(512):
        index.append(BASE + slot, slot + 1)
    with pytest.raises(DiskError) as caught:
        index.append(BASE + 512, 513)
    assert caught.value.is_disk_full
    assert (index.entries, index.last_offset) == (512, BASE + 511)
    disk.capacity_bytes = None
    index.append(BASE + 512, 513)
    assert index.entry(512) == (BASE + 512, 513)


steps = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5000)), max_size=60)


@settings(max_examples=60, deadline=None)
@given(steps=steps, bulk=st.sampled_from((0, 0, 1020, 3000)), cuts=st.lists(st.integers(-2, 200), max_size=2))
def test_offset_index_is_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], bulk: int, cuts: list[int]
) -> None:
    index = make(tmp_path_factory.mktemp("index"))
    model: list[tuple[int, int]] = []
    offset, position = BASE, 0
    for forward, size in [(1, 1)] * bulk + steps:
        offset, position = offset + forward, position + size
        index.append(offset, position)
        model.append((offset, position))
    for cut in (None, *cuts):
        if cut is not None:
            index.truncate_to(offset - cut)
            model = [entry for entry in model if entry[0] < offset - cut]
        for wanted in {BASE, BASE + 1, BASE + bulk // 2, offset - 600, offset - 1, offset, offset + 1}:
            slot = bisect_right([entry[0] for entry in model], wanted)
            assert index.lookup(wanted) == (model[slot - 1] if slot else (BASE, 0))
        index.sanity_check(every_entry=True)
    index.close()
    reopened = make(index.path.parent)
    assert [reopened.entry(slot) for slot in range(reopened.entries)] == model
