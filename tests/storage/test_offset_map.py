"""The map of keys to offsets: right as a dict is, and never larger than it may be."""

from __future__ import annotations

import random

import pytest

from tailrace.storage.offset_map import BYTES_PER_ENTRY, OffsetMap


def test_last_offset_of_a_key_is_found() -> None:
    offsets = OffsetMap(100 * BYTES_PER_ENTRY)
    assert offsets.put(b"a", 0)
    assert offsets.put(b"b", 1)
    assert offsets.put(b"a", 7)
    assert (offsets.get(b"a"), offsets.get(b"b"), offsets.get(b"c"), offsets.size) == (7, 1, -1, 2)


@pytest.mark.parametrize("seed", range(5))
def test_map_is_as_a_dict(seed: int) -> None:
    chance = random.Random(seed)
    offsets, model = OffsetMap(600 * BYTES_PER_ENTRY), dict[bytes, int]()
    for offset in range(3000):
        key = chance.randbytes(chance.randrange(20)) if chance.random() < 0.1 else b"%d" % chance.randrange(400)
        if offsets.put(key, offset):
            model[key] = offset
        else:
            assert offsets.is_full
            assert key not in model
    assert offsets.size == len(model)
    assert {key: offsets.get(key) for key in model} == model


def test_full_map_takes_no_new_key_and_still_moves_known_ones() -> None:
    offsets = OffsetMap(10 * BYTES_PER_ENTRY, load_factor=0.9)
    taken = [offsets.put(b"%d" % number, number) for number in range(20)]
    assert taken == [True] * 9 + [False] * 11
    assert offsets.put(b"3", 50)
    assert offsets.get(b"3") == 50
    assert offsets.get(b"15") == -1
    assert offsets.utilization == 0.9


@pytest.mark.parametrize("memory", [0, 1, 24, 25, 47, 48, 240])
def test_a_search_ends_however_small_the_map(memory: int) -> None:
    offsets = OffsetMap(memory, load_factor=1.0)
    taken = sum(offsets.put(b"%d" % number, number) for number in range(30))
    assert taken == offsets.size < max(memory // BYTES_PER_ENTRY, 2)
    assert [offsets.get(b"x%d" % number) for number in range(30)] == [-1] * 30


def test_memory_is_bounded_by_setting_and_need() -> None:
    assert OffsetMap(1 << 20).slots == (1 << 20) // BYTES_PER_ENTRY
    assert OffsetMap(1 << 40, entries_max=900, load_factor=0.9).slots < 2000
    assert OffsetMap(24 * 100, entries_max=10**9).slots == 100


def test_latest_offset_only_goes_up() -> None:
    offsets = OffsetMap(1000)
    assert offsets.latest_offset == -1
    offsets.update_latest_offset(5)
    offsets.update_latest_offset(3)
    assert offsets.latest_offset == 5
