"""What values a setting takes: ranges, choices and lists of choices.

Each range answers two questions: does it admit a value that already has the right type, and how is it called in an
error message and in the documentation. Parsing text is the setting's own business. (Plain classes and no dataclasses:
making those would cost every start of the broker some milliseconds.)
"""

from __future__ import annotations

import re
from typing import Any, Protocol

_THROTTLED = r"[0-9]+:[0-9]+"
_VOTER = r"[0-9]+@\S+:[0-9]{1,5}"
_HOST_PORT = r"\S+:[0-9]{1,5}"


class ValueRange(Protocol):
    """What a setting asks about a value of its type."""

    def admits(self, value: Any) -> bool:
        """Say whether the value may be used."""
        ...

    def __str__(self) -> str: ...


class Between:
    """Numbers from `least` to `most`, both included; None leaves the upper side to the type."""

    __slots__ = ("least", "most")

    def __init__(self, least: float, most: float | None = None) -> None:
        self.least = least
        self.most = most

    def admits(self, value: Any) -> bool:
        """Say whether the number lies between the bounds; NaN does not."""
        return self.least <= value and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        return f"at least {self.least}" if self.most is None else f"from {self.least} to {self.most}"


class BetweenOr(Between):
    """Numbers between two bounds, or one special number outside of them."""

    __slots__ = ("special",)

    def __init__(self, least: float, most: float, special: float) -> None:
        super().__init__(least, most)
        self.special = special

    def admits(self, value: Any) -> bool:
        """Say whether the number is the special one or lies between the bounds."""
        return value == self.special or super().admits(value)

    def __str__(self) -> str:
        return f"{super().__str__()}, or {self.special}"


class OneOf:
    """One of a few words, written exactly so, or in any case of letters."""

    __slots__ = ("any_case", "words")

    def __init__(self, words: tuple[str, ...], *, any_case: bool = False) -> None:
        self.words = words
        self.any_case = any_case

    def admits(self, value: Any) -> bool:
        """Say whether the text is one of the words."""
        return value in self.words or (self.any_case and value.upper() in self.words)

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}" + (" (in any case)" if self.any_case else "")


class EachOneOf:
    """A list whose every element is one of a few words."""

    __slots__ = ("words",)

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words

    def admits(self, value: Any) -> bool:
        """Say whether every element is one of the words."""
        return all(element in self.words for element in value)

    def __str__(self) -> str:
        return f"each one of {', '.join(self.words)}"


class NotEmpty:
    """Text with at least one character."""

    __slots__ = ()

    def admits(self, value: Any) -> bool:
        """Say whether the text has a character."""
        return bool(value)

    def __str__(self) -> str:
        return "not empty"


class EachLike:
    """A list whose every element has a certain form."""

    __slots__ = ("_form", "_name")

    def __init__(self, form: str, name: str) -> None:
        self._form = form
        self._name = name

    def admits(self, value: Any) -> bool:
        """Say whether every element has the form."""
        return all(re.fullmatch(self._form, element) for element in value)

    def __str__(self) -> str:
        return f"each of the form {self._name}"


class ThrottledReplicas(EachLike):
    """`*`, or pairs of partition and broker such as `0:1,2:1`; the empty list throttles nothing."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_THROTTLED, "partition:broker")

    def admits(self, value: Any) -> bool:
        """Say whether the list is the wildcard or has only pairs of numbers."""
        return value == ("*",) or super().admits(value)

    def __str__(self) -> str:
        return f"`*` alone, or {super().__str__()}"


def at_least(least: float) -> Between:
    """Admit numbers from `least` on."""
    return Between(least)


def between(least: float, most: float) -> Between:
    """Admit numbers from `least` to `most`."""
    return Between(least, most)


def one_of(*words: str) -> OneOf:
    """Admit one of these words, written exactly so."""
    return OneOf(words)


def each_one_of(*words: str) -> EachOneOf:
    """Admit lists made of these words."""
    return EachOneOf(words)


def quorum_voters() -> EachLike:
    """Admit lists of `id@host:port`."""
    return EachLike(_VOTER, "id@host:port")


def host_ports() -> EachLike:
    """Admit lists of `host:port`."""
    return EachLike(_HOST_PORT, "host:port")
