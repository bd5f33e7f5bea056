"""Patterns that members subscribe by (KIP-848): in RE2's syntax, matched with whole topic names on the broker.

Kafka uses re2j; google-re2 is the original of the same syntax, and like it takes time linear in the name, whatever the
pattern. Where both report an error they word it differently: what Kafka says for the usual ones is in `_KAFKA_WORDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from importlib import import_module
from typing import Any

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError

PATTERNS_KEPT = 256

_KAFKA_WORDS = {
    "missing ): ": "missing closing )",
    "unexpected ): ": "regexp/syntax: internal error",
    "missing ]: ": "missing closing ]",
    "no argument for repetition operator: ": "missing argument to repetition operator",
    "bad repetition operator: ": "invalid nested repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "invalid escape sequence: ": "invalid escape sequence",
    "invalid character class range: ": "invalid character class range",
    "invalid character range: ": "invalid character class range",
    "invalid named capture group: ": "invalid named capture",
    "invalid repetition size: ": "invalid repeat count",
    "invalid perl operator: ": "invalid or unsupported Perl syntax",
}


@lru_cache(maxsize=PATTERNS_KEPT)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Give the test for a pattern; INVALID_REGULAR_EXPRESSION where it is none."""
    re2: Any = import_module("re2")  # only here: most brokers never see a pattern, and it takes 2 MB; it has no types
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {_in_kafka_words(error)}.",
        ) from None
    return lambda name: compiled.fullmatch(name) is not None


def resolve(patterns: Iterable[str], topics: Collection[str]) -> dict[str, frozenset[str]]:
    """Give the topics that each pattern matches; one that is invalid matches none (an older broker let it pass)."""
    resolved: dict[str, frozenset[str]] = {}
    for pattern in patterns:
        try:
            matches = compile_pattern(pattern)
        except ApiError:
            resolved[pattern] = frozenset()
        else:
            resolved[pattern] = frozenset(name for name in topics if matches(name))
    return resolved


def _in_kafka_words(error: Exception) -> str:
    text = error.args[0] if error.args else ""
    said = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    for start, words in _KAFKA_WORDS.items():
        if said.startswith(start):
            return words
    return said
