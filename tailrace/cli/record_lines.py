"""Lines of text and records: what `tailrace produce` reads and `tailrace consume` writes.

As JSON a record is one line with `key`, `value`, `headers` (a list of [name, value]), `partition`, `offset`,
`timestamp`. Bytes that are no UTF-8 are under `key_base64` and `value_base64`, and so in headers, as
{"base64": ...}; produce reads the same, so that what consume wrote can be produced again.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from tailrace.client.consumer_record import ConsumerRecord
from tailrace.protocol.records.record import RecordHeader

FORMATS = ("value", "key-value", "json", "full")


class BadLine(Exception):
    """A line that is no record."""


@dataclass(frozen=True, slots=True)
class LineRecord:
    """A record as a line gives it; None leaves partition and timestamp to the producer."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[RecordHeader] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def parse_text(line: bytes, *, key_separator: bytes | None) -> LineRecord:
    """Read a line as a value, or as key and value around a separator."""
    if key_separator is None:
        return LineRecord(line)
    key, found, value = line.partition(key_separator)
    if not found:
        raise BadLine(f"no separator {key_separator.decode(errors='replace')!r} in it")
    return LineRecord(value, key)


def parse_json(line: bytes) -> LineRecord:
    """Read a line of JSON; a value that is no string is produced as its JSON."""
    try:
        fields: Any = json.loads(line)
    except ValueError as error:
        raise BadLine(f"no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadLine("an object with key, value, headers, partition and timestamp is expected")
    fields = cast("dict[str, Any]", fields)
    unknown = fields.keys() - {
        "topic", "key", "key_base64", "value", "value_base64", "headers", "partition", "offset", "timestamp",
    }  # fmt: skip
    if unknown:
        raise BadLine(f"no such field: {', '.join(sorted(unknown))}")
    return LineRecord(
        value=_bytes_field(fields, "value"),
        key=_bytes_field(fields, "key"),
        headers=_parse_headers(fields.get("headers") or []),
        partition=_number_field(fields, "partition"),
        timestamp_ms=_number_field(fields, "timestamp"),
    )


def format_record(record: ConsumerRecord[bytes, bytes], form: str, *, key_separator: bytes) -> bytes:
    """Write a record as one line."""
    if form == "json":
        return format_json(record)
    value = b"null" if record.value is None else record.value
    if form == "value":
        return value + b"\n"
    key = b"null" if record.key is None else record.key
    if form == "key-value":
        return b"%s%s%s\n" % (key, key_separator, value)
    place = f"{record.partition}:{record.offset} {record.timestamp} ".encode()
    return b"%s%s%s%s\n" % (place, key, key_separator, value)


def format_json(record: ConsumerRecord[bytes, bytes]) -> bytes:
    """Write a record as one line of JSON."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_text_field("key", record.key),
        **_text_field("value", record.value),
        "headers": [[name, _header_value(value)] for name, value in record.headers],
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def _text_field(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data or b"").decode()}


def _header_value(data: bytes | None) -> str | dict[str, str] | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}


def _bytes_field(fields: dict[str, Any], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    return _from_json(fields.get(name)) if encoded is None else _from_base64(encoded)


def _from_json(value: Any) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape")


def _from_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadLine(f"no base64: {error}") from None


def _number_field(fields: dict[str, Any], name: str) -> int | None:
    number = fields.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**63:
        raise BadLine(f"{name} is a number from 0 up, not {number!r}")
    return number


def _parse_headers(headers: Any) -> list[RecordHeader]:
    """Read headers from an object, or from a list of [name, value], which can have a name twice."""
    pairs: Any = list(cast("dict[str, Any]", headers).items()) if isinstance(headers, dict) else headers
    parsed: list[RecordHeader] = []
    if not isinstance(pairs, list):
        raise BadLine("headers are an object, or a list of [name, value]")
    for pair in pairs:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(pair, list | tuple) or len(cast("Sequence[Any]", pair)) != 2:
            raise BadLine(f"a header is [name, value], not {pair!r}")
        name, value = cast("Sequence[Any]", pair)
        is_encoded = isinstance(value, dict) and set(cast("dict[str, Any]", value)) == {"base64"}
        parsed.append((str(name), _from_base64(value["base64"]) if is_encoded else _from_json(value)))
    return parsed
