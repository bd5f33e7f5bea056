"""From a user's keys and values to bytes: by the serializers that a producer was given, or as they are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tailrace.client.bulk_rows import RecordRows
from tailrace.client.errors import SerializationFailed
from tailrace.protocol.records.record import RecordHeader

Serializer = Callable[[Any], bytes | None]


class RecordBytes:
    """Makes bytes of keys and values. SerializationFailed where a serializer fails, TypeError where there is none."""

    __slots__ = ("_key_serializer", "_value_serializer")

    def __init__(self, key_serializer: Serializer | None, value_serializer: Serializer | None) -> None:
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer

    def key(self, key: object, topic: str) -> bytes | None:
        """Make bytes of a key."""
        return _serialize(self._key_serializer, key, "key", topic)

    def value(self, value: object, topic: str) -> bytes | None:
        """Make bytes of a value."""
        return _serialize(self._value_serializer, value, "value", topic)

    def rows(
        self,
        topic: str,
        values: Sequence[object],
        keys: Sequence[object] | None,
        headers: Sequence[Sequence[RecordHeader]] | None,
        timestamp_ms: int | Sequence[int] | None,
        *,
        now_ms: int,
    ) -> RecordRows:
        """Make bytes of many records; ValueError where there are more of one thing than of another."""
        count = len(values)
        timestamp_ms = now_ms if timestamp_ms is None else timestamp_ms
        timestamps = [timestamp_ms] * count if isinstance(timestamp_ms, int) else timestamp_ms
        for name, column in (("keys", keys), ("headers", headers), ("timestamps", timestamps)):
            if column is not None and len(column) != count:
                raise ValueError(f"{count} values, and {len(column)} {name}")
        made_values = [self.value(value, topic) for value in values]
        made_keys = None if keys is None else [self.key(key, topic) for key in keys]
        return RecordRows(made_values, made_keys, headers, timestamps, range(count))


def _serialize(serializer: Serializer | None, given: object, what: str, topic: str) -> bytes | None:
    if serializer is not None and given is not None:
        try:
            given = serializer(given)
        except Exception as error:  # a user's function may raise anything
            raise SerializationFailed(f"the {what} of a record for {topic} was not serialized: {error}") from error
    if given is None or isinstance(given, bytes | bytearray):
        return given  # type: ignore[return-value]  # whoever gives a bytearray does not change it before it is copied here
    raise TypeError(
        f"the {what} of a record for {topic} is {type(given).__name__}, not bytes; give a {what}_serializer"
    )
