"""Which bytes of a segment have been checked against their checksums in this process.

Bytes that this process appended need no check; those found on disk get one, at their first read. The ranges begin and
end where batches do.
"""

from __future__ import annotations


class VerifiedRanges:
    """The gaps that are still unchecked, ascending; a log that is read from one end to the other keeps one gap."""

    __slots__ = ("gaps",)

    def __init__(self, size: int) -> None:
        self.gaps: list[tuple[int, int]] = [(0, size)]

    def unchecked(self, start: int, end: int) -> list[tuple[int, int]]:
        """Give what is unchecked of the range."""
        return [(max(start, low), min(end, high)) for low, high in self.gaps if low < end and start < high]

    def mark(self, start: int, end: int) -> None:
        """Note that the range was checked."""
        gaps: list[tuple[int, int]] = []
        for low, high in self.gaps:
            if high <= start or end <= low:
                gaps.append((low, high))
                continue
            if low < start:
                gaps.append((low, start))
            if end < high:
                gaps.append((end, high))
        self.gaps = gaps

    def truncate(self, size: int) -> None:
        """Forget what is above `size`."""
        self.gaps = [(low, min(high, size)) for low, high in self.gaps if low < size]
