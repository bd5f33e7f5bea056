"""Kafka's uuids: sixteen bytes on the wire, 22 characters of URL-safe base64 in text.

They are `bytes` in this code, not `uuid.UUID`: a fetch request carries one for each topic, and making and hashing a
UUID object costs more than the rest of decoding that topic.
"""

from __future__ import annotations

import base64
import binascii
import os

ZERO_UUID = bytes(16)
"""Stands for "no id": Kafka reserves it, together with `ONE_UUID`."""
ONE_UUID = bytes(15) + b"\x01"


def random_uuid() -> bytes:
    """Make a version 4 uuid that Kafka accepts as a topic id: not reserved, and its text does not begin with a dash."""
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        value = bytes(raw)
        if value not in (ZERO_UUID, ONE_UUID) and not uuid_text(value).startswith("-"):
            return value


def uuid_text(value: bytes) -> str:
    """Give the 22 characters that Kafka prints for a uuid."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def parse_uuid(text: str) -> bytes:
    """Read a uuid from its 22 characters; raise ValueError where the text is no such thing."""
    if len(text) > 24:
        raise ValueError(f"a uuid has 22 characters of base64, not {len(text)}: {text[:40]!r}")
    try:
        value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not a uuid in URL-safe base64: {text!r}") from error
    if len(value) != 16:
        raise ValueError(f"a uuid has 16 bytes, {text!r} stands for {len(value)}")
    return value
