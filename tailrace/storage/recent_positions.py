"""Where the last batches of the active segment begin.

A consumer at the end of the log asks for an offset that was the log's end a moment ago, and the high watermark was the
log's end when its batch was appended: both positions are found here by one dictionary look-up instead of a search.
"""

from __future__ import annotations

GENERATION_SIZE = 64
"""Two generations of this size are kept: enough for readers at the end, 12 KB for a busy partition."""


class RecentPositions:
    """Positions of batches by base offset; the oldest are forgotten a generation at a time."""

    __slots__ = ("_older", "_younger")

    def __init__(self) -> None:
        self._younger: dict[int, int] = {}
        self._older: dict[int, int] = {}

    def add(self, offset: int, position: int) -> None:
        """Note that a batch with base offset `offset` begins at `position`."""
        younger = self._younger
        younger[offset] = position
        if len(younger) >= GENERATION_SIZE:
            self._older = younger
            self._younger = {}

    def get(self, offset: int) -> int | None:
        """Give the position, None where it is not remembered."""
        position = self._younger.get(offset)
        return self._older.get(offset) if position is None else position

    def clear(self) -> None:
        """Forget everything: another segment is active, or its end was cut."""
        self._younger = {}
        self._older = {}
