"""Writes and compiles the decoder of one message at one version: straight-line Python, one `struct` call a run.

    FetchRequest v4 begins:  message.replica_id, message.max_wait_ms, ..., n0 = unpack0(b, p)
                             p += 21
                             if not 0 <= n0 * 6 <= end - p: bad_count("topics", n0, end - p)

Every length is held against the end of the frame before anything is made of it, and a count against the fewest bytes
that so many elements can take; but not one that came in a single byte, because the bytes that 126 elements lack are
soon missed. Whatever is wrong comes out as MalformedFrame. Unknown tagged fields are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.codec_source import (
    FIXED_FORMATS,
    STRING_BYTES_MAX,
    SourceWriter,
    smallest_struct_size,
    smallest_value_size,
)
from tailrace.protocol.errors import MalformedFrame
from tailrace.protocol.field_plan import FieldPlan, StructPlan
from tailrace.protocol.schema import Array, Bytes, Nested, Records, String, Uuid, WireType
from tailrace.protocol.varint import finish_unsigned_varint, read_unsigned_varint

HEAD = "def decode(b, p):"

Decoder = Callable[[Buffer, int], tuple[Any, int]]


def compile_decoder(plan: StructPlan) -> Decoder:
    """Give a function from (memoryview, position) to (message, position behind it)."""
    writer = _write(plan)
    decode: Decoder = writer.compile(HEAD, f"<decoder of {plan.cls.__name__} v{plan.version}>")
    return decode


def decoder_source(plan: StructPlan) -> str:
    """Give the text that `compile_decoder` compiles, for a person to read."""
    return _write(plan).source(HEAD)


def _write(plan: StructPlan) -> SourceWriter:
    title = f"{plan.cls.__name__} v{plan.version}"
    generator = _DecoderGenerator(title)
    writer = generator.writer
    writer.line("end = len(b)")
    with writer.block("try:"):
        generator.structure(plan, "message")
        generator.flush()
        writer.line("return message, p")
    with writer.block("except errors as error:"):
        writer.line(f"raise malformed({title!r}, error) from error")
    writer.constants.update(
        new=object.__new__,
        errors=(struct.error, IndexError, UnicodeDecodeError),
        malformed=_malformed,
        bad_length=_bad_length,
        bad_count=_bad_count,
        bad_tag=_bad_tag,
        longer=finish_unsigned_varint,
        open_tag=_open_tag,
        pass_tags=_pass_tags,
        unpack_from=struct.unpack_from,
    )
    return writer


class _DecoderGenerator:
    """Walks a plan and writes the lines that read it.

    `_run` holds targets whose bytes are next on the wire and have a fixed size; `flush` reads them all at once.
    """

    def __init__(self, title: str) -> None:
        self.writer = SourceWriter()
        self._title = title
        self._path: list[str] = []
        self._run: list[tuple[str, str]] = []

    def structure(self, plan: StructPlan, target: str) -> None:
        """Make `target` a structure and fill it."""
        writer = self.writer
        writer.line(f"{target} = new({writer.constant('Type', plan.cls)})")
        for field in plan.absent:
            writer.line(f"{target}.{field.name} = {writer.default(field)}")
        for field in plan.fields:
            self._field(field, f"{target}.{field.name}")
        if plan.is_flexible:
            self._tagged_fields(plan, target)

    def flush(self) -> None:
        """Read the run."""
        if not self._run:
            return
        run, self._run = self._run, []
        if len(run) == 1 and run[0][1] == "B":
            self.writer.line(f"{run[0][0]} = b[p]")
            self.writer.line("p += 1")
            return
        layout = struct.Struct(">" + "".join(code for _, code in run))
        unpack = self.writer.constant("unpack", layout.unpack_from, layout.format)
        self.writer.line(f"{', '.join(target for target, _ in run)}{',' if len(run) == 1 else ''} = {unpack}(b, p)")
        self.writer.line(f"p += {layout.size}")

    def _field(self, field: FieldPlan, target: str) -> None:
        self._path.append(field.name)
        if isinstance(field.wire, Nested):
            self._nested(field, target)
        elif isinstance(field.wire, Array):
            self._array(field, target)
        else:
            self._value(field.wire, target, is_flexible=field.is_flexible, is_nullable=field.is_nullable)
        self._path.pop()

    def _where(self) -> str:
        return repr(f"{self._title}: {'.'.join(self._path)}")

    def _value(self, wire: WireType, target: str, *, is_flexible: bool, is_nullable: bool) -> None:
        if isinstance(wire, String | Bytes):
            self._sized(wire, target, is_flexible=is_flexible, is_nullable=is_nullable)
        else:
            self._run.append((target, FIXED_FORMATS[type(wire)]))

    def _sized(self, wire: String | Bytes, target: str, *, is_flexible: bool, is_nullable: bool) -> None:
        writer, where = self.writer, self._where()
        size = writer.fresh("n")
        content = {String: 'str(b[p:q], "utf-8")', Bytes: "bytes(b[p:q])", Records: "b[p:q]"}[type(wire)]
        if is_flexible:
            self._run.append((size, "B"))
            self.flush()
            with writer.block(f"if {size} > 127:"):
                writer.line(f"{size}, p = longer(b, p, {size})")
                if isinstance(wire, String):
                    writer.line(f"if {size} > {STRING_BYTES_MAX + 1}: bad_length({where}, {size} - 1, end - p)")
            length, is_null, last = f"{size} - 1", f"not {size}", f"p + {size} - 1"
        else:
            self._run.append((size, "h" if isinstance(wire, String) else "i"))
            self.flush()
            length, is_null, last = size, f"{size} < 0", f"p + {size}"
        lines = [f"q = {last}", f"if q > end: bad_length({where}, {length}, end - p)"]
        if is_nullable:
            with writer.block(f"if {is_null}:"):
                writer.line(f"{target} = None")
            with writer.block("else:"):
                for text in [*lines, f"{target} = {content}", "p = q"]:
                    writer.line(text)
            return
        lines[1] = f"if q > end or {is_null}: bad_length({where}, {length}, end - p)"
        for text in [*lines, f"{target} = {content}", "p = q"]:
            writer.line(text)

    def _nested(self, field: FieldPlan, target: str) -> None:
        assert field.struct is not None
        inner = self.writer.fresh("o")
        if not field.is_nullable:
            self.structure(field.struct, inner)
            self.writer.line(f"{target} = {inner}")
            return
        presence = self.writer.fresh("n")
        self._run.append((presence, "b"))
        self.flush()
        # A tagged structure says that it is absent by a zero, any other one by -1.
        with self.writer.block(f"if {presence} {'<' if field.tag is None else '<='} 0:"):
            self.writer.line(f"{target} = None")
        with self.writer.block("else:"):
            self.structure(field.struct, inner)
            self.flush()
            self.writer.line(f"{target} = {inner}")

    def _array(self, field: FieldPlan, target: str) -> None:
        writer, where = self.writer, self._where()
        count = writer.fresh("n")
        if field.struct is not None:
            size = smallest_struct_size(field.struct)
        else:
            assert field.element is not None
            size = smallest_value_size(field.element, is_flexible=field.is_flexible)
        self._run.append((count, "B" if field.is_flexible else "i"))
        self.flush()
        needed = count if size == 1 else f"{count} * {size}"
        is_impossible, is_null = f"{needed} > end - p", f"{count} < 0"
        if field.is_flexible:
            writer.line(f"{count} -= 1")
            with writer.block(f"if {count} > 126:"):
                writer.line(f"{count}, p = longer(b, p, {count} + 1)")
                writer.line(f"{count} -= 1")
                writer.line(f"if {is_impossible}: bad_count({where}, {count}, end - p)")
            is_impossible = ""
        if not field.is_nullable:
            is_wrong = f"{is_null} or {is_impossible}" if is_impossible else is_null
            writer.line(f"if {is_wrong}: bad_count({where}, {count}, end - p)")
            self._elements(field, count, target)
            return
        with writer.block(f"if {is_null}:"):
            writer.line(f"{target} = None")
        with writer.block("else:"):
            if is_impossible:
                writer.line(f"if {is_impossible}: bad_count({where}, {count}, end - p)")
            self._elements(field, count, target)

    def _elements(self, field: FieldPlan, count: str, target: str) -> None:
        writer = self.writer
        if isinstance(field.element, Uuid):
            writer.line(f"q = p + 16 * {count}")
            writer.line(f"if q > end: bad_count({self._where()}, {count}, end - p)")
            writer.line(f"{target} = [bytes(b[i : i + 16]) for i in range(p, q, 16)]")
            writer.line("p = q")
            return
        if field.element is not None and type(field.element) in FIXED_FORMATS:
            code = FIXED_FORMATS[type(field.element)]
            writer.line(f'{target} = list(unpack_from(f">{{{count}}}{code}", b, p))')
            writer.line(f"p += {count} * {struct.calcsize('>' + code)}")
            return
        elements, element = writer.fresh("l"), writer.fresh("o")
        writer.line(f"{target} = {elements} = []")
        with writer.block(f"while {count}:"):
            writer.line(f"{count} -= 1")
            if field.struct is not None:
                self.structure(field.struct, element)
            else:
                assert field.element is not None
                self._value(field.element, element, is_flexible=field.is_flexible, is_nullable=False)
            self.flush()
            writer.line(f"{elements}.append({element})")

    def _tagged_fields(self, plan: StructPlan, target: str) -> None:
        writer = self.writer
        count = writer.fresh("t")
        for field in plan.tagged:
            writer.line(f"{target}.{field.name} = {writer.default(field)}")
        self._run.append((count, "B"))
        self.flush()
        with writer.block(f"if {count}:"):
            writer.line(f"if {count} > 127: {count}, p = longer(b, p, {count})")
            if not plan.tagged:
                writer.line(f"p = pass_tags(b, p, end, {count})")
                return
            tag, stop = writer.fresh("g"), writer.fresh("s")
            with writer.block(f"while {count}:"):
                writer.line(f"{count} -= 1")
                writer.line(f"{tag}, {stop}, p = open_tag(b, p, end)")
                for index, field in enumerate(plan.tagged):
                    with writer.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                        self._field(field, f"{target}.{field.name}")
                        self.flush()
                with writer.block("else:"):
                    writer.line(f"p = {stop}")
                writer.line(f"if p != {stop}: bad_tag({self._title!r}, {tag}, {stop} - p)")


def _malformed(title: str, error: Exception) -> MalformedFrame:
    if isinstance(error, UnicodeDecodeError):
        return MalformedFrame(f"{title}: a string is not UTF-8: {error.reason} at byte {error.start}")
    return MalformedFrame(f"{title}: the bytes end before the message does")


def _bad_length(where: str, length: int, remaining: int) -> NoReturn:
    if length < 0:
        raise MalformedFrame(f"{where} is null")
    raise MalformedFrame(f"{where} has a length of {length}; {remaining} bytes are left")


def _bad_count(where: str, count: int, remaining: int) -> NoReturn:
    if count < 0:
        raise MalformedFrame(f"{where} is null")
    raise MalformedFrame(f"{where} has {count} elements; {remaining} bytes are left")


def _bad_tag(title: str, tag: int, remaining: int) -> NoReturn:
    raise MalformedFrame(f"{title}: tagged field {tag} ends {remaining} bytes before its size says")


def _open_tag(buffer: Buffer, position: int, end: int) -> tuple[int, int, int]:
    """Read a tag and a size; give the tag, the position where its value ends, and where it begins."""
    tag, position = read_unsigned_varint(buffer, position)
    size, position = read_unsigned_varint(buffer, position)
    if size > end - position:
        raise MalformedFrame(f"tagged field {tag} has a size of {size}; {end - position} bytes are left")
    return tag, position + size, position


def _pass_tags(buffer: Buffer, position: int, end: int, count: int) -> int:
    """Pass over tagged fields that this version does not know."""
    for _ in range(count):
        _, position, _ = _open_tag(buffer, position, end)
    return position


def skip_tags(buffer: Buffer, position: int) -> int:
    """Give the position behind the tagged fields of a header; IndexError where the buffer ends before."""
    count, position = read_unsigned_varint(buffer, position)
    return _pass_tags(buffer, position, len(buffer), count) if count else position
