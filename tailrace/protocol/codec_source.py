"""The bench on which the codec's Python source is put together: lines, indentation, constants and fresh names.

Both generators fuse neighbouring fields of fixed size into one `struct` call, and both need to know how few bytes a
value can take; that is here too. What the lines say is left to `codec_decoder` and `codec_encoder`.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tailrace.protocol.field_plan import FieldPlan, StructPlan
from tailrace.protocol.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Nested,
    String,
    UInt16,
    UInt32,
    Uuid,
    WireStruct,
    WireType,
)

FIXED_FORMATS: dict[type[WireType], str] = {
    Bool: "?",
    Int8: "b",
    Int16: "h",
    UInt16: "H",
    Int32: "i",
    UInt32: "I",
    Int64: "q",
    Float64: "d",
    Uuid: "16s",
}
"""The `struct` code of each wire type whose size never varies."""

STRING_BYTES_MAX = 32767
"""A string's limit, also in flexible versions, where the length could say more: Kafka refuses longer ones."""


class SourceWriter:
    """Lines of one function, and the constants that they name."""

    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 1
        self._counts: dict[str, int] = {}
        self._constant_names: dict[tuple[str, Any], str] = {}

    def line(self, text: str) -> None:
        """Add one line at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Add a line that opens a block, and indent what follows."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """Give a local name that nobody has yet."""
        count = self._counts.get(prefix, 0)
        self._counts[prefix] = count + 1
        return f"{prefix}{count}"

    def constant(self, prefix: str, value: Any, key: Any = None) -> str:
        """Give the name under which the function finds `value`; the same name for the same key."""
        key = (prefix, id(value) if key is None else key)
        name = self._constant_names.get(key)
        if name is None:
            name = self._constant_names[key] = self.fresh(prefix)
            self.constants[name] = value
        return name

    def default(self, field: FieldPlan) -> str:
        """Give an expression for the default of a field."""
        value = field.default
        if isinstance(value, list):
            return "[]"
        if not isinstance(value, WireStruct):
            return repr(value)
        if type(value).__setattr__ is object.__setattr__:
            return f"{self.constant('Type', type(value))}()"
        return self.constant("DEFAULT_", value)

    def compile(self, head: str, file_name: str) -> Any:
        """Compile the function and give it."""
        source = self.source(head)
        exec(compile(source, file_name, "exec"), self.constants)
        return self.constants[head.partition("(")[0].removeprefix("def ")]

    def source(self, head: str) -> str:
        """Give the function's text."""
        return "\n".join([head, *self._lines, ""])


def smallest_size(field: FieldPlan) -> int:
    """Give the fewest bytes that a field can take where it is not tagged."""
    if isinstance(field.wire, Nested):
        return 1 if field.is_nullable or field.struct is None else smallest_struct_size(field.struct)
    return smallest_value_size(field.wire, is_flexible=field.is_flexible)


def smallest_value_size(wire: WireType, *, is_flexible: bool) -> int:
    """Give the fewest bytes of a value that is not a structure."""
    if isinstance(wire, String):
        return 1 if is_flexible else 2
    if isinstance(wire, Bytes | Array):
        return 1 if is_flexible else 4
    return struct.calcsize(">" + FIXED_FORMATS[type(wire)])


def smallest_struct_size(plan: StructPlan) -> int:
    """Give the fewest bytes that a structure can take; at least one, so that a count is bounded by what is left."""
    return max(1, sum(smallest_size(field) for field in plan.fields) + (1 if plan.is_flexible else 0))
