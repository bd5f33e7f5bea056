"""Avro: values by a schema, by fastavro. Needs `tailrace[avro]`.

What stands in front of a value says by which schema it was written:

    Framing.NONE            nothing: writer and reader know it
    Framing.SINGLE_OBJECT   C3 01, and the schema's CRC-64-AVRO fingerprint in 8 bytes (Avro's own specification)
    Framing.REGISTRY        00, and the schema's id in 4 bytes, big-endian, as schema registries give them

Nothing here asks a registry: `schema_of` is the user's, and its answers are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from importlib import import_module
from io import BytesIO
from struct import Struct
from typing import Any, Final, TypeAlias

from fastavro.schema import fingerprint, to_parsing_canonical_form

Schema: TypeAlias = dict[str, Any] | list[Any] | str

_SINGLE_OBJECT_MARKER: Final = b"\xc3\x01"
_FINGERPRINT_BYTES: Final = 8
_registry_header: Final = Struct(">bi")
_avro: Any = import_module("fastavro")
"""Without its types, which are incomplete."""


class Framing(Enum):
    """What stands in front of a value."""

    NONE = "none"
    SINGLE_OBJECT = "single-object"
    REGISTRY = "registry"


class AvroSerializer:
    """Values to Avro by one schema; `schema_id` is a registry's, for Framing.REGISTRY."""

    def __init__(self, schema: Schema, *, framing: Framing = Framing.NONE, schema_id: int | None = None) -> None:
        if (framing is Framing.REGISTRY) != (schema_id is not None):
            raise ValueError("a schema_id goes with Framing.REGISTRY, and only with it")
        self._schema = _avro.parse_schema(schema)
        self._prefix = b""
        if framing is Framing.SINGLE_OBJECT:
            self._prefix = _SINGLE_OBJECT_MARKER + schema_fingerprint(schema)
        elif schema_id is not None:
            self._prefix = _registry_header.pack(0, schema_id)

    def __call__(self, value: Any) -> bytes:
        """Write a value; ValueError, TypeError or AttributeError where it does not fit the schema."""
        out = BytesIO()
        out.write(self._prefix)
        _avro.schemaless_writer(out, self._schema, value, strict=True)
        return out.getvalue()


class AvroDeserializer:
    """Avro to values.

    `schema` is the reader's: what was written by another is resolved to it. Without it, values come as they were
    written. `schema_of` gives writers' schemas by their ids (int) or fingerprints (8 bytes): a mapping or a function;
    without one, everything was written by `schema`.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        framing: Framing = Framing.NONE,
        schema_of: Callable[[Any], Schema] | Mapping[Any, Schema] | None = None,
    ) -> None:
        if schema is None and (framing is Framing.NONE or schema_of is None):
            raise ValueError("give the schema, or a framing that names one and schema_of to look it up")
        self._schema: Any = None if schema is None else _avro.parse_schema(schema)
        self._framing = framing
        self._schema_of: Callable[[Any], Schema] | None = None
        if schema_of is not None:
            self._schema_of = schema_of if callable(schema_of) else lambda key: schema_of[key]
        self._writers: dict[Any, Any] = {}
        if schema is not None:
            self._writers[schema_fingerprint(schema)] = self._schema

    def __call__(self, data: bytes) -> Any:
        """Read a value; ValueError or EOFError where the bytes are none."""
        stream = BytesIO(data)
        writer = self._schema if self._framing is Framing.NONE else self._writer(stream)
        value = _avro.schemaless_reader(stream, writer, self._schema)
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes are left over behind the value")
        return value

    def _writer(self, stream: BytesIO) -> Any:
        """Read which schema a value was written by, and give it."""
        key: Any
        if self._framing is Framing.SINGLE_OBJECT:
            if stream.read(len(_SINGLE_OBJECT_MARKER)) != _SINGLE_OBJECT_MARKER:
                raise ValueError("the value is no single object of Avro: it does not begin with C3 01")
            key = stream.read(_FINGERPRINT_BYTES)
        else:
            header = stream.read(_registry_header.size)
            if len(header) < _registry_header.size or header[0] != 0:
                raise ValueError("the value does not begin with 00 and the id of a schema")
            key = _registry_header.unpack(header)[1]
        if key not in self._writers:
            if self._schema_of is not None:
                self._writers[key] = _avro.parse_schema(self._schema_of(key))
            elif self._framing is Framing.REGISTRY:
                self._writers[key] = self._schema
            else:
                raise ValueError(f"the value was written by another schema, with the fingerprint {key.hex()}")
        return self._writers[key]


def schema_fingerprint(schema: Schema) -> bytes:
    """Give a schema's CRC-64-AVRO fingerprint as it stands in front of single objects."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
