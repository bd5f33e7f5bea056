"""Produce v9-13 and Fetch v12-18 as a person would write them with `struct`: the yardstick of the generated codec.

Messages are nested tuples, the cheapest thing there is, and nothing is checked but what must be read anyway. Tagged
fields are written empty and passed over when read, with the exception that a null stays a null.
"""

from __future__ import annotations

import struct
from typing import Any

acks_and_timeout = struct.Struct(">hi")
i32 = struct.Struct(">i")
partition_response = struct.Struct(">ihqqq")
fetch_head = struct.Struct(">iiiibii")
fetch_head_15 = struct.Struct(">iiibii")
fetch_partition = struct.Struct(">iiqiqi")
response_head = struct.Struct(">ihi")
partition_data = struct.Struct(">ihqqq")
aborted_transaction = struct.Struct(">qq")


def read_varint(b: Any, p: int) -> tuple[int, int]:
    value = b[p]
    p += 1
    if value < 128:
        return value, p
    value &= 127
    shift = 7
    while True:
        byte = b[p]
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, p
        shift += 7


def write_varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_string(b: Any, p: int) -> tuple[str | None, int]:
    size, p = read_varint(b, p)
    if size == 0:
        return None, p
    q = p + size - 1
    if q > len(b):
        raise ValueError("string")
    return str(b[p:q], "utf-8"), q


def write_string(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    data = text.encode()
    return write_varint(len(data) + 1) + data


def read_records(b: Any, p: int) -> tuple[Any, int]:
    size, p = read_varint(b, p)
    if size == 0:
        return None, p
    q = p + size - 1
    if q > len(b):
        raise ValueError("records")
    return b[p:q], q


def skip_tags(b: Any, p: int) -> int:
    count, p = read_varint(b, p)
    for _ in range(count):
        _, p = read_varint(b, p)
        size, p = read_varint(b, p)
        p += size
    return p


def decode_produce_request(b: Any, version: int) -> Any:
    transactional_id, p = read_string(b, 0)
    acks, timeout_ms = acks_and_timeout.unpack_from(b, p)
    count, p = read_varint(b, p + 6)
    topics = []
    for _ in range(count - 1):
        if version >= 13:
            topic: Any = bytes(b[p : p + 16])
            p += 16
        else:
            topic, p = read_string(b, p)
        count, p = read_varint(b, p)
        partitions = []
        for _ in range(count - 1):
            (index,) = i32.unpack_from(b, p)
            records, p = read_records(b, p + 4)
            p = skip_tags(b, p)
            partitions.append((index, records))
        p = skip_tags(b, p)
        topics.append((topic, partitions))
    skip_tags(b, p)
    return transactional_id, acks, timeout_ms, topics


def encode_produce_request(message: Any, version: int) -> bytes:
    transactional_id, acks, timeout_ms, topics = message
    parts = [write_string(transactional_id), acks_and_timeout.pack(acks, timeout_ms), write_varint(len(topics) + 1)]
    for topic, partitions in topics:
        parts.append(topic if version >= 13 else write_string(topic))
        parts.append(write_varint(len(partitions) + 1))
        for index, records in partitions:
            parts.append(i32.pack(index))
            parts.append(b"\0" if records is None else write_varint(len(records) + 1))
            if records is not None:
                parts.append(records)
            parts.append(b"\0")
        parts.append(b"\0")
    parts.append(b"\0")
    return b"".join(parts)


def decode_produce_response(b: Any, version: int) -> Any:
    count, p = read_varint(b, 0)
    topics = []
    for _ in range(count - 1):
        if version >= 13:
            topic: Any = bytes(b[p : p + 16])
            p += 16
        else:
            topic, p = read_string(b, p)
        count, p = read_varint(b, p)
        partitions = []
        for _ in range(count - 1):
            head = partition_response.unpack_from(b, p)
            count, p = read_varint(b, p + 30)
            errors = []
            for _ in range(count - 1):
                (index,) = i32.unpack_from(b, p)
                text, p = read_string(b, p + 4)
                p = skip_tags(b, p)
                errors.append((index, text))
            text, p = read_string(b, p)
            p = skip_tags(b, p)
            partitions.append((*head, errors, text))
        p = skip_tags(b, p)
        topics.append((topic, partitions))
    (throttle_time_ms,) = i32.unpack_from(b, p)
    skip_tags(b, p + 4)
    return topics, throttle_time_ms


def encode_produce_response(message: Any, version: int) -> bytes:
    topics, throttle_time_ms = message
    parts = [write_varint(len(topics) + 1)]
    for topic, partitions in topics:
        parts.append(topic if version >= 13 else write_string(topic))
        parts.append(write_varint(len(partitions) + 1))
        for index, error_code, base_offset, append_time, log_start_offset, errors, text in partitions:
            parts.append(partition_response.pack(index, error_code, base_offset, append_time, log_start_offset))
            parts.append(write_varint(len(errors) + 1))
            for batch_index, error in errors:
                parts += (i32.pack(batch_index), write_string(error), b"\0")
            parts.append(write_string(text))
            parts.append(b"\0")
        parts.append(b"\0")
    parts.append(i32.pack(throttle_time_ms))
    parts.append(b"\0")
    return b"".join(parts)


def decode_fetch_request(b: Any, version: int) -> Any:
    head_struct = fetch_head_15 if version >= 15 else fetch_head
    head = head_struct.unpack_from(b, 0)
    count, p = read_varint(b, head_struct.size)
    topics = []
    for _ in range(count - 1):
        if version >= 13:
            topic: Any = bytes(b[p : p + 16])
            p += 16
        else:
            topic, p = read_string(b, p)
        count, p = read_varint(b, p)
        partitions = []
        for _ in range(count - 1):
            partitions.append(fetch_partition.unpack_from(b, p))
            p = skip_tags(b, p + fetch_partition.size)
        p = skip_tags(b, p)
        topics.append((topic, partitions))
    count, p = read_varint(b, p)
    forgotten = []
    for _ in range(count - 1):
        if version >= 13:
            topic = bytes(b[p : p + 16])
            p += 16
        else:
            topic, p = read_string(b, p)
        count, p = read_varint(b, p)
        forgotten.append((topic, struct.unpack_from(f">{count - 1}i", b, p)))
        p = skip_tags(b, p + 4 * (count - 1))
    rack_id, p = read_string(b, p)
    skip_tags(b, p)
    return (head, topics, forgotten, rack_id)


def encode_fetch_request(message: Any, version: int) -> bytes:
    head, topics, forgotten, rack_id = message
    parts = [(fetch_head_15 if version >= 15 else fetch_head).pack(*head), write_varint(len(topics) + 1)]
    for topic, partitions in topics:
        parts.append(topic if version >= 13 else write_string(topic))
        parts.append(write_varint(len(partitions) + 1))
        for partition in partitions:
            parts.append(fetch_partition.pack(*partition))
            parts.append(b"\0")
        parts.append(b"\0")
    parts.append(write_varint(len(forgotten) + 1))
    for topic, indexes in forgotten:
        parts.append(topic if version >= 13 else write_string(topic))
        parts.append(write_varint(len(indexes) + 1))
        parts.append(struct.pack(f">{len(indexes)}i", *indexes))
        parts.append(b"\0")
    parts.append(write_string(rack_id))
    parts.append(b"\0")
    return b"".join(parts)


def decode_fetch_response(b: Any, version: int) -> Any:
    head = response_head.unpack_from(b, 0)
    count, p = read_varint(b, response_head.size)
    topics = []
    for _ in range(count - 1):
        if version >= 13:
            topic: Any = bytes(b[p : p + 16])
            p += 16
        else:
            topic, p = read_string(b, p)
        count, p = read_varint(b, p)
        partitions = []
        for _ in range(count - 1):
            values = partition_data.unpack_from(b, p)
            count, p = read_varint(b, p + partition_data.size)
            aborted = None if count == 0 else []
            for _ in range(count - 1):
                assert aborted is not None
                aborted.append(aborted_transaction.unpack_from(b, p))
                p = skip_tags(b, p + 16)
            (replica,) = i32.unpack_from(b, p)
            records, p = read_records(b, p + 4)
            p = skip_tags(b, p)
            partitions.append((*values, aborted, replica, records))
        p = skip_tags(b, p)
        topics.append((topic, partitions))
    skip_tags(b, p)
    return head, topics


def encode_fetch_response(message: Any, version: int) -> bytes:
    head, topics = message
    parts = [response_head.pack(*head), write_varint(len(topics) + 1)]
    for topic, partitions in topics:
        parts.append(topic if version >= 13 else write_string(topic))
        parts.append(write_varint(len(partitions) + 1))
        for index, error_code, high_watermark, stable, start, aborted, replica, records in partitions:
            parts.append(partition_data.pack(index, error_code, high_watermark, stable, start))
            parts.append(b"\0" if aborted is None else write_varint(len(aborted) + 1))
            for producer_id, first_offset in aborted or ():
                parts.append(aborted_transaction.pack(producer_id, first_offset))
                parts.append(b"\0")
            parts.append(i32.pack(replica))
            parts.append(b"\0" if records is None else write_varint(len(records) + 1))
            if records is not None:
                parts.append(records)
            parts.append(b"\0")
        parts.append(b"\0")
    parts.append(b"\0")
    return b"".join(parts)
