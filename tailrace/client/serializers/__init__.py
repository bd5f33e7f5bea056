"""Keys and values to bytes and back: texts, JSON, Arrow, Avro.

A serializer is anything that can be called with a value and gives bytes, a deserializer the other way round; producers
and consumers take functions as well as these. None never reaches them: it is a record without a value. What they raise
becomes SerializationFailed. Arrow needs `tailrace[arrow]`, Avro `tailrace[avro]`; each is a module of its own.
"""

from __future__ import annotations

from tailrace.client.serializers.plain import (
    JsonDeserializer,
    JsonSerializer,
    StringDeserializer,
    StringSerializer,
    deserialize_bytes,
    serialize_bytes,
)

__all__ = [
    "JsonDeserializer",
    "JsonSerializer",
    "StringDeserializer",
    "StringSerializer",
    "deserialize_bytes",
    "serialize_bytes",
]
