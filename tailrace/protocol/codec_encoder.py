"""Writes and compiles the encoder of one message at one version: straight-line Python, one `struct` call a run.

    ResponseHeader v1 is:  out += pack0(m.correlation_id)      # ">ix": the empty tagged fields are the pad byte

The function appends to a bytearray that the caller may have begun (with a frame's size and header). Given a list of
chunks, it leaves large record batches out of the bytearray and puts them into the list uncopied, in their place.

A null that cannot be null, a number out of range, and a value that the version has no room for and that may not be
ignored are UnwritableMessage; which field it was, `codec_fault` finds out when the writing has failed. Tagged fields at
their default are left out, the others follow in order of their tags.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.codec_fault import describe_fault
from tailrace.protocol.codec_source import FIXED_FORMATS, STRING_BYTES_MAX, SourceWriter
from tailrace.protocol.errors import UnwritableMessage
from tailrace.protocol.field_plan import FieldPlan, StructPlan
from tailrace.protocol.schema import Array, Bytes, Nested, Records, String, Uuid, WireStruct, WireType
from tailrace.protocol.varint import SHORT_VARINTS, unsigned_varint

HEAD = "def encode(m, out, chunks):"

CHUNK_BYTES_MIN = 4096
"""Record batches from this size on become chunks of their own: below it, copying costs less than another iovec."""

Encoder = Callable[[Any, bytearray, "list[Buffer] | None"], bytearray]


def compile_encoder(plan: StructPlan) -> Encoder:
    """Give a function from (message, bytearray, chunks or None) to the bytearray that is the last chunk."""
    writer = _write(plan)
    encode: Encoder = writer.compile(HEAD, f"<encoder of {plan.cls.__name__} v{plan.version}>")
    return encode


def encoder_source(plan: StructPlan) -> str:
    """Give the text that `compile_encoder` compiles, for a person to read."""
    return _write(plan).source(HEAD)


def _write(plan: StructPlan) -> SourceWriter:
    title = f"{plan.cls.__name__} v{plan.version}"
    generator = _EncoderGenerator(title)
    writer = generator.writer
    with writer.block("try:"):
        generator.structure(plan, "m")
        generator.flush()
        writer.line("return out")
    with writer.block("except errors as error:"):
        writer.line("raise Unwritable(describe_fault(plan, m, error)) from error")
    writer.constants.update(
        errors=(struct.error, UnicodeEncodeError, TypeError, AttributeError),
        Unwritable=UnwritableMessage,
        describe_fault=describe_fault,
        plan=plan,
        not_here=_not_here,
        too_long=_too_long,
        not_uuid=_not_uuid,
        short=SHORT_VARINTS,
        varint=unsigned_varint,
        pack=struct.pack,
    )
    return writer


class _EncoderGenerator:
    """Walks a plan and writes the lines that write it.

    `_run` holds expressions of fixed size that come next; `flush` packs them all at once. An expression of None is a
    zero byte.
    """

    def __init__(self, title: str) -> None:
        self.writer = SourceWriter()
        self._title = title
        self._path: list[str] = []
        self._run: list[tuple[str | None, str]] = []
        self._is_tagged = False

    def structure(self, plan: StructPlan, source: str) -> None:
        """Write the fields of the structure that `source` names."""
        for field in plan.absent:
            self._absent(field, f"{source}.{field.name}", plan.version)
        for field in plan.fields:
            self._field(field, f"{source}.{field.name}")
        if plan.is_flexible:
            self._tagged_fields(plan, source)

    def flush(self) -> None:
        """Pack the run."""
        run, self._run = self._run, []
        if run:
            self._append(run)

    def _append(self, run: list[tuple[str | None, str]]) -> None:
        expressions = [expression for expression, _ in run if expression is not None]
        if not expressions:
            self.writer.line(f"out += {bytes(len(run))!r}")
            return
        layout = struct.Struct(">" + "".join("x" if expression is None else code for expression, code in run))
        pack = self.writer.constant("pack", layout.pack, layout.format)
        self.writer.line(f"out += {pack}({', '.join(expressions)})")

    def _where(self) -> str:
        return repr(f"{self._title}: {'.'.join(self._path)}")

    def _absent(self, field: FieldPlan, expression: str, version: int) -> None:
        if field.wire.ignorable:
            return
        self._path.append(field.name)
        with self.writer.block(f"if {self._is_set(field, expression)}:"):
            self.writer.line(f"not_here({self._where()}, {version}, {expression})")
        self._path.pop()

    def _is_set(self, field: FieldPlan, expression: str) -> str:
        """Give a condition that holds when a field has another value than its default."""
        default = field.default
        if default is None:
            return f"{expression} is not None"
        if default == [] or default == "":
            return f"({expression} or {expression} is None)"
        if isinstance(default, bool):
            return f"{'not ' if default else ''}{expression}"
        if isinstance(default, WireStruct):
            constant = self.writer.constant("DEFAULT_", default)
            return f"({expression} is not {constant} and {expression} != {constant})"
        return f"{expression} != {default!r}"

    def _field(self, field: FieldPlan, expression: str) -> None:
        self._path.append(field.name)
        if isinstance(field.wire, Nested):
            self._nested(field, expression)
        elif isinstance(field.wire, Array):
            self._array(field, expression)
        else:
            self._value(field.wire, expression, is_flexible=field.is_flexible, is_nullable=field.is_nullable)
        self._path.pop()

    def _value(self, wire: WireType, expression: str, *, is_flexible: bool, is_nullable: bool) -> None:
        if isinstance(wire, String | Bytes):
            self._sized(wire, expression, is_flexible=is_flexible, is_nullable=is_nullable)
            return
        if isinstance(wire, Uuid):
            value = self.writer.fresh("v")
            self.writer.line(f"{value} = {expression}")
            self.writer.line(f"if len({value}) != 16: not_uuid({self._where()}, {value})")
            expression = value
        self._run.append((expression, FIXED_FORMATS[type(wire)]))

    def _sized(self, wire: String | Bytes, expression: str, *, is_flexible: bool, is_nullable: bool) -> None:
        writer = self.writer
        value = writer.fresh("v")
        writer.line(f"{value} = {expression}")
        code = "h" if isinstance(wire, String) else "i"
        if not is_nullable:
            self._content(wire, value, code, is_flexible=is_flexible)
            return
        run = list(self._run)
        with writer.block(f"if {value} is None:"):
            self._append([*run, (None, "B") if is_flexible else ("-1", code)])
        with writer.block("else:"):
            self._run = run
            self._content(wire, value, code, is_flexible=is_flexible)

    def _content(self, wire: String | Bytes, value: str, code: str, *, is_flexible: bool) -> None:
        """Write the length, together with the run, and the bytes."""
        writer = self.writer
        size = writer.fresh("n")
        if isinstance(wire, String):
            writer.line(f"{value} = {value}.encode()")
        writer.line(f"{size} = len({value}){' + 1' if is_flexible else ''}")
        self._length(size, code, is_flexible=is_flexible, string=value if isinstance(wire, String) else None)
        if not isinstance(wire, Records) or self._is_tagged:
            writer.line(f"out += {value}")
            return
        with writer.block(f"if chunks is None or {size} < {CHUNK_BYTES_MIN}:"):
            writer.line(f"out += {value}")
        with writer.block("else:"):
            writer.line("chunks.append(out)")
            writer.line(f"chunks.append({value})")
            writer.line("out = bytearray()")

    def _length(self, size: str, code: str, *, is_flexible: bool, string: str | None = None) -> None:
        """Write the run with a length behind it; a varint of one byte, the usual case, goes into the same call."""
        writer = self.writer
        run = list(self._run)
        check = f"if {size} > {STRING_BYTES_MAX + is_flexible}: too_long({self._where()}, {string})"
        if not is_flexible:
            if string is not None:
                writer.line(check)
            self._run.append((size, code))
            self.flush()
            return
        self._run = []
        if not run and string is None:
            writer.line(f"out += short[{size}] if {size} < 128 else varint({size})")
            return
        with writer.block(f"if {size} < 128:"):
            if run:
                self._append([*run, (size, "B")])
            else:
                writer.line(f"out += short[{size}]")
        with writer.block("else:"):
            if string is not None:
                writer.line(check)
            if run:
                self._append(run)
            writer.line(f"out += varint({size})")

    def _nested(self, field: FieldPlan, expression: str) -> None:
        assert field.struct is not None
        writer = self.writer
        value = writer.fresh("v")
        writer.line(f"{value} = {expression}")
        if not field.is_nullable:
            self.structure(field.struct, value)
            return
        run = list(self._run)
        with writer.block(f"if {value} is None:"):
            self._append([*run, ("-1" if field.tag is None else "0", "b")])
        with writer.block("else:"):
            self._run = [*run, ("1", "b")]
            self.structure(field.struct, value)
            self.flush()

    def _array(self, field: FieldPlan, expression: str) -> None:
        writer = self.writer
        value = writer.fresh("v")
        writer.line(f"{value} = {expression}")
        if not field.is_nullable:
            self._elements(field, value)
            return
        run = list(self._run)
        with writer.block(f"if {value} is None:"):
            self._append([*run, (None, "B") if field.is_flexible else ("-1", "i")])
        with writer.block("else:"):
            self._run = run
            self._elements(field, value)

    def _elements(self, field: FieldPlan, value: str) -> None:
        writer = self.writer
        count, element = writer.fresh("n"), writer.fresh("e")
        writer.line(f"{count} = len({value}){' + 1' if field.is_flexible else ''}")
        self._length(count, "i", is_flexible=field.is_flexible)
        if field.element is not None and type(field.element) in FIXED_FORMATS and not isinstance(field.element, Uuid):
            writer.line(f'if {value}: out += pack(f">{{len({value})}}{FIXED_FORMATS[type(field.element)]}", *{value})')
            return
        with writer.block(f"for {element} in {value}:"):
            if field.struct is not None:
                self.structure(field.struct, element)
            else:
                assert field.element is not None
                self._value(field.element, element, is_flexible=field.is_flexible, is_nullable=False)
            self.flush()

    def _tagged_fields(self, plan: StructPlan, source: str) -> None:
        """Write the tagged fields that are not at their default; without any, a zero that joins the run."""
        writer = self.writer
        if not plan.tagged:
            self._run.append((None, "B"))
            return
        run, self._run = self._run, []
        conditions = [self._is_set(field, f"{source}.{field.name}") for field in plan.tagged]
        with writer.block(f"if {' or '.join(conditions)}:"):
            if run:
                self._append(run)
            count, saved, section = writer.fresh("t"), writer.fresh("out"), writer.fresh("s")
            writer.line(f"{count}, {saved}, {section} = 0, out, bytearray()")
            was_tagged, self._is_tagged = self._is_tagged, True
            for field, condition in zip(plan.tagged, conditions, strict=True):
                with writer.block("if True:" if len(conditions) == 1 else f"if {condition}:"):
                    writer.line(f"{count} += 1")
                    writer.line("out = bytearray()")
                    self._field(field, f"{source}.{field.name}")
                    self.flush()
                    writer.line(f"{section} += {unsigned_varint(field.tag or 0)!r} + varint(len(out)) + out")
            self._is_tagged = was_tagged
            writer.line(f"out = {saved}")
            writer.line(f"out += varint({count}) + {section}")
        with writer.block("else:"):
            self._append([*run, (None, "B")])


def _not_here(where: str, version: int, value: object) -> NoReturn:
    raise UnwritableMessage(f"{where}: version {version} cannot carry {value!r:.100}")


def _too_long(where: str, value: bytes) -> NoReturn:
    raise UnwritableMessage(f"{where}: a string of {len(value)} bytes; the limit is {STRING_BYTES_MAX}")


def _not_uuid(where: str, value: bytes) -> NoReturn:
    raise UnwritableMessage(f"{where}: a uuid has 16 bytes, not {len(value)}")
