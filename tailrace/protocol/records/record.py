"""One record, as a producer gives it and a consumer gets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

RecordHeader: TypeAlias = tuple[str, bytes | None]
"""A header's key and value. The key may hold lone surrogates where the bytes were not UTF-8: they are written back
as they came (`surrogateescape`)."""

HEADER_KEY_ERRORS = "surrogateescape"


@dataclass(slots=True)
class Record:
    """A record; a key or value of None is Kafka's null, which is not the empty one."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[RecordHeader] = ()
