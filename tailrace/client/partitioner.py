"""Which partition a record without one goes to, as Kafka's Java producer decides it.

A key goes where its murmur2 hash says, so that every client puts it into the same partition. Records without a key stay
with one partition until a batch's worth of bytes went there, then go on to another: full batches cost least (KIP-480),
and a partition whose batches wait gets fewer of them (KIP-794).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from random import Random
from struct import unpack_from
from typing import Final, Protocol

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_HASHES_MAX: Final = 65_536


class Partitioner(Protocol):
    """A user's own partitioner; any function of this form is one."""

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partitions_count: int) -> int:
        """Give a partition from 0 to `partitions_count` - 1."""
        ...


class KeyHashes:
    """Partitions of keys, remembered: a hash in Python costs as much as all else that is done for a record."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def partition_of(self, key: bytes, partitions_count: int) -> int:
        """Give the partition of a key, as every client of Kafka finds it."""
        digest = self._known.get(key)
        if digest is None:
            if len(self._known) >= _HASHES_MAX:
                self._known.clear()
            digest = self._known[key] = murmur2(key) & 0x7FFFFFFF
        return digest % partitions_count


def choose_partition(waiting_counts: Mapping[int, int], random: Random, *, is_adaptive: bool) -> int:
    """Choose where the next records without a key go, given how many batches wait for each partition.

    Uniformly, or more often where fewer wait.
    """
    partitions = list(waiting_counts)
    if not is_adaptive or len(partitions) < 2:
        return random.choice(partitions)
    most = max(waiting_counts.values()) + 1
    shares = list(accumulate(most - count for count in waiting_counts.values()))
    return partitions[bisect_right(shares, random.randrange(shares[-1]))]


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, as an unsigned 32-bit number."""
    length = len(data)
    result = _SEED ^ length
    for word in unpack_from(f"<{length >> 2}I", data):
        word = word * _MULTIPLIER & _MASK
        result = (result * _MULTIPLIER & _MASK) ^ ((word ^ word >> 24) * _MULTIPLIER & _MASK)
    rest = data[length & ~3 :]
    if rest:
        result = (result ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    result = (result ^ result >> 13) * _MULTIPLIER & _MASK
    return result ^ result >> 15
