"""The words in which settings are declared, one for each type: `integer(4096, "What it does.", at_least(1), HIGH)`.

They exist for the type checkers: a setting that has a default is never None, one that has none may be.
"""

from __future__ import annotations

from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

from tailrace.settings.definition import MEDIUM, READ_ONLY, Importance, Setting, UpdateMode
from tailrace.settings.value_range import ValueRange
from tailrace.settings.value_type import ValueType

T = TypeVar("T")


class Options(TypedDict, total=False):
    """What few settings need; see `Setting`."""

    acts: bool
    internal: bool
    required: bool
    unit: str
    synonyms: tuple[str, ...]


class Declaration(Generic[T]):
    """Makes settings of one type."""

    __slots__ = ("_value_type",)

    def __init__(self, value_type: ValueType) -> None:
        self._value_type = value_type

    @overload
    def __call__(
        self,
        default: T,
        summary: str,
        valid: ValueRange | None = None,
        importance: Importance = MEDIUM,
        update_mode: UpdateMode = READ_ONLY,
        **options: Unpack[Options],
    ) -> Setting[T]: ...

    @overload
    def __call__(
        self,
        default: None,
        summary: str,
        valid: ValueRange | None = None,
        importance: Importance = MEDIUM,
        update_mode: UpdateMode = READ_ONLY,
        **options: Unpack[Options],
    ) -> Setting[T | None]: ...

    def __call__(
        self,
        default: T | None,
        summary: str,
        valid: ValueRange | None = None,
        importance: Importance = MEDIUM,
        update_mode: UpdateMode = READ_ONLY,
        **options: Unpack[Options],
    ) -> Setting[Any]:
        """Make a setting; its key comes from the attribute it is assigned to."""
        return Setting(self._value_type, default, summary, valid, importance, update_mode, **options)


class WordSet(Setting[frozenset[str]]):
    """A list whose order says nothing: its value is a set of words."""

    __slots__ = ()

    def parse(self, text: str, key: str | None = None) -> frozenset[str]:
        """Turn text into the set of its words."""
        return frozenset(super().parse(text, key))


def word_set(
    default: frozenset[str],
    summary: str,
    valid: ValueRange | None = None,
    importance: Importance = MEDIUM,
    update_mode: UpdateMode = READ_ONLY,
    **options: Unpack[Options],
) -> WordSet:
    """Declare a list that is used as a set."""
    return WordSet(ValueType.LIST, default, summary, valid, importance, update_mode, **options)


boolean = Declaration[bool](ValueType.BOOLEAN)
integer = Declaration[int](ValueType.INT)
short = Declaration[int](ValueType.SHORT)
long = Declaration[int](ValueType.LONG)
double = Declaration[float](ValueType.DOUBLE)
string = Declaration[str](ValueType.STRING)
word_list = Declaration[tuple[str, ...]](ValueType.LIST)
class_name = Declaration[str](ValueType.CLASS)
password = Declaration[str](ValueType.PASSWORD)
