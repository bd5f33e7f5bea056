"""Kafka's murmur2 of a whole column of keys, with numpy: a word of every key at a time.

The same hash as `partitioner.murmur2`; a test holds both equal.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)


def hash_keys(column: Any) -> NDArray[np.int64]:
    """Give the positive hash of each key of a pyarrow binary column; what a null has is of no meaning."""
    _, ends, data = column.buffers()
    places = np.frombuffer(ends, dtype=np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    octets = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, dtype=np.uint8)
    starts, lengths = places[:-1], np.diff(places)
    result = _SEED ^ lengths.astype(np.uint32)
    longest = int(lengths.max()) if len(lengths) else 0
    for word_index in range(longest // 4):
        rows = np.flatnonzero(lengths >= 4 * (word_index + 1))
        word = _words(octets, starts[rows] + 4 * word_index, 4) * _MULTIPLIER
        word = (word ^ (word >> np.uint32(24))) * _MULTIPLIER
        result[rows] = (result[rows] * _MULTIPLIER) ^ word
    for size in (1, 2, 3):
        rows = np.flatnonzero(lengths % 4 == size)
        rest = _words(octets, starts[rows] + lengths[rows] - size, size)
        result[rows] = (result[rows] ^ rest) * _MULTIPLIER
    result = (result ^ (result >> np.uint32(13))) * _MULTIPLIER
    result ^= result >> np.uint32(15)
    return (result & np.uint32(0x7FFFFFFF)).astype(np.int64)


def _words(octets: NDArray[np.uint8], places: NDArray[np.int64], size: int) -> NDArray[np.uint32]:
    """Read little-endian numbers of `size` bytes."""
    words = np.zeros(len(places), dtype=np.uint32)
    for index in range(size):
        words |= octets[places + index].astype(np.uint32) << np.uint32(8 * index)
    return words
