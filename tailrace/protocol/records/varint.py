"""Zigzag varints, as records use them: small numbers of either sign in one byte, seven bits a byte, lowest first."""

from __future__ import annotations

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.records.corrupt import CorruptRecords


def encode_varint(value: int) -> bytes:
    """Encode a signed number of up to 64 bits."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def decode_varint(data: Buffer, position: int, *, bits: int = 32) -> tuple[int, int]:
    """Read a signed number of at most `bits` bits; give it and the position behind it."""
    rest, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            if rest >> bits:
                raise CorruptRecords(f"a varint of more than {bits} bits")
            return rest >> 1 ^ -(rest & 1), position
        shift += 7
        if shift >= bits + 3:
            raise CorruptRecords(f"a varint of more than {bits} bits")
