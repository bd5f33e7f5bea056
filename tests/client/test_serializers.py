"""Values to bytes and back, and what is no such value."""

from __future__ import annotations

from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tailrace.client.serializers import (
    JsonDeserializer,
    JsonSerializer,
    StringDeserializer,
    StringSerializer,
    deserialize_bytes,
    serialize_bytes,
)
from tailrace.client.serializers.arrow import ArrowDeserializer, ArrowSerializer
from tailrace.client.serializers.avro import AvroDeserializer, AvroSerializer, Framing, schema_fingerprint

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}],
}
WIDER = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "delay", "type": "long"},
        {"name": "tail", "type": ["null", "string"], "default": None},
    ],
}
VALUE = {"carrier": "UA", "delay": -3}
BODY = bytes([4]) + b"UA" + bytes([5])


def test_bytes_stay_what_they_are() -> None:
    assert serialize_bytes(memoryview(b"ab")[1:]) == b"b"
    assert deserialize_bytes(b"ab") == b"ab"


def test_texts_go_round() -> None:
    assert StringDeserializer()(StringSerializer()("Zürich")) == "Zürich"
    assert StringSerializer("latin-1")("ü") == b"\xfc"
    assert StringDeserializer(errors="replace")(b"\xff") == "\ufffd"
    with pytest.raises(UnicodeDecodeError):
        StringDeserializer()(b"\xff")
    with pytest.raises(TypeError, match="int is no str"):
        StringSerializer()(5)  # type: ignore[arg-type]


def test_json_goes_round() -> None:
    value = {"b": [1, 2.5, None], "a": "ü"}
    assert JsonSerializer()(value) == '{"b":[1,2.5,null],"a":"ü"}'.encode()
    assert JsonSerializer(sort_keys=True, default=str)({"b": 1j, "a": 2}) == b'{"a":2,"b":"1j"}'
    assert JsonDeserializer()(JsonSerializer()(value)) == value
    assert JsonDeserializer(object_hook=lambda found: sorted(found))(b'{"b":1,"a":2}') == ["a", "b"]
    for wrong in (float("nan"), {1, 2}):
        with pytest.raises((TypeError, ValueError)):
            JsonSerializer()(wrong)
    with pytest.raises(ValueError, match="Expecting value"):
        JsonDeserializer()(b"hello")


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_arrow_goes_round(compression: str | None) -> None:
    table = pa.table({"carrier": ["UA", None], "delay": [1, 2]})
    serialize = ArrowSerializer(compression=compression)
    for value in (table, table.to_batches()[0]):
        assert ArrowDeserializer()(serialize(value)).equals(table)
    with pytest.raises(TypeError, match="list is neither"):
        serialize([1])


def test_avro_is_the_bytes_of_its_specification() -> None:
    assert AvroSerializer(FLIGHT)(VALUE) == BODY
    assert AvroDeserializer(FLIGHT)(BODY) == VALUE
    # The specification's example of a fingerprint: "null" is 7195948357588979594.
    assert schema_fingerprint("null") == (7195948357588979594).to_bytes(8, "little")


def test_avro_says_by_which_schema_a_value_was_written() -> None:
    single = AvroSerializer(FLIGHT, framing=Framing.SINGLE_OBJECT)(VALUE)
    assert single == b"\xc3\x01" + schema_fingerprint(FLIGHT) + BODY
    registered = AvroSerializer(FLIGHT, framing=Framing.REGISTRY, schema_id=7)(VALUE)
    assert registered == b"\0\0\0\0\7" + BODY
    wide = {**VALUE, "tail": None}
    asked: list[Any] = []

    def schema_of(key: int) -> dict[str, Any]:
        asked.append(key)
        return FLIGHT

    read = AvroDeserializer(WIDER, framing=Framing.REGISTRY, schema_of=schema_of)
    assert [read(registered), read(registered)] == [wide, wide]
    assert asked == [7], "an answer is kept"
    by_fingerprint = {schema_fingerprint(FLIGHT): FLIGHT}
    assert AvroDeserializer(framing=Framing.SINGLE_OBJECT, schema_of=by_fingerprint)(single) == VALUE
    assert AvroDeserializer(WIDER, framing=Framing.SINGLE_OBJECT, schema_of=by_fingerprint)(single) == wide
    assert AvroDeserializer(FLIGHT, framing=Framing.SINGLE_OBJECT)(single) == VALUE
    assert AvroDeserializer(FLIGHT, framing=Framing.REGISTRY)(registered) == VALUE


def test_values_that_do_not_fit_are_refused() -> None:
    for value in ({"carrier": "UA"}, {**VALUE, "tail": "N1"}, {"carrier": 5, "delay": 1}, 7):
        with pytest.raises((ValueError, TypeError, AttributeError)):
            AvroSerializer(FLIGHT)(value)
    with pytest.raises(ValueError, match="1 bytes are left over"):
        AvroDeserializer(FLIGHT)(BODY + b"\0")
    with pytest.raises(EOFError):
        AvroDeserializer(FLIGHT)(BODY[:2])
    with pytest.raises(ValueError, match="another schema"):
        AvroDeserializer(WIDER, framing=Framing.SINGLE_OBJECT)(b"\xc3\x01" + bytes(8) + BODY)
    with pytest.raises(ValueError, match="C3 01"):
        AvroDeserializer(FLIGHT, framing=Framing.SINGLE_OBJECT)(BODY)
    for data in (b"\0\0", b"\1" + bytes(4) + BODY):
        with pytest.raises(ValueError, match="id of a schema"):
            AvroDeserializer(FLIGHT, framing=Framing.REGISTRY)(data)


def test_what_cannot_be_told_apart_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="schema_id"):
        AvroSerializer(FLIGHT, framing=Framing.REGISTRY)
    with pytest.raises(ValueError, match="schema_id"):
        AvroSerializer(FLIGHT, schema_id=1)
    with pytest.raises(ValueError, match="give the schema"):
        AvroDeserializer()
    with pytest.raises(fastavro.schema.UnknownType):
        AvroSerializer({"type": "nothing"})
