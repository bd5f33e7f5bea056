"""Messages as JSON, in the form that Apache Kafka's own JSON converters write and read.

Fields have their camel-case names; bytes and records are base64, uuids their 22 characters; a field that the version
lacks is left out, and so is a tagged field at its default. For debugging tools and golden tests: nothing here is quick,
and none of it is on the way of a request.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any, TypeVar, cast

from tailrace.protocol.field_plan import FieldPlan, StructPlan, plan_message
from tailrace.protocol.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Message,
    Nested,
    String,
    Uuid,
    WireStruct,
    WireType,
)
from tailrace.protocol.uuid import parse_uuid, uuid_text

M = TypeVar("M", bound=Message)

JsonObject = dict[str, Any]


def message_to_json(message: Message, version: int) -> JsonObject:
    """Give the JSON form of a message at one version."""
    return _struct_to_json(plan_message(type(message), version), message)


def message_from_json(cls: type[M], version: int, form: JsonObject) -> M:
    """Make a message of its JSON form; ValueError says which field is missing, unknown or of a wrong type."""
    return cast("M", _struct_from_json(plan_message(cls, version), form, cls.__name__))


def _struct_to_json(plan: StructPlan, value: WireStruct) -> JsonObject:
    names = {field.name: field for field in plan.present()}
    form: JsonObject = {}
    for name in plan.cls.field_defaults:
        field = names.get(name)
        if field is None:
            continue
        content = getattr(value, name)
        if field.tag is None or content != field.default:
            form[field.json_name] = None if content is None else _field_to_json(field, content)
    return form


def _field_to_json(field: FieldPlan, content: Any) -> Any:
    if isinstance(field.wire, Array):
        if field.struct is not None:
            return [_struct_to_json(field.struct, element) for element in content]
        assert field.element is not None
        return [_value_to_json(field.element, element) for element in content]
    if field.struct is not None:
        return _struct_to_json(field.struct, content)
    return _value_to_json(field.wire, content)


def _value_to_json(wire: WireType, content: Any) -> Any:
    if isinstance(wire, Bytes):
        return base64.b64encode(content).decode("ascii")
    if isinstance(wire, Uuid):
        return uuid_text(content)
    if isinstance(wire, Bool):
        return bool(content)
    if isinstance(wire, Float64):
        # Jackson writes what JSON has no number for as text: "NaN", "Infinity", "-Infinity".
        return content if math.isfinite(content) else _NON_FINITE[str(content)]
    return content if isinstance(wire, String) else int(content)


_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _struct_from_json(plan: StructPlan, form: Any, path: str) -> WireStruct:
    if not isinstance(form, dict):
        raise ValueError(f"{path} is not an object: {form!r:.100}")
    rest = dict(cast("JsonObject", form))
    values: dict[str, Any] = {}
    for field in plan.present():
        where = f"{path}.{field.json_name}"
        if field.json_name in rest:
            values[field.name] = _field_from_json(field, rest.pop(field.json_name), where)
        elif field.tag is None:
            raise ValueError(f"{where} is missing; version {plan.version} has it")
    if rest:
        raise ValueError(f"{path} has no {', '.join(sorted(rest))} in version {plan.version}")
    return plan.cls(**values)


def _field_from_json(field: FieldPlan, form: Any, where: str) -> Any:
    if form is None:
        if not field.is_nullable:
            raise ValueError(f"{where} is null")
        return None
    if isinstance(field.wire, Array):
        elements = [(f"{where}[{index}]", element) for index, element in enumerate(_checked_list(form, where))]
        if field.struct is not None:
            return [_struct_from_json(field.struct, element, path) for path, element in elements]
        assert field.element is not None
        return [_value_from_json(field.element, element, path) for path, element in elements]
    if isinstance(field.wire, Nested):
        assert field.struct is not None
        return _struct_from_json(field.struct, form, where)
    return _value_from_json(field.wire, form, where)


def _checked_list(form: Any, where: str) -> list[Any]:
    if not isinstance(form, list):
        raise ValueError(f"{where} is not an array: {form!r:.100}")
    return form  # pyright: ignore[reportUnknownVariableType]


def _value_from_json(wire: WireType, form: Any, where: str) -> Any:
    if isinstance(wire, Float64):
        if isinstance(form, int | float) and not isinstance(form, bool):
            return float(form)
        if isinstance(form, str) and form in _NON_FINITE.values():
            return float(form)
        raise ValueError(f"{where} is not a number: {form!r:.100}")
    expected = bool if isinstance(wire, Bool) else str if isinstance(wire, String | Bytes | Uuid) else int
    if type(form) is not expected:
        raise ValueError(f"{where} is not of type {expected.__name__}: {form!r:.100}")
    return _text_from_json(wire, form, where) if isinstance(form, str) else form


def _text_from_json(wire: WireType, form: str, where: str) -> str | bytes:
    if isinstance(wire, Uuid):
        try:
            return parse_uuid(form)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
    if isinstance(wire, Bytes):
        try:
            return base64.b64decode(form, validate=True)
        except binascii.Error as error:
            raise ValueError(f"{where} is not base64: {error}") from error
    return form
