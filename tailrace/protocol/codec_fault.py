"""Finds the field for which a message could not be written.

The compiled encoder packs many fields in one call, and `struct` does not say which of them was wrong. Nobody needs to
know quickly: this goes through the message field by field, after the fact.
"""

from __future__ import annotations

import struct
from typing import Any

from tailrace.protocol.codec_source import FIXED_FORMATS
from tailrace.protocol.field_plan import FieldPlan, StructPlan
from tailrace.protocol.schema import Array, Bytes, String, WireStruct, WireType


def describe_fault(plan: StructPlan, message: WireStruct, error: Exception) -> str:
    """Say which field holds what its type cannot; else what the error says."""
    title = f"{plan.cls.__name__} v{plan.version}"
    fault = _struct_fault(plan, message)
    return f"{title}: {fault or error}"


def _struct_fault(plan: StructPlan, value: WireStruct) -> str | None:
    for field in plan.present():
        fault = _field_fault(field, getattr(value, field.name))
        if fault is not None:
            return f"{field.name}{fault}"
    return None


def _field_fault(field: FieldPlan, content: Any) -> str | None:
    if content is None:
        return None if field.is_nullable else " cannot be null"
    is_array = isinstance(field.wire, Array)
    if is_array and not hasattr(content, "__iter__"):
        return f": {content!r:.100} is not a list"
    elements: list[Any] = list(content) if is_array else [content]
    for index, element in enumerate(elements):
        where = f"[{index}]" if is_array else ""
        if field.struct is not None:
            if not isinstance(element, field.struct.cls):
                return f"{where}: {element!r:.100} is not a {field.struct.cls.__name__}"
            fault = _struct_fault(field.struct, element)
            if fault is not None:
                return f"{where}.{fault}"
        elif not _fits(field.element or field.wire, element):
            kind = type(field.element or field.wire).__name__.lower()
            return f"{where}: {element!r:.100} does not fit into {kind}"
    return None


def _fits(wire: WireType, content: Any) -> bool:
    try:
        if isinstance(wire, String):
            content.encode()
        elif isinstance(wire, Bytes):
            memoryview(content)
        elif type(wire) in FIXED_FORMATS:
            struct.pack(">" + FIXED_FORMATS[type(wire)], content)
    except (struct.error, UnicodeEncodeError, TypeError, AttributeError):
        return False
    return True
