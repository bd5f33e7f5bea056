"""A setting's value that can't be used."""

from __future__ import annotations


class ConfigError(ValueError):
    """A value that its setting does not take: says which key, which value, and what would be right.

    `value` is masked where the setting is a secret.
    """

    def __init__(self, key: str, value: object, expected: str) -> None:
        super().__init__(f"{key}={value}: expected {expected}")
        self.key = key
        self.value = value
        self.expected = expected
