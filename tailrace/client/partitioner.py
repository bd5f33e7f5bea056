"""Which partition a record without one goes to, as Kafka's Java producer decides it.

A key goes where its murmur2 hash says, so that every client puts it into the same partition. Records without a key stay
with one partition until a batch of it is full, then go on to another: full batches cost least.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


class Partitioner:
    """Chooses partitions for one producer."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sticky: dict[str, int] = {}

    def choose(self, topic: str, key: bytes | None, partitions_count: int, available: Sequence[int]) -> int:
        """Give a partition: by the key, else the sticky one of the topic, out of those that have a leader."""
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % partitions_count
        sticky = self._sticky.get(topic)
        if sticky is None or sticky >= partitions_count:
            sticky = self._sticky[topic] = self._random.choice(available or range(partitions_count))
        return sticky

    def batch_filled(self, topic: str, partition: int) -> None:
        """Go on to another partition, because a batch of this one is full."""
        if self._sticky.get(topic) == partition:
            del self._sticky[topic]


def murmur2(data: bytes) -> int:
    """Kafka's murmur2, as an unsigned 32-bit number."""
    length = len(data)
    result = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        result = (result * _MULTIPLIER & _MASK) ^ word
    if length > whole:
        result = (result ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    result = (result ^ result >> 13) * _MULTIPLIER & _MASK
    return result ^ result >> 15
