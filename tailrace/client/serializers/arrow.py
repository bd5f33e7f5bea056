"""Arrow data as values: each value is one IPC stream, schema and all.

For columns of many records there is `Producer.send_arrow`; this is for values that are tables themselves. Needs
`tailrace[arrow]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

pa: Any = import_module("pyarrow")
"""Without types: pyarrow has none."""


class ArrowSerializer:
    """A pyarrow.RecordBatch or Table to the bytes of an IPC stream."""

    def __init__(self, *, compression: str | None = None) -> None:
        self._options = pa.ipc.IpcWriteOptions(compression=compression)

    def __call__(self, value: Any) -> bytes:
        """Write a value."""
        if not isinstance(value, pa.RecordBatch | pa.Table):
            raise TypeError(f"{type(value).__name__} is neither a pyarrow.RecordBatch nor a pyarrow.Table")
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema, options=self._options) as writer:
            writer.write(value)
        data: bytes = sink.getvalue().to_pybytes()
        return data


class ArrowDeserializer:
    """The bytes of an IPC stream to a pyarrow.Table, which points into them."""

    def __call__(self, data: bytes) -> Any:
        """Read a value."""
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return reader.read_all()
