"""Keys and values of the coordinators' records.

A key is an int16 that says which kind of record it is, and the key's fields; a value is an int16 version, and the
value's fields in that version. A key without a value is a tombstone.
"""

from __future__ import annotations

from typing import ClassVar

from tailrace.protocol.schema import Message


class CoordinatorKey(Message, versions="0", flexible="none"):
    """The key of a record of a coordinator's topic; `record_type` is the int16 in front of it."""

    record_type: ClassVar[int]

    def __init_subclass__(cls, *, record_type: int, versions: str, flexible: str) -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.record_type = record_type


class CoordinatorValue(Message, versions="0", flexible="none"):
    """The value of a record of a coordinator's topic; it goes with the key of the same `record_type`."""

    record_type: ClassVar[int]

    def __init_subclass__(cls, *, record_type: int, versions: str, flexible: str) -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.record_type = record_type
