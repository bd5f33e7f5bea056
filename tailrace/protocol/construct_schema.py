"""Messages as `construct` declarations: the second, independent reading of every schema.

`construct_schema(cls, version)` gives a Struct that parses to and builds from plain values: numbers, text, bytes, lists
and mappings; tagged fields stand together under the name `tagged`. It is fifty times slower than the compiled codec and
shares nothing with it but the plan, so property tests hold both equal, and people and tools that know `construct` can
look into a message with it. `plain_values` gives a message in that same form.
"""
# pyright: basic
# `construct` has no types: strict mode would ask for an annotation at each of its combinators, and learn nothing.

from __future__ import annotations

from functools import cache
from typing import Any

import construct

from tailrace.protocol.field_plan import FieldPlan, StructPlan, plan_message
from tailrace.protocol.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Nested,
    String,
    UInt16,
    UInt32,
    Uuid,
    WireStruct,
    WireType,
)

_FIXED: dict[type[WireType], Any] = {
    Bool: construct.Flag,
    Int8: construct.Int8sb,
    Int16: construct.Int16sb,
    UInt16: construct.Int16ub,
    Int32: construct.Int32sb,
    UInt32: construct.Int32ub,
    Int64: construct.Int64sb,
    Float64: construct.Float64b,
    Uuid: construct.Bytes(16),
}

_compact_length = construct.ExprAdapter(construct.VarInt, lambda wire, _: wire - 1, lambda length, _: length + 1)
"""Length + 1 as a varint, so that zero is null."""


@cache
def construct_schema(cls: type[Message], version: int) -> construct.Struct:
    """Give the Struct of a message at one version."""
    return _struct(plan_message(cls, version))


def plain_values(message: Message, version: int) -> dict[str, Any]:
    """Give a message as the values that `construct_schema` parses to and builds from."""
    return _plain_struct(plan_message(type(message), version), message)


def _struct(plan: StructPlan) -> construct.Struct:
    fields = [field.name / _field(field) for field in plan.fields]
    if plan.is_flexible:
        fields.append("tagged" / _tagged_fields(plan.tagged))
    return construct.Struct(*fields)


def _field(field: FieldPlan) -> Any:
    if isinstance(field.wire, Array):
        count = _compact_length if field.is_flexible else construct.Int32sb
        if field.struct is not None:
            element = _struct(field.struct)
        else:
            assert field.element is not None
            element = _value(field.element, is_flexible=field.is_flexible)
        return _counted(count, construct.Array(lambda context: context.count, element))
    if isinstance(field.wire, Nested):
        assert field.struct is not None
        structure = _struct(field.struct)
        return _optional(structure, absent=-1 if field.tag is None else 0) if field.is_nullable else structure
    return _value(field.wire, is_flexible=field.is_flexible)


def _value(wire: WireType, *, is_flexible: bool) -> Any:
    if isinstance(wire, String):
        content = _counted(_compact_length if is_flexible else construct.Int16sb, _content)
        return construct.ExprAdapter(
            content,
            lambda data, _: None if data is None else data.decode("utf-8"),
            lambda text, _: None if text is None else text.encode("utf-8"),
        )
    if isinstance(wire, Bytes):
        return _counted(_compact_length if is_flexible else construct.Int32sb, _content)
    return _FIXED[type(wire)]


_content = construct.Bytes(lambda context: context.count)


def _counted(count: Any, content: Any) -> Any:
    """Put a count in front that says null when it is negative."""
    return construct.FocusedSeq(
        "content",
        "count" / construct.Rebuild(count, lambda context: -1 if context.content is None else len(context.content)),
        "content" / construct.IfThenElse(lambda context: context.count < 0, construct.Pass, content),
    )


def _optional(structure: Any, *, absent: int) -> Any:
    """Put a byte in front: 1, or `absent` for null."""
    return construct.FocusedSeq(
        "content",
        "presence" / construct.Rebuild(construct.Int8sb, lambda context: absent if context.content is None else 1),
        "content" / construct.IfThenElse(lambda context: context.presence <= absent, construct.Pass, structure),
    )


def _tagged_fields(fields: tuple[FieldPlan, ...]) -> Any:
    """Parse all tagged fields that the version knows; build those that are not at their default."""
    known = [(field, _field(field), _plain_field(field, field.default)) for field in fields]

    def decode(entries: Any, _: Any) -> Any:
        found = {entry.tag: entry.data for entry in entries}
        return construct.Container(
            (field.name, schema.parse(found[field.tag]) if field.tag in found else default)
            for field, schema, default in known
        )

    def encode(values: Any, _: Any) -> Any:
        return [
            {"tag": field.tag, "data": schema.build(values[field.name])}
            for field, schema, default in known
            if values[field.name] != default
        ]

    data = construct.Prefixed(construct.VarInt, construct.GreedyBytes)
    entries = construct.PrefixedArray(
        construct.VarInt, construct.Struct(construct.Renamed(construct.VarInt, "tag"), construct.Renamed(data, "data"))
    )
    return construct.ExprAdapter(entries, decode, encode)


def _plain_struct(plan: StructPlan, value: WireStruct) -> dict[str, Any]:
    plain = {field.name: _plain_field(field, getattr(value, field.name)) for field in plan.fields}
    if plan.is_flexible:
        plain["tagged"] = {field.name: _plain_field(field, getattr(value, field.name)) for field in plan.tagged}
    return plain


def _plain_field(field: FieldPlan, value: Any) -> Any:
    if isinstance(value, memoryview):
        return bytes(value)
    if field.struct is None or value is None:
        return value
    if isinstance(value, list):
        return [_plain_struct(field.struct, element) for element in value]
    return _plain_struct(field.struct, value)
