"""A message as an indented tree: one line a field, with error codes, API keys and record batches spelled out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tailrace.cli.wire_dump import FoundMessage
from tailrace.protocol.api_keys import APIS
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.field_plan import FieldPlan, StructPlan, plan_message
from tailrace.protocol.records.batch_header import iterate_batch_headers
from tailrace.protocol.schema import Array, Bytes, Message, Records, Uuid, WireStruct, WireType
from tailrace.protocol.uuid import uuid_text

INDENT = "  "
BYTES_SHOWN = 32


def render(found: FoundMessage) -> Iterator[str]:
    """Give the lines of a message, header first."""
    if found.header is not None:
        yield from _render_message(found.header, found.header_version)
    yield from _render_message(found.message, found.version, f", {found.body_bytes} bytes")


def _render_message(message: Message, version: int, note: str = "") -> Iterator[str]:
    key = "" if message.api_key is None else f" (key {message.api_key})"
    yield f"{type(message).__name__} v{version}{key}{note}"
    yield from _render_struct(plan_message(type(message), version), message, INDENT)


def _render_struct(plan: StructPlan, value: WireStruct, indent: str) -> Iterator[str]:
    fields = {field.name: field for field in plan.present()}
    for name in plan.cls.field_defaults:
        field = fields.get(name)
        if field is not None:
            yield from _render_field(field, getattr(value, name), indent)


def _render_field(field: FieldPlan, content: Any, indent: str) -> Iterator[str]:
    head = f"{indent}{field.json_name}"
    tag = "" if field.tag is None else f"  (tag {field.tag}{', default' if content == field.default else ''})"
    if content is None:
        yield f"{head}: null{tag}"
    elif isinstance(field.wire, Array):
        yield f"{head}: {len(content)} {'element' if len(content) == 1 else 'elements'}{tag}"
        for index, element in enumerate(content):
            if field.struct is None:
                assert field.element is not None
                yield f"{indent}{INDENT}[{index}] {_render_value(field.json_name, field.element, element)}"
            else:
                yield f"{indent}{INDENT}[{index}]"
                yield from _render_struct(field.struct, element, indent + INDENT * 2)
    elif field.struct is not None:
        yield f"{head}{tag}"
        yield from _render_struct(field.struct, content, indent + INDENT)
    elif isinstance(field.wire, Records):
        yield f"{head}: {len(content)} bytes{tag}"
        yield from _render_batches(content, indent + INDENT)
    else:
        yield f"{head}: {_render_value(field.json_name, field.wire, content)}{tag}"


def _render_value(name: str, wire: WireType, content: Any) -> str:
    if isinstance(wire, Uuid):
        return uuid_text(content)
    if isinstance(wire, Bytes):
        shown = bytes(content[:BYTES_SHOWN]).hex(" ") + (" ..." if len(content) > BYTES_SHOWN else "")
        return f"{len(content)} bytes{': ' + shown if shown else ''}"
    if isinstance(content, bool):
        return "true" if content else "false"
    if isinstance(content, str):
        return _quoted(content)
    if name == "errorCode" and content in ErrorCode.__members__.values():
        return f"{content} ({ErrorCode(content).name})"
    if name in ("apiKey", "requestApiKey") and content in APIS:
        return f"{content} ({APIS[content].name})"
    return str(content)


def _quoted(text: str) -> str:
    """Put text between quotation marks; what would move the cursor or end the line is escaped."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else ascii(char)[1:-1] for char in escaped) + '"'


def _render_batches(records: memoryview, indent: str) -> Iterator[str]:
    try:
        for _, header in iterate_batch_headers(records):
            kind = "control " if header.is_control else "transactional " if header.is_transactional else ""
            line = f"{indent}{kind}batch: offsets {header.base_offset} to {header.last_offset}, "
            line += f"{header.records_count} records, {header.size} bytes, {header.compression.name}"
            if header.has_producer_id:
                line += f", producer {header.producer_id} epoch {header.producer_epoch} from {header.base_sequence}"
            yield line
    except MalformedFrame as error:
        yield f"{indent}no batch from here on: {error}"
