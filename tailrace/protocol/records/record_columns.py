"""The records of many batches at once, as columns of numbers: where each key and value lies, and its offset and time.

The lengths of the records are followed one by one, in a stride where several are alike; every other varint is decoded
for all records together with numpy, which costs a tenth of a microsecond a record. No key or value is copied here:
`arrow_reader` makes Arrow columns of what this gives, a consumer's `poll` makes records. Needs numpy.

`decode_columns` refuses (CorruptRecords) whatever is not quite as usual; who gets that asks `reader` for the same
batches, which tells what is wrong, or reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.records.batch_header import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
)
from tailrace.protocol.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from tailrace.protocol.records.corrupt import CorruptRecords

Integers = NDArray[np.int64]

STRIDE_RECORDS_MIN: Final = 24
"""Fewer records of one length are followed sooner one by one than in a stride."""
_ALIKE_COUNT: Final = 3
_VARINT_BYTES_MAX: Final = 10


class Body(NamedTuple):
    """The records of one batch: where they are in the data, and what the batch says of them."""

    start: int
    end: int
    header: BatchHeader


@dataclass(slots=True)
class DecodedColumns:
    """Records as columns, all of one length; starts and lengths count bytes of `data`, a length of -1 is null."""

    data: bytes
    offsets: Integers
    timestamps: Integers
    is_append_time: NDArray[np.bool_]
    leader_epochs: Integers
    key_starts: Integers
    key_lengths: Integers
    value_starts: Integers
    value_lengths: Integers
    header_counts: Integers
    header_starts: Integers
    ends: Integers

    def __len__(self) -> int:
        return len(self.offsets)

    def sliced(self, first: int, last: int) -> DecodedColumns:
        """Give the records from `first` to before `last`."""
        rows = slice(first, last)
        return DecodedColumns(
            self.data,
            self.offsets[rows],
            self.timestamps[rows],
            self.is_append_time[rows],
            self.leader_epochs[rows],
            self.key_starts[rows],
            self.key_lengths[rows],
            self.value_starts[rows],
            self.value_lengths[rows],
            self.header_counts[rows],
            self.header_starts[rows],
            self.ends[rows],
        )

    def after(self, offset: int) -> DecodedColumns:
        """Leave out what comes before an offset, which a fetch gives where the offset is inside of a batch."""
        return self.sliced(int(np.searchsorted(self.offsets, offset)), len(self.offsets))


def decode_columns(
    buffer: bytes,
    batches: Sequence[tuple[int, BatchHeader]],
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> DecodedColumns:
    """Read the records of batches (magic 2) that begin at these positions; their CRC was checked, or is trusted."""
    data, bodies = _gather(buffer, batches, decompressed_bytes_max)
    try:
        return _decode(data, bodies)
    except IndexError as error:
        raise CorruptRecords("the last record is cut off") from error


def _gather(buffer: bytes, batches: Iterable[tuple[int, BatchHeader]], bytes_max: int) -> tuple[bytes, list[Body]]:
    """Give bytes in which all records are as they are decoded: the buffer itself unless something is compressed."""
    places = [(position + HEADER_SIZE, position + h.batch_length + LENGTH_END, h) for position, h in batches]
    if not any(header.attributes & COMPRESSION_MASK for _, _, header in places):
        return buffer, [Body(*place) for place in places]
    view = memoryview(buffer)
    pieces: list[Buffer] = []
    bodies: list[Body] = []
    end = 0
    for first, last, header in places:
        piece = view[first:last]
        if header.attributes & COMPRESSION_MASK:
            piece = memoryview(decompress(header.compression, piece, bytes_max=bytes_max))
        pieces.append(piece)
        bodies.append(Body(end, end + len(piece), header))
        end += len(piece)
    return b"".join(pieces), bodies


def _decode(data: bytes, bodies: list[Body]) -> DecodedColumns:
    raw = np.frombuffer(data, np.uint8)
    starts, ends = _follow_lengths(data, raw, bodies)
    counts = np.array([body.header.records_count for body in bodies], np.int64)
    base_offsets, base_timestamps, append_times, epochs = _of_batches(bodies, counts)
    delta, position = _varints(raw, starts + 1)  # behind the attributes of a record, of which none is in use
    timestamps = np.where(append_times >= 0, append_times, base_timestamps + delta)
    delta, position = _varints(raw, position)
    offsets = base_offsets + delta
    key_lengths, key_starts = _lengths(raw, position)
    value_lengths, value_starts = _lengths(raw, key_starts + np.maximum(key_lengths, 0))
    header_counts, header_starts = _lengths(raw, value_starts + np.maximum(value_lengths, 0))
    is_as_said = (header_starts <= ends) & ((header_starts == ends) == (header_counts == 0)) & (header_counts >= 0)
    if not is_as_said.all() or (len(offsets) > 1 and not (np.diff(offsets) > 0).all()):
        raise CorruptRecords("a record is not as long as it says, or out of order")
    return DecodedColumns(
        data,
        offsets,
        timestamps,
        append_times >= 0,
        epochs,
        key_starts,
        key_lengths,
        value_starts,
        value_lengths,
        header_counts,
        header_starts,
        ends,
    )


def _of_batches(bodies: list[Body], counts: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Give each record what its batch says: base offset and timestamp, the time of its append or -1, leader epoch."""
    rows: list[tuple[int, int, int, int]] = []
    for _, _, header in bodies:
        append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME_FLAG else -1
        if header.attributes & LOG_APPEND_TIME_FLAG and append_time < 0:
            raise CorruptRecords("a batch with a negative time of its append")
        rows.append((header.base_offset, header.base_timestamp, append_time, header.partition_leader_epoch))
    columns = np.array(rows, np.int64).reshape(len(rows), 4)
    repeated = np.repeat(columns, counts, axis=0)
    return repeated[:, 0], repeated[:, 1], repeated[:, 2], repeated[:, 3]


def _follow_lengths(data: bytes, raw: NDArray[np.uint8], bodies: list[Body]) -> tuple[Integers, Integers]:
    """Find where each record begins (behind its length) and ends."""
    starts: list[Integers] = []
    ends: list[Integers] = []
    index = 0
    while index < len(bodies):
        start, end, header = bodies[index]
        count = header.records_count
        if not 0 <= count <= end - start:
            raise CorruptRecords(f"a count of {count} records in {end - start} bytes")
        first = len(starts)
        last = _follow(data, raw, start, end, count, starts, ends)
        if last != end:
            raise CorruptRecords(f"{count} records take {last - start} of {end - start} bytes")
        index += 1
        alike = _count_alike(bodies, index, end - start, count) if count > 1 else 0
        if alike * count >= STRIDE_RECORDS_MIN:
            layout = _Layout(raw, start, np.concatenate(starts[first:]), np.concatenate(ends[first:]))
            places = np.array([body.start for body in bodies[index : index + alike]], np.int64)
            places = places[: layout.count_of(raw, places)]
            starts.append((places[:, None] + layout.starts).ravel())
            ends.append((places[:, None] + layout.ends).ravel())
            index += len(places)
    if not starts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(starts), np.concatenate(ends)


def _count_alike(bodies: list[Body], index: int, size: int, count: int) -> int:
    """Say how many batches from `index` on have one size and count."""
    first = index
    while index < len(bodies):
        start, end, header = bodies[index]
        if end - start != size or header.records_count != count:
            break
        index += 1
    return index - first


class _Layout:
    """Where the records of a batch lie. Records of fixed size fill batch after batch in the same way.

    The first and the last byte of each length are compared, which are all of it up to 8 KB. Each record that was found
    so begins where the one before it ends, so what is found is as certain as if the lengths were followed.
    """

    __slots__ = ("_first_at", "_first_bytes", "_is_short", "_last_at", "_last_bytes", "ends", "starts")

    def __init__(self, raw: NDArray[np.uint8], start: int, starts: Integers, ends: Integers) -> None:
        self.starts = starts - start
        self.ends = ends - start
        self._first_at = np.concatenate((np.zeros(1, np.int64), self.ends[:-1]))
        self._last_at = self.starts - 1
        self._is_short = bool((self._last_at - self._first_at).max() <= 1)
        self._first_bytes = raw[self._first_at + start]
        self._last_bytes = raw[self._last_at + start]

    def count_of(self, raw: NDArray[np.uint8], places: Integers) -> int:
        """Say how many of the batches at these places, from the first on, have this layout."""
        if not self._is_short:
            return 0
        differs = (raw[places[:, None] + self._first_at] != self._first_bytes).any(axis=1)
        differs |= (raw[places[:, None] + self._last_at] != self._last_bytes).any(axis=1)
        first = int(differs.argmax())
        return first if differs[first] else len(places)


def _follow(
    data: bytes,
    raw: NDArray[np.uint8],
    position: int,
    end: int,
    count: int,
    starts: list[Integers],
    ends: list[Integers],
) -> int:
    """Follow the lengths of one batch, adding to `starts` and `ends`, and give the position behind the last record.

    Where a record is as long as the ones before it, those that come after are likely to be, too: a comparison of every
    n-th byte tells for how many that holds, and each of them is as certain as if it were reached alone.
    """
    singles: list[int] = []
    single_ends: list[int] = []
    alike, size, patience = 0, 0, _ALIKE_COUNT
    while count:
        begin = position
        length = data[position]
        position += 1
        if length > 127:
            length += (data[position] << 7) - 128
            position += 1
            if length > 16383:
                length, position = _long_length(data, begin)
        if length & 1:
            raise CorruptRecords("a record of negative length")
        singles.append(position)
        position += length >> 1
        single_ends.append(position)
        count -= 1
        alike = alike + 1 if position - begin == size else 0
        size = position - begin
        if alike >= patience and count >= STRIDE_RECORDS_MIN:
            run = _stride(raw, begin, size, singles[-1] - begin, min(count + 1, (end - begin) // size)) - 1
            patience = _ALIKE_COUNT if run >= STRIDE_RECORDS_MIN else patience * 2
            alike = 0
            if run > 0:
                run_starts = singles[-1] + size * np.arange(1, run + 1, dtype=np.int64)
                starts += (np.array(singles, np.int64), run_starts)
                ends += (np.array(single_ends, np.int64), run_starts + (position - singles[-1]))
                singles, single_ends = [], []
                position += run * size
                count -= run
    if singles:
        starts.append(np.array(singles, np.int64))
        ends.append(np.array(single_ends, np.int64))
    return position


def _stride(raw: NDArray[np.uint8], begin: int, size: int, length_bytes: int, count_max: int) -> int:
    """Say how many records from `begin` on, at most `count_max`, have the length that the first one has."""
    count = count_max
    for index in range(length_bytes):
        column = raw[begin + index : begin + count * size : size]
        differs = column[:count] != column[0]
        first = int(differs.argmax())
        if differs[first]:
            count = first
    return count


def _long_length(data: bytes, position: int) -> tuple[int, int]:
    """Read the length of a record of more than 8 KB."""
    value = shift = 0
    for _ in range(5):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise CorruptRecords("a length of more than 32 bits")


def _varints(raw: NDArray[np.uint8], position: Integers) -> tuple[Integers, Integers]:
    """Decode the zigzag varint at each position; give the numbers and the positions behind them."""
    byte = raw[position]
    position = position + 1
    is_longer = byte > 127
    longer_count = int(np.count_nonzero(is_longer))
    value = byte.astype(np.int64)
    shift = 7
    if longer_count and longer_count == len(value):
        # Nearly always two bytes for all, as for the lengths of values of one size.
        byte = raw[position]
        position += 1
        value += (byte.astype(np.int64) << 7) - 128
        is_longer = byte > 127
        longer_count = int(np.count_nonzero(is_longer))
        shift = 14
    if longer_count:
        _lengthen(raw, value, position, np.flatnonzero(is_longer), shift)
    return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position


def _lengthen(
    raw: NDArray[np.uint8], value: Integers, position: Integers, longer: NDArray[np.intp], shift: int
) -> None:
    """Add the other bytes of those varints that have more, in place; the last one added still has its high bit."""
    while len(longer):
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise CorruptRecords("a varint of more than 64 bits")
        byte = raw[position[longer]]
        value[longer] += (byte.astype(np.int64) << shift) - (1 << shift)
        position[longer] += 1
        longer = longer[byte > 127]
        shift += 7


def _lengths(raw: NDArray[np.uint8], position: Integers) -> tuple[Integers, Integers]:
    """Decode varints that are lengths or counts, at least -1; a bound keeps what is added to them from going round."""
    lengths, position = _varints(raw, position)
    if len(lengths) and not (lengths.min() >= -1 and lengths.max() <= len(raw)):
        raise CorruptRecords("a length that cannot be")
    return lengths, position


@dataclass(slots=True)
class HeaderColumns:
    """The headers of all records, in their order; `rows` says whose each is."""

    rows: Integers
    key_starts: Integers
    key_lengths: Integers
    value_starts: Integers
    value_lengths: Integers


def decode_header_columns(columns: DecodedColumns) -> HeaderColumns:
    """Find the headers: the first one of every record that has any, then the second, and so on, brought into order."""
    raw = np.frombuffer(columns.data, np.uint8)
    rows = np.flatnonzero(columns.header_counts)
    position, ends = columns.header_starts[rows], columns.ends[rows]
    left = columns.header_counts[rows]
    if (left > ends - position).any():
        raise CorruptRecords("more headers than bytes")
    waves: list[tuple[Integers, ...]] = []
    try:
        while len(rows):
            key_lengths, key_starts = _lengths(raw, position)
            value_lengths, value_starts = _lengths(raw, key_starts + np.maximum(key_lengths, 0))
            position = value_starts + np.maximum(value_lengths, 0)
            left = left - 1
            is_last = left == 0
            if (key_lengths < 0).any() or (position > ends).any():
                raise CorruptRecords("a header's key or value has no such length")
            if (position[is_last] != ends[is_last]).any():
                raise CorruptRecords("a record's headers are not as long as they say")
            waves.append((rows.astype(np.int64), key_starts, key_lengths, value_starts, value_lengths))
            goes_on = ~is_last
            rows, position, ends, left = rows[goes_on], position[goes_on], ends[goes_on], left[goes_on]
    except IndexError as error:
        raise CorruptRecords("the last header is cut off") from error
    if not waves:
        return HeaderColumns(*(np.empty(0, np.int64) for _ in range(5)))
    joined = [np.concatenate(parts) for parts in zip(*waves, strict=True)]
    order = np.argsort(joined[1], kind="stable")  # by place, which is by record, and inside of it by turn
    return HeaderColumns(*(column[order] for column in joined))
