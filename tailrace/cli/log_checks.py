"""Reading a segment's indexes, and holding them against its batches.

Pure: bytes and lists in, entries and problems out. An index is preallocated like the log, so the first entry that does
not rise and is all zeros ends it. An offset index entry has to be the last offset of the batch at its position; a time
index entry has to be the largest timestamp up to its offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

_offset_entry = Struct(">ii")
_time_entry = Struct(">qi")
_transaction_entry = Struct(">hqqqq")


class BatchPlace(NamedTuple):
    """Where a batch lies in its `.log`, and what an index can say of it."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class OffsetEntry(NamedTuple):
    """An entry of an `.index`."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """An entry of a `.timeindex`."""

    timestamp: int
    offset: int


class TransactionEntry(NamedTuple):
    """An entry of a `.txnindex`."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def read_offset_index(data: bytes, base_offset: int) -> list[OffsetEntry]:
    """Read the entries in use."""
    entries: list[OffsetEntry] = []
    whole = len(data) - len(data) % _offset_entry.size
    for relative, position in _offset_entry.iter_unpack(data[:whole]):
        if relative == 0 and position == 0 and _ends_in_zeros(data, len(entries) * _offset_entry.size):
            break
        entries.append(OffsetEntry(base_offset + relative, position))
    return entries


def read_time_index(data: bytes, base_offset: int) -> list[TimeEntry]:
    """Read the entries in use."""
    entries: list[TimeEntry] = []
    whole = len(data) - len(data) % _time_entry.size
    for timestamp, relative in _time_entry.iter_unpack(data[:whole]):
        if timestamp == 0 and relative == 0 and _ends_in_zeros(data, len(entries) * _time_entry.size):
            break
        entries.append(TimeEntry(timestamp, base_offset + relative))
    return entries


def read_transaction_index(data: bytes) -> tuple[list[TransactionEntry], list[str]]:
    """Read the aborted transactions, and say what is wrong with them."""
    whole = len(data) - len(data) % _transaction_entry.size
    entries = [TransactionEntry(*values) for values in _transaction_entry.iter_unpack(data[:whole])]
    problems = [f"{len(data) - whole} bytes behind the last entry"] if whole != len(data) else []
    last_offset = -1
    for number, entry in enumerate(entries):
        if entry.version != 0:
            problems.append(f"entry {number} has version {entry.version}")
        if not entry.first_offset <= entry.last_offset or entry.last_offset < last_offset:
            problems.append(f"entry {number} is out of order: {entry.first_offset} to {entry.last_offset}")
        last_offset = entry.last_offset
    return entries, problems


def check_offset_index(entries: Sequence[OffsetEntry], places: Sequence[BatchPlace] | None) -> list[str]:
    """Say which entries do not rise, or are not the last offset of the batch at their position."""
    problems = [
        f"offset {after.offset} at {after.position} comes after offset {before.offset} at {before.position}"
        for before, after in pairwise(entries)
        if after.offset <= before.offset or after.position <= before.position
    ]
    if places is not None:
        by_position = {place.position: place for place in places}
        for offset, position in entries:
            place = by_position.get(position)
            if place is None:
                problems.append(f"offset {offset}: no batch begins at position {position}")
            elif place.last_offset != offset:
                problems.append(f"offset {offset}: the batch at position {position} ends with {place.last_offset}")
    return problems


def check_time_index(entries: Sequence[TimeEntry], places: Sequence[BatchPlace] | None) -> list[str]:
    """Say which entries do not rise, or are not the largest timestamp of the batches up to their offset."""
    problems = [
        f"({after.timestamp}, {after.offset}) comes after ({before.timestamp}, {before.offset})"
        for before, after in pairwise(entries)
        if after.timestamp < before.timestamp or after.offset < before.offset
    ]
    if places is None:
        return problems
    number, largest = 0, -1
    for timestamp, offset in entries:
        while number < len(places) and places[number].base_offset <= offset:
            largest = max(largest, places[number].max_timestamp)
            number += 1
        if timestamp != largest:
            problems.append(f"timestamp {timestamp} at offset {offset}: up to there the largest is {largest}")
    return problems


def _ends_in_zeros(data: bytes, position: int) -> bool:
    return not any(data[position:])
