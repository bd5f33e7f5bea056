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


def decode_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read a signed number of 32 bits; give it and the position behind it."""
    number = data[position]
    position += 1
    if number > 0x7F:
        number, position = decode_long(data, position - 1, 32)
    return number >> 1 ^ -(number & 1), position


def decode_long(data: Buffer, position: int, bits: int) -> tuple[int, int]:
    """Read a number of at most `bits` bits that takes several bytes, before its zigzag is undone."""
    number, shift = data[position] & 0x7F, 7
    while True:
        position += 1
        byte = data[position]
        if byte < 0x80:
            number |= byte << shift
            if number >> bits:
                raise CorruptRecords(f"a varint of more than {bits} bits")
            return number, position + 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > bits:
            raise CorruptRecords(f"a varint of more than {bits} bits")
