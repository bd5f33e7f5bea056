"""Java's hash of a string, where Kafka lets it decide what a client can see."""

from __future__ import annotations

from functools import lru_cache

SMALL_TABLE_MASK = 15


@lru_cache(maxsize=16384)
def java_hash(text: str) -> int:
    """Give what Java's String.hashCode gives, a signed number: by its absolute value Kafka spreads keys.

    The lowest one has no absolute value in Java, and Kafka takes 0 for it: so does this function.
    """
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8) + units[index + 1]) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    return 0 if signed == -(2**31) else signed


def place_in_small_map(text: str) -> int:
    """Give the place of a key in a Java HashMap of up to twelve entries: in this order it is gone through."""
    value = java_hash(text)
    return (value ^ value >> 16) & SMALL_TABLE_MASK
