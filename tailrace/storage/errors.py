"""The exception for bytes on our own disk that can't be what was written there.

The disk itself failing (no space, an I/O error) is `disk.DiskError`; a file that reads well and says something
impossible is `CorruptFile`. Whoever loads the file decides: an index is rebuilt, a snapshot skipped, a segment set
aside.
"""

from __future__ import annotations

from pathlib import Path


class CorruptFile(Exception):
    """A file of the log directory whose content can't be right; says which file and what is wrong with it."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
