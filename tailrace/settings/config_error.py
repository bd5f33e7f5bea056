"""What is wrong with a setting, or with a request to change one."""

from __future__ import annotations


class ConfigError(ValueError):
    """A value that its setting does not take: says which key, which value, and what would be right.

    The wire's INVALID_CONFIG. `origin` says where the value came from, if somebody knows; a secret is not shown.
    """

    def __init__(self, key: str, value: object, expected: str, *, origin: str = "") -> None:
        super().__init__(f"{key}={value}{f' ({origin})' if origin else ''}: expected {expected}")
        self.key = key
        self.value = value
        self.expected = expected

    def with_origin(self, origin: str) -> ConfigError:
        """Give the same error with the place the value came from."""
        return ConfigError(self.key, self.value, self.expected, origin=origin)


class ChangeRejected(ValueError):
    """A change of configuration that can't be made, whatever its value: the wire's INVALID_REQUEST."""
