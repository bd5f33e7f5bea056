"""Bytes, texts and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tailrace.protocol.buffers import Buffer


def serialize_bytes(value: Buffer) -> bytes:
    """Take what is bytes already, or a view of some."""
    return bytes(value)


def deserialize_bytes(data: bytes) -> bytes:
    """Give the bytes as they are."""
    return data


class StringSerializer:
    """Texts, in UTF-8 unless told otherwise."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._encoding = encoding

    def __call__(self, value: str) -> bytes:
        """Write a value."""
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - not everybody checks types
            raise TypeError(f"{type(value).__name__} is no str")
        return value.encode(self._encoding)


class StringDeserializer:
    """Texts; UnicodeDecodeError for what is none, unless `errors` says otherwise, as bytes.decode has it."""

    def __init__(self, encoding: str = "utf-8", errors: str = "strict") -> None:
        self._encoding = encoding
        self._errors = errors

    def __call__(self, data: bytes) -> str:
        """Read a value."""
        return data.decode(self._encoding, self._errors)


class JsonSerializer:
    """Whatever json.dumps takes, without spaces, in UTF-8; `default` turns other objects into what it takes."""

    def __init__(self, *, default: Callable[[Any], Any] | None = None, sort_keys: bool = False) -> None:
        self._encode = json.JSONEncoder(
            ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=default, sort_keys=sort_keys
        ).encode

    def __call__(self, value: Any) -> bytes:
        """Write a value."""
        return self._encode(value).encode()


class JsonDeserializer:
    """What json.loads gives; `object_hook` makes something else of each object."""

    def __init__(self, *, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> None:
        self._decode = json.JSONDecoder(object_hook=object_hook).decode

    def __call__(self, data: bytes) -> Any:
        """Read a value."""
        return self._decode(data.decode())
