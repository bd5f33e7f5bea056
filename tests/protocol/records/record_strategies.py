"""Records as hypothesis draws them, and legacy messages put together by hand."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sized
from struct import pack

from hypothesis import strategies as st

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.record import Record

TIMESTAMPS = st.one_of(st.integers(0, 2**42), st.integers(-1, 300))
FIELDS = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=70) | st.just(bytes(9000))
HEADERS = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=10)), max_size=3)
GAPS = st.one_of(st.just(1), st.integers(1, 10_000))


@st.composite
def record_lists(draw: st.DrawFn, *, size_max: int = 12) -> list[Record]:
    """Records whose offsets go up, with gaps."""
    offset = draw(st.integers(0, 2**50))
    records: list[Record] = []
    for _ in range(draw(st.integers(1, size_max))):
        records.append(Record(offset, draw(TIMESTAMPS), draw(FIELDS), draw(FIELDS), draw(HEADERS)))
        offset += draw(GAPS)
    return records


def flatten(records: list[Record]) -> list[tuple[object, ...]]:
    """Make records comparable whatever sequence their headers are in."""
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]


def count_or_refusal(read: Callable[[], Sized]) -> int:
    """Give how much was read, or -1 where it was refused with one of the two errors that are allowed."""
    try:
        return len(read())
    except MalformedFrame:
        return -1
    except ApiError as error:
        return -1 if error.code is ErrorCode.CORRUPT_MESSAGE else 1 << 40


def message(
    offset: int, key: bytes | None, value: bytes | None, *, magic: int, timestamp: int = -1, attributes: int = 0
) -> bytes:
    """One message of magic 0 or 1."""
    body = pack(">bB", magic, attributes) + (pack(">q", timestamp) if magic else b"")
    for field in (key, value):
        body += pack(">i", -1) if field is None else pack(">i", len(field)) + field
    return pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
