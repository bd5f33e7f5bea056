"""Bytes that Kafka's own library wrote decode to the fields it says, and encode back to the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.protocol.codec import decode_message, encode_chunks, encode_message
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.field_plan import StructPlan, plan_message
from tailrace.protocol.json_form import message_from_json, message_to_json
from tests.protocol.vectors import all_type_names, load_vectors


def without_defaults(plan: StructPlan, form: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    """Leave out tagged fields at their default: a few vectors spell them out, and the bytes cannot tell which."""
    fields = {field.json_name: field for field in plan.present()}
    result: dict[str, Any] = {}
    for name, value in form.items():
        field = fields[name]
        if field.tag is not None and name not in example:
            assert value in (None, [], -1, False) or isinstance(value, dict), (name, value)
            continue
        if field.struct is not None and isinstance(value, list):
            assert len(value) == len(example[name])
            pairs = zip(value, example[name], strict=True)
            result[name] = [without_defaults(field.struct, element, other) for element, other in pairs]
        elif field.struct is not None and isinstance(value, dict):
            result[name] = without_defaults(field.struct, value, example[name])
        else:
            result[name] = value
    return result


@pytest.mark.parametrize("type_name", all_type_names())
def test_kafkas_bytes_have_the_fields_kafka_says_and_encode_back_to_the_same(type_name: str) -> None:
    vectors = load_vectors()[type_name]
    cls = vectors[0].message_class
    assert {vector.version for vector in vectors} == set(range(cls.versions.first, cls.versions.last + 1))
    for vector in vectors:
        message = decode_message(cls, vector.version, vector.body)
        form = message_to_json(message, vector.version)
        assert form == without_defaults(plan_message(cls, vector.version), vector.form, form)
        assert encode_message(message, vector.version) == vector.body
        assert b"".join(encode_chunks(message, vector.version)) == vector.body
        remade = message_from_json(cls, vector.version, vector.form)
        assert remade == message
        assert encode_message(remade, vector.version) == vector.body


@pytest.mark.parametrize("type_name", all_type_names())
def test_a_byte_too_few_or_too_many_is_a_malformed_frame(type_name: str) -> None:
    for vector in load_vectors()[type_name]:
        with pytest.raises(MalformedFrame):
            decode_message(vector.message_class, vector.version, vector.body + b"\0")
        if vector.body:
            with pytest.raises(MalformedFrame):
                decode_message(vector.message_class, vector.version, vector.body[:-1])


def test_no_vector_is_left_untested() -> None:
    assert set(load_vectors()) == set(all_type_names())
