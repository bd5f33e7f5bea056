"""Reading the records of batches, in every format, decompressed.

`read_records` gives every record of a buffer; `read_batch` those of one batch (magic 2), for who walks over the headers
first, as a consumer does to leave out aborted transactions. Control records come like any others: look at the header's
`is_control`. A batch whose CRC does not match, that does not decompress, or whose records are not what the header says
ends in ApiError(CORRUPT_MESSAGE), a buffer that is no sequence of batches in MalformedFrame; in either case what was
allocated stays within the size of the buffer and the limit for decompression. A record costs about a microsecond:
the short varints are read in place, without a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.batch_header import (
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME_FLAG,
    BatchHeader,
    check_crc,
    is_partial,
    magic_at,
    read_batch_header,
)
from tailrace.protocol.records.compression import DECOMPRESSED_BYTES_MAX, decompress
from tailrace.protocol.records.corrupt import CorruptRecords
from tailrace.protocol.records.legacy import read_message
from tailrace.protocol.records.record import HEADER_KEY_ERRORS, Record, RecordHeader
from tailrace.protocol.records.varint import decode_long, decode_varint

_length = Struct(">i")


def read_records(
    buffer: Buffer,
    *,
    allow_partial_tail: bool = False,
    check_crcs: bool = True,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[Record]:
    """Give every record of `buffer`, batch after batch, of whatever magic.

    With `allow_partial_tail` a last batch that is cut off is left out, as brokers may send one at the end of a fetch.
    """
    position, end = 0, len(buffer)
    while position < end:
        if allow_partial_tail and is_partial(buffer, position):
            return
        if magic_at(buffer, position) < 2:
            yield from read_message(
                buffer, position, check_crcs=check_crcs, decompressed_bytes_max=decompressed_bytes_max
            )
            position += LENGTH_END + _length.unpack_from(buffer, position + 8)[0]
        else:
            header = read_batch_header(buffer, position)
            if check_crcs:
                check_crc(buffer, position, header)
            yield from read_batch(buffer, position, header, decompressed_bytes_max=decompressed_bytes_max)
            position += header.batch_length + LENGTH_END


def read_batch(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    stored_timestamps: bool = False,
) -> list[Record]:
    """Give the records of one batch (magic 2), whose CRC the caller has checked or trusts.

    Where the batch has the time of its append, that is every record's timestamp; `stored_timestamps` gives those that
    the producer wrote instead.
    """
    end = position + header.batch_length + LENGTH_END
    body = decompress(
        header.compression, memoryview(buffer)[position + HEADER_SIZE : end], bytes_max=decompressed_bytes_max
    )
    try:
        records = _decode_records(body, header)
    except (CorruptRecords, IndexError) as error:
        reason = "the last record is cut off" if isinstance(error, IndexError) else str(error)
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"batch at offset {header.base_offset}: {reason}") from error
    if header.attributes & LOG_APPEND_TIME_FLAG and not stored_timestamps:
        for record in records:
            record.timestamp = header.max_timestamp
    return records


def _decode_records(data: bytes, header: BatchHeader) -> list[Record]:
    """Decode as many records as the header says, which have to fill `data`.

    A slice that reaches behind the end is shorter than asked for, without an error; so each record's end is compared
    with what its length says, and the last one's with the end of the data. An index behind the end is an IndexError.
    """
    base_offset, base_timestamp, count = header.base_offset, header.base_timestamp, header.records_count
    records: list[Record] = []
    append = records.append
    position = 0
    for _ in range(count):
        length = data[position]
        position += 1
        if length > 127:
            length, position = decode_long(data, position - 1, 32)
        end = position + (length >> 1)
        number = data[position + 1]  # behind the attributes of a record, of which none is in use
        position += 2
        if number > 127:
            number, position = decode_long(data, position - 1, 64)
        timestamp = base_timestamp + (number >> 1 ^ -(number & 1))
        number = data[position]
        position += 1
        if number > 127:
            number += (data[position] << 7) - 128
            position += 1
            if number > 16383:
                number, position = decode_long(data, position - 2, 32)
        offset = base_offset + (number >> 1 ^ -(number & 1))
        number = data[position]
        position += 1
        if number > 127:
            number, position = decode_long(data, position - 1, 32)
        if number == 1:
            key = None
        else:
            length |= number
            number >>= 1
            key = data[position : position + number]
            position += number
        number = data[position]
        position += 1
        if number > 127:
            number += (data[position] << 7) - 128
            position += 1
            if number > 16383:
                number, position = decode_long(data, position - 2, 32)
        if number == 1:
            value = None
        else:
            length |= number
            number >>= 1
            value = data[position : position + number]
            position += number
        if data[position] == 0:
            position += 1
            append(Record(offset, timestamp, key, value))
        else:
            headers, position = _decode_headers(data, position)
            append(Record(offset, timestamp, key, value, headers))
        if position != end or length & 1:
            raise CorruptRecords(
                f"record {len(records)} of {count} is not as long as it says, or has a negative length"
            )
    if count < 0 or position != len(data):
        raise CorruptRecords(f"{count} records take {position} of {len(data)} bytes")
    return records


def _decode_headers(data: bytes, position: int) -> tuple[list[RecordHeader], int]:
    """Decode a record's headers; give them and the position behind them."""
    count, position = decode_varint(data, position)
    if not 0 <= count <= len(data) - position:
        raise CorruptRecords(f"a count of {count} headers")
    headers: list[RecordHeader] = []
    for _ in range(count):
        length, position = decode_varint(data, position)
        if not 0 <= length <= len(data) - position:
            raise CorruptRecords(f"a header's key of {length} bytes")
        name = data[position : position + length].decode("utf-8", HEADER_KEY_ERRORS)
        position += length
        length, position = decode_varint(data, position)
        if length == -1:
            headers.append((name, None))
        elif 0 <= length <= len(data) - position:
            headers.append((name, data[position : position + length]))
            position += length
        else:
            raise CorruptRecords(f"a header's value of {length} bytes")
    return headers, position
