"""The `.lock` file of a data directory: one broker at a time, be it Tailrace or Apache Kafka.

The lock is the operating system's, not the file's existence: it ends with the process, also after kill -9.
"""

from __future__ import annotations

from pathlib import Path

from tailrace.storage.disk import Disk, DiskError, FileLock

FILE_NAME = ".lock"


class DirectoryInUse(Exception):
    """Another broker has the data directory open."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"the data directory {directory} is in use by another broker; stop that one or use another directory"
        )
        self.directory = directory


def lock_directory(disk: Disk, directory: Path) -> FileLock:
    """Take the directory for this broker, until `release`; raise `DirectoryInUse` where another has it."""
    try:
        return disk.lock(directory / FILE_NAME)
    except DiskError as error:
        if error.is_locked:
            raise DirectoryInUse(directory) from error
        raise
