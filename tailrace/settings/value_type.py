"""The types of settings: how text becomes a value and a value becomes text, as Java reads and writes them.

Numbers have Java's bounds, booleans are `true` and `false` in any case of letters, lists are split at commas. A parser
answers None for text that is not of its type; it never raises.
"""

from __future__ import annotations

import enum
import math
import re
from typing import Any

# Patterns are compiled at their first use: a broker's start seldom needs one.
_DOUBLE = r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)"


class ValueType(enum.Enum):
    """A type of Kafka's settings; the value is its number in DescribeConfigs responses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @property
    def expected(self) -> str:
        """Name the type in an error message."""
        return _EXPECTED[self]

    def parse(self, text: str) -> Any:
        """Turn text into a value of the type, or None where it is not one."""
        text = text.strip()
        if self in _BITS:
            return _parse_integer(text, _BITS[self])
        if self is ValueType.BOOLEAN:
            return {"true": True, "false": False}.get(text.lower())
        if self is ValueType.DOUBLE:
            return float(text.rstrip("fFdD")) if re.fullmatch(_DOUBLE, text) else None
        if self is ValueType.LIST:
            return tuple(word.strip() for word in text.split(",")) if text else ()
        return text

    def format(self, value: Any) -> str:
        """Write a value of the type."""
        if self is ValueType.BOOLEAN:
            return "true" if value else "false"
        if self is ValueType.DOUBLE:
            return _format_double(value)
        if self is ValueType.LIST:
            return ",".join(value)
        return str(value)


_BITS = {ValueType.SHORT: 15, ValueType.INT: 31, ValueType.LONG: 63}

_EXPECTED = {
    ValueType.BOOLEAN: "true or false",
    ValueType.STRING: "a text",
    ValueType.INT: "an integer of 32 bits",
    ValueType.SHORT: "an integer of 16 bits",
    ValueType.LONG: "an integer of 64 bits",
    ValueType.DOUBLE: "a number",
    ValueType.LIST: "a list separated by commas",
    ValueType.CLASS: "the name of a class",
    ValueType.PASSWORD: "a secret text",
}


def _parse_integer(text: str, bits: int) -> int | None:
    # A limit on the digits first: int() of a megabyte of digits would take seconds.
    digits = text[1:] if text[:1] in ("+", "-") else text
    if len(text) > 64 or not (digits.isascii() and digits.isdigit()):
        return None
    number = int(text)
    return number if -(1 << bits) <= number < 1 << bits else None


def _format_double(value: float) -> str:
    """Write a double as Java's Double.toString does: `0.5`, `1.0E7`, `1.7976931348623157E308`."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else f"{value:f}"
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        mantissa, _, exponent = _scientific(value).partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _scientific(value: float) -> str:
    """Write the shortest digits that give the value back, in scientific form."""
    for digits in range(17):
        text = f"{value:.{digits}e}"
        if float(text) == value:
            return text
    return f"{value:.17e}"
