"""`auto.offset.reset`: where a consumer begins that has no position, or whose position is gone.

    earliest | latest | none | by_duration:P1DT2H   records of that long ago and younger (KIP-1106)

A duration is ISO 8601's with days, hours, minutes and seconds, as Java reads it, and may not be negative.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tailrace.settings.value_range import OneOf

_BY_DURATION = "by_duration:"
_DURATION = r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?"
_DAY_MS, _HOUR_MS, _MINUTE_MS, _SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """What to do about a missing position: `word` is earliest, latest, none or by_duration."""

    word: str
    duration_ms: int = 0


def parse_offset_reset(text: str) -> OffsetReset | None:
    """Read the setting; None where it is no such text."""
    if text in ("earliest", "latest", "none"):
        return OffsetReset(text)
    if not text.startswith(_BY_DURATION):
        return None
    duration_ms = _duration_ms(text[len(_BY_DURATION) :])
    return None if duration_ms is None or duration_ms < 0 else OffsetReset("by_duration", duration_ms)


class OffsetResetRange(OneOf):
    """The words, and durations."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(("latest", "earliest", "none", "by_duration:PnDTnHnMn.nS"))

    def admits(self, value: Any) -> bool:
        """Say whether the text is one of the words or a duration."""
        return parse_offset_reset(value) is not None


def _duration_ms(text: str) -> int | None:
    match = re.fullmatch(_DURATION, text, re.IGNORECASE | re.ASCII)
    if match is None:
        return None
    sign, days, time, hours, minutes, seconds, fraction = match.groups()
    if not any((days, hours, minutes, seconds)) or (time is not None and not any((hours, minutes, seconds))):
        return None
    fraction_ms = int(((fraction or "") + "000")[:3])
    total = int(days or 0) * _DAY_MS + int(hours or 0) * _HOUR_MS + int(minutes or 0) * _MINUTE_MS
    total += int(seconds or 0) * _SECOND_MS + (-fraction_ms if (seconds or "").startswith("-") else fraction_ms)
    return -total if sign == "-" else total
