"""Random messages of any declaration, and how one message looks at each version."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from tailrace.protocol.field_plan import FieldPlan, StructPlan, declared_fields, plan_message
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
    String,
    UInt16,
    UInt32,
    Uuid,
    WireStruct,
    WireType,
    default_of,
)

LIMITS: dict[type[WireType], tuple[int, int]] = {
    Int8: (-(2**7), 2**7 - 1),
    Int16: (-(2**15), 2**15 - 1),
    UInt16: (0, 2**16 - 1),
    Int32: (-(2**31), 2**31 - 1),
    UInt32: (0, 2**32 - 1),
    Int64: (-(2**63), 2**63 - 1),
}

text = st.text(st.characters(codec="utf-8"), max_size=6)
texts = text | text.map(lambda value: value * 70)
binaries = st.binary(max_size=6) | st.binary(max_size=3).map(lambda value: value * 60)


def values_of(wire: WireType) -> st.SearchStrategy[Any]:
    if type(wire) in LIMITS:
        first, last = LIMITS[type(wire)]
        return st.sampled_from([first, -1 if first else 1, 0, last]) | st.integers(first, last)
    if isinstance(wire, Bool):
        return st.booleans()
    if isinstance(wire, Float64):
        return st.floats(allow_nan=False)
    if isinstance(wire, Uuid):
        return st.binary(min_size=16, max_size=16)
    if isinstance(wire, String):
        return texts
    assert isinstance(wire, Bytes)
    return binaries


@cache
def structs_of(cls: type[WireStruct]) -> st.SearchStrategy[Any]:
    """Structures with any value in any field, also in fields that some version lacks."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, wire, struct in declared_fields(cls):
        values = structs_of(struct) if struct is not None else None
        if isinstance(wire, Array):
            if values is None:
                assert wire.of is not None
                values = values_of(wire.of)
                values = st.lists(values, max_size=2) | st.lists(values, max_size=1).map(lambda found: found * 130)
            else:
                values = st.lists(values, min_size=1, max_size=2)
        elif values is None:
            values = values_of(wire)
        if wire.nullable.first <= wire.nullable.last:
            values = values | st.none()
        fields[name] = values | st.just(default_of(cls, name))
    return st.builds(cls, **fields)


def at_version(message: Message, version: int) -> Any:
    """Give the message as far as the version can carry it."""
    return _struct_at_version(plan_message(type(message), version), message)


def _struct_at_version(plan: StructPlan, value: WireStruct) -> WireStruct:
    fields = {field.name: _field_at_version(field, getattr(value, field.name)) for field in plan.present()}
    return plan.cls(**fields)


def _field_at_version(field: FieldPlan, value: Any) -> Any:
    if value is None:
        if field.is_nullable:
            return None
        if field.default is not None:
            return field.default
        return b"" if field.struct is None else field.struct.cls()
    if field.struct is None:
        return value
    if isinstance(value, list):
        return [_struct_at_version(field.struct, element) for element in value]
    return _struct_at_version(field.struct, value)
