"""The time index against a list, and damaged ones against its checks."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.storage.disk import Disk
from tailrace.storage.errors import CorruptFile
from tailrace.storage.time_index import NO_TIMESTAMP, TimeIndex

BASE = 1000


def make(path: Path, *, size_bytes_max: int = 64 * 1024) -> TimeIndex:
    return TimeIndex(Disk(), path / f"{BASE:020d}.timeindex", BASE, size_bytes_max=size_bytes_max)


def filled(path: Path, entries: int = 100) -> TimeIndex:
    index = make(path)
    for slot in range(entries):
        index.maybe_append(5000 + 100 * slot, BASE + 10 * slot)
    return index


def damage(index: TimeIndex, data: bytes) -> TimeIndex:
    index.close()
    index.path.write_bytes(data)
    return make(index.path.parent)


def test_lookup_gives_the_last_entry_at_or_below(tmp_path: Path) -> None:
    index = filled(tmp_path)
    assert index.lookup(4999) == (NO_TIMESTAMP, BASE)
    assert index.lookup(5000) == (5000, BASE)
    assert index.lookup(5199) == (5100, BASE + 10)
    assert index.lookup(10**12) == (14900, BASE + 990)
    assert make(tmp_path / "none").lookup(5000) == (NO_TIMESTAMP, BASE)


def test_timestamp_that_is_no_later_makes_no_entry(tmp_path: Path) -> None:
    index = filled(tmp_path, 1)
    index.maybe_append(5000, BASE + 50)
    assert (index.entries, index.last_entry) == (1, (5000, BASE))
    with pytest.raises(ValueError, match="does not come after"):
        index.maybe_append(4999, BASE + 50)
    index.maybe_append(6000, BASE)
    assert index.last_entry == (6000, BASE)


def test_offset_that_goes_back_is_refused(tmp_path: Path) -> None:
    index = filled(tmp_path, 3)
    with pytest.raises(ValueError, match="does not come after"):
        index.maybe_append(9000, BASE + 19)
    assert index.entries == 3


def test_last_slot_is_kept_for_the_roll(tmp_path: Path) -> None:
    index = make(tmp_path, size_bytes_max=40)
    index.maybe_append(1, BASE)
    assert not index.is_full
    index.maybe_append(2, BASE + 1)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        index.maybe_append(3, BASE + 2)
    index.maybe_append(3, BASE + 2, is_closing=True)
    assert (index.entries, index.path.stat().st_size) == (3, 36)
    with pytest.raises(ValueError, match="full"):
        index.maybe_append(4, BASE + 3, is_closing=True)


def test_no_timestamp_makes_no_entry(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.maybe_append(NO_TIMESTAMP, BASE + 3, is_closing=True)
    assert index.entries == 0


def test_short_time_index_is_rejected(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.close()
    whole = index.path.read_bytes()
    for cut in range(1, 12):
        with pytest.raises(CorruptFile, match="no multiple of 12"):
            damage(index, whole[:-cut]).sanity_check()
        index = damage(index, whole)


def test_zeroed_tail_of_a_time_index_is_rejected(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.close()
    with pytest.raises(CorruptFile, match="not after its first"):
        damage(index, index.path.read_bytes() + bytes(120)).sanity_check()


@pytest.mark.parametrize("byte", [600, 604, 606, 608])
def test_bit_flip_that_breaks_the_order_is_found_by_reading_every_entry(tmp_path: Path, byte: int) -> None:
    index = filled(tmp_path)
    index.close()
    data = bytearray(index.path.read_bytes())
    data[byte] ^= 0x40
    flipped = damage(index, bytes(data))
    flipped.sanity_check()
    with pytest.raises(CorruptFile, match="ascending"):
        flipped.sanity_check(every_entry=True)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=60),
    bulk=st.sampled_from((0, 0, 680, 2500)),
    cuts=st.lists(st.integers(-2, 200), max_size=2),
)
def test_time_index_is_a_sorted_list(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], bulk: int, cuts: list[int]
) -> None:
    index = make(tmp_path_factory.mktemp("index"))
    model: list[tuple[int, int]] = []
    timestamp, offset = 100, BASE
    for later, forward in [(1, 1)] * bulk + steps:
        timestamp, offset = timestamp + later, offset + forward
        index.maybe_append(timestamp, offset)
        if not model or timestamp > model[-1][0]:
            model.append((timestamp, offset))
    for cut in (None, *cuts):
        if cut is not None:
            index.truncate_to(offset - cut)
            model = [entry for entry in model if entry[1] < offset - cut]
        for wanted in {0, 100, 101, 100 + bulk // 2, timestamp - 600, timestamp - 1, timestamp, timestamp + 1}:
            slot = bisect_right([entry[0] for entry in model], wanted)
            assert index.lookup(wanted) == (model[slot - 1] if slot else (NO_TIMESTAMP, BASE))
        index.sanity_check(every_entry=True)
    index.close()
    reopened = make(index.path.parent)
    assert [reopened.entry(slot) for slot in range(reopened.entries)] == model
