"""What a declaration means at one version.

`plan_message` reads the annotations of a class once and gives, for one version, the fields that travel and those that
do not, with nullability, flexibility and tag resolved. The compiled codec, the `construct` schema and the JSON form are
all made from this one reading, so that they can disagree only in what they do with it.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tailrace.protocol.schema import Array, Message, Nested, WireStruct, WireType, default_of


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """One field at one version.

    `struct` is the class of a nested structure or of an array's elements; `element` the wire type of an array's
    elements where they are no structures. `tag` is None for a field that travels in its place. `default` is only
    looked at, never handed out.
    """

    name: str
    wire: WireType
    struct: StructPlan | None
    element: WireType | None
    is_nullable: bool
    is_flexible: bool
    tag: int | None
    default: Any

    @property
    def json_name(self) -> str:
        """The name in Kafka's message descriptions: camel case."""
        first, *rest = self.name.split("_")
        return first + "".join(word[:1].upper() + word[1:] for word in rest)


@dataclass(frozen=True, slots=True)
class StructPlan:
    """One structure at one version: fields in their order on the wire, tagged fields by tag, and what is left out."""

    cls: type[WireStruct]
    version: int
    is_flexible: bool
    fields: tuple[FieldPlan, ...]
    tagged: tuple[FieldPlan, ...]
    absent: tuple[FieldPlan, ...]

    def present(self) -> Iterator[FieldPlan]:
        """Go through all fields that the version carries."""
        yield from self.fields
        yield from self.tagged


@cache
def plan_message(cls: type[Message], version: int) -> StructPlan:
    """Give the plan of a message, or raise ValueError for a version that it does not have."""
    if version not in cls.versions:
        raise ValueError(f"{cls.__name__} has versions {cls.versions}, not {version}")
    return _plan_struct(cls, version, version in cls.flexible)


@cache
def declared_fields(cls: type[WireStruct]) -> tuple[tuple[str, WireType, type[WireStruct] | None], ...]:
    """Give name, wire type and structure (of the field or of its elements) of every field, in the order declared."""
    hints = typing.get_type_hints(cls, include_extras=True)
    declared: list[tuple[str, WireType, type[WireStruct] | None]] = []
    for name in cls.field_defaults:
        value_type, wire = typing.get_args(hints[name])
        has_struct = isinstance(wire, Nested) or (isinstance(wire, Array) and wire.of is None)
        declared.append((name, wire, _find_struct(value_type) if has_struct else None))
    return tuple(declared)


def _find_struct(value_type: Any) -> type[WireStruct]:
    """Find the structure in `X`, `X | None`, `list[X]` or `list[X] | None`."""
    for candidate in (value_type, *typing.get_args(value_type)):
        if isinstance(candidate, type) and issubclass(candidate, WireStruct):
            return candidate
        for inner in typing.get_args(candidate):
            if isinstance(inner, type) and issubclass(inner, WireStruct):
                return inner
    raise TypeError(f"{value_type} has no structure for its Nested or Array")


def _plan_struct(cls: type[WireStruct], version: int, is_flexible: bool) -> StructPlan:
    present: list[FieldPlan] = []
    absent: list[FieldPlan] = []
    for name, wire, struct in declared_fields(cls):
        is_present = version in wire.versions
        field = FieldPlan(
            name=name,
            wire=wire,
            struct=_plan_struct(struct, version, is_flexible) if struct is not None and is_present else None,
            element=wire.of if isinstance(wire, Array) else None,
            is_nullable=version in wire.nullable,
            is_flexible=is_flexible if wire.flexible is None else version in wire.flexible,
            tag=wire.tag if version in wire.tagged else None,
            default=default_of(cls, name),
        )
        (present if is_present else absent).append(field)
    return StructPlan(
        cls=cls,
        version=version,
        is_flexible=is_flexible,
        fields=tuple(field for field in present if field.tag is None),
        tagged=tuple(sorted((field for field in present if field.tag is not None), key=lambda field: field.tag or 0)),
        absent=tuple(absent),
    )
