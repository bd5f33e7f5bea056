"""Lines and records: what consume writes as JSON, produce reads to the same record."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.cli.record_lines import BadLine, format_json, format_record, parse_json, parse_text
from tailrace.client.consumer_record import ConsumerRecord
from tailrace.protocol.records.batch_header import TimestampType

FIELDS = st.none() | st.binary(max_size=30) | st.text(max_size=20).map(lambda text: text.encode())
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELDS), max_size=3)


def consumed(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]] | None = None
) -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("t", 1, 7, 1000, TimestampType.CREATE_TIME, key, value, headers or [], 0)


@given(FIELDS, FIELDS, HEADERS)
def test_json_comes_back(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> None:
    line = format_json(consumed(key, value, headers))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    record = parse_json(line)
    assert (record.key, record.value, list(record.headers)) == (key, value, headers)
    assert (record.partition, record.timestamp_ms) == (1, 1000)


def test_a_value_that_is_no_string_is_produced_as_its_json() -> None:
    assert (
        parse_json(b'{"value": {"a": [1, 2.5, null], "b": "\xc3\xa9"}}').value == b'{"a":[1,2.5,null],"b":"\xc3\xa9"}'
    )
    assert parse_json(b'{"value": 5}').value == b"5"
    assert parse_json(b'{"key": "k"}').value is None


def test_headers_may_be_an_object_too() -> None:
    assert parse_json(b'{"value": "v", "headers": {"a": "1", "b": null}}').headers == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[1]", "an object with key"),
        (b'{"vlaue": 1}', "no such field: vlaue"),
        (b'{"value": "v", "partition": -1}', "partition is a number from 0 up"),
        (b'{"value": "v", "timestamp": "now"}', "timestamp is a number"),
        (b'{"value": "v", "partition": true}', "partition is a number"),
        (b'{"value_base64": "?"}', "no base64"),
        (b'{"value": "v", "headers": 5}', "headers are"),
        (b'{"value": "v", "headers": [["a"]]}', "a header is"),
        (b"\xff", "no JSON"),
    ],
)
def test_what_is_no_record_is_said(line: bytes, said: str) -> None:
    with pytest.raises(BadLine, match=said):
        parse_json(line)


def test_text_is_split_at_the_first_separator() -> None:
    assert parse_text(b"a:b:c", key_separator=None).value == b"a:b:c"
    record = parse_text(b"a:b:c", key_separator=b":")
    assert (record.key, record.value) == (b"a", b"b:c")
    with pytest.raises(BadLine, match="no separator ':'"):
        parse_text(b"abc", key_separator=b":")


@pytest.mark.parametrize(
    ("form", "line"),
    [("value", b"v\n"), ("key-value", b"k|v\n"), ("full", b"1:7 1000 k|v\n")],
)
def test_formats(form: str, line: bytes) -> None:
    assert format_record(consumed(b"k", b"v"), form, key_separator=b"|") == line
    assert b"null" in format_record(consumed(None, None), form, key_separator=b"|")


def test_json_has_the_place_of_a_record() -> None:
    fields = json.loads(format_record(consumed(b"k", b"\xff"), "json", key_separator=b""))
    assert fields == {
        "topic": "t", "partition": 1, "offset": 7, "timestamp": 1000, "key": "k", "value_base64": "/w==", "headers": [],
    }  # fmt: skip
