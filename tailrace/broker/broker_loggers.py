"""The levels of this broker's loggers, as the BROKER_LOGGER resource shows and changes them (KIP-412).

Loggers are those of Python's `logging`, `root` among them; levels have the names that Kafka's tools know. Changes last
until the broker ends, as with Kafka. DEBUG and TRACE differ by their number only: nothing here writes TRACE.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.settings.alter_config import AlterOperation, ConfigChange

ROOT = "root"
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
_PACKAGE = "tailrace"


def logger_levels() -> dict[str, str]:
    """Give the effective level of each of our loggers and of the root logger, by name."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.split(".")[0] == _PACKAGE)
    levels = {ROOT: _level_name(logging.root.getEffectiveLevel())}
    levels.update((name, _level_name(logging.getLogger(name).getEffectiveLevel())) for name in names)
    return levels


def check_logger_changes(changes: Iterable[ConfigChange]) -> None:
    """Raise ApiError where one of the changes can't be made."""
    known = logger_levels()
    for change in changes:
        if change.operation not in (AlterOperation.SET, AlterOperation.DELETE):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"{change.operation.name} does not apply to a logger; SET and DELETE do"
            )
        if change.name not in known:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist")
        if change.operation is AlterOperation.DELETE and change.name == ROOT:
            raise ApiError(ErrorCode.INVALID_REQUEST, "The root logger always has a level")
        if change.operation is AlterOperation.SET and change.value not in LEVELS:
            levels = ", ".join(LEVELS)
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{change.name}={change.value}: expected one of {levels}")


def change_logger_levels(changes: Iterable[ConfigChange]) -> None:
    """Set the levels, or take them away, so that the logger above decides; the changes were checked before."""
    for change in changes:
        logger = logging.root if change.name == ROOT else logging.getLogger(change.name)
        logger.setLevel(LEVELS[change.value or ""] if change.operation is AlterOperation.SET else logging.NOTSET)


def _level_name(level: int) -> str:
    return next((name for name, number in reversed(LEVELS.items()) if number <= level), "TRACE")
