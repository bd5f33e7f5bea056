"""A disk that fails on demand: for tests of what a log does then.

It works on real files under `root`, so mappings behave as they do in life, and adds three kinds of misfortune:
`fail` makes a chosen call fail with a chosen errno, and `capacity_bytes` makes the disk full; `kill_after` ends the
process in the middle of its calls (every later call raises `ProcessKilled`; what was written stays, as the page cache
stays after kill -9); `lose_power` puts back what was synced and drops the rest, names included.

Stores through a mapping are seen by no disk: they survive a kill, and a loss of power only if a sync came after them.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
import shutil
import threading
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

from tailrace.protocol.buffers import Buffer
from tailrace.storage.disk import Disk, DiskError, DiskFile

PAGE_BYTES = 4096
_SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_FILE_SUFFIXES = (*_SEGMENT_SUFFIXES, ".deleted", ".cleaned", ".swap", ".tmp", "-checkpoint")
"""Names that no directory has: there is nothing below them to look for."""
T = TypeVar("T")


class ProcessKilled(BaseException):
    """The process is gone. Not an `Exception`: nothing that handles failures may handle this one."""


@dataclass(slots=True)
class _Fault:
    """Calls of `operation` that are to fail: the `nth` from now on, and as many after it as `times` says."""

    operation: str
    nth: int
    times: int
    error_number: int
    name_part: str


@dataclass(slots=True)
class _NameChange:
    """A change of a directory that is not on disk yet; `inode` is None for a directory, `target` for a removal."""

    source: Path | None
    target: Path | None
    inode: int | None

    def concerns(self, directory: Path) -> bool:
        return any(path is not None and path.parent == directory for path in (self.source, self.target))


class FaultyDisk(Disk):
    """The real disk, with the failures that a test asks for. `calls` counts what was called, by operation."""

    def __init__(self, root: Path, *, capacity_bytes: int | None = None) -> None:
        self.root = root
        self.capacity_bytes = capacity_bytes
        self.calls: Counter[str] = Counter()
        self._faults: list[_Fault] = []
        self._calls_left: int | None = None
        self._allocated: dict[Path, int] = {}
        self._lock = threading.RLock()
        self._inode_numbers = count()
        self._inodes: dict[int, int] = {}
        self._synced_content: dict[int, bytes] = {}
        self._synced_names: dict[Path, int | None] = {}
        self._changes: list[_NameChange] = []
        self._remember_what_is_there()

    # ------------------------------------------------------------------ what a test asks for

    def fail(
        self, operation: str, *, nth: int = 1, times: int = 1, error_number: int = errno.EIO, name_part: str = ""
    ) -> None:
        """Let the `nth` call of `operation` from now on fail, and `times - 1` after it.

        Operations are named as in `DiskError`; `name_part` limits it to paths whose name contains it.
        """
        self._faults.append(_Fault(operation, nth, times, error_number, name_part))

    def heal(self) -> None:
        """Forget all faults and limits that have not happened yet."""
        self._faults.clear()
        self._calls_left = None
        self.capacity_bytes = None

    def kill_after(self, calls: int) -> None:
        """End the process at the call after `calls` more; a write is then done in part."""
        self._calls_left = calls

    @property
    def is_killed(self) -> bool:
        """Whether `kill_after` has come to pass."""
        return self._calls_left is not None and self._calls_left < 0

    @property
    def used_bytes(self) -> int:
        """How much of `capacity_bytes` is taken."""
        return sum(self._allocated.values())

    def lose_power(self, chance: random.Random | None = None) -> None:
        """Put the files back to what was synced; then open them anew, all objects of before are dead.

        With `chance`, some of what was not synced has reached the disk too: pages in any order, a file's new size
        without its new bytes, the first few of the waiting changes of names.
        """
        with self._lock:
            if chance is not None:
                arrived = chance.randint(0, len(self._changes))
                for change in self._changes[:arrived]:
                    _apply(self._synced_names, change)
            present = self._content_by_inode() if chance is not None else {}
            files: dict[Path, bytes] = {}
            directories: list[Path] = []
            for path, inode in self._synced_names.items():
                if inode is None:
                    directories.append(path)
                    continue
                content = self._synced_content.get(inode, b"")
                files[path] = content if chance is None else _mixture(content, present.get(inode, content), chance)
            self._rebuild(directories, files)
            self._calls_left = None
            self._remember_what_is_there()

    # ------------------------------------------------------------------ the disk

    def open(self, path: Path, *, writable: bool = True, create: bool = False) -> DiskFile:
        """Open a file; a new name is lost with the power until its directory is synced."""
        self.before("open", path)
        is_new = create and not path.exists()
        file = super().open(path, writable=writable, create=create)
        if is_new:
            self._changes.append(_NameChange(None, path, self._new_inode(path.stat().st_ino)))
        return file

    def _file(self, path: Path, descriptor: int) -> DiskFile:
        return FaultyFile(self, path, descriptor)

    def make_directory(self, path: Path, *, sync: bool = True) -> None:
        """Make a directory."""
        self.before("make directory", path)
        missing = [each for each in (path, *path.parents) if not each.exists()]
        for each in reversed(missing):
            self._changes.append(_NameChange(None, each, None))
        super().make_directory(path, sync=sync)

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        """Rename; the old name comes back with a loss of power until the directory is synced."""
        self.before("rename", source)
        inode = self._inodes[source.stat().st_ino] if source.is_file() else None
        super().rename(source, target, sync=False)
        self._changes.append(_NameChange(source, target, inode))
        _move(self._allocated, source, target)
        if sync:
            self.sync_directory(target.parent)
            if source.parent != target.parent:
                self.sync_directory(source.parent)

    def unlink(self, path: Path) -> bool:
        """Remove a file; it comes back with a loss of power until the directory is synced."""
        self.before("unlink", path)
        existed = super().unlink(path)
        if existed:
            self._allocated.pop(path, None)
            self._changes.append(_NameChange(path, None, None))
        return existed

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        self.before("remove directory", path)
        super().remove_directory(path)
        self._changes.append(_NameChange(path, None, None))

    def sync_directory(self, path: Path) -> None:
        """Make the changes of names in one directory durable; those in others stay where they are."""
        self.before("sync", path)
        if not path.is_dir():
            raise DiskError("open", path, errno.ENOENT)
        with self._lock:
            waiting: list[_NameChange] = []
            for change in self._changes:
                if change.concerns(path):
                    _apply(self._synced_names, change)
                else:
                    waiting.append(change)
            self._changes = waiting

    # ------------------------------------------------------------------ what files tell their disk

    def before(self, operation: str, path: Path) -> None:
        """Count a call and raise what was asked for."""
        with self._lock:
            self.calls[operation] += 1
            if self._calls_left is not None:
                self._calls_left -= 1
                if self._calls_left < 0:
                    raise ProcessKilled(f"killed before {operation} {path}")
            for fault in self._faults:
                if fault.operation != operation or fault.name_part not in path.name:
                    continue
                fault.nth -= 1
                if fault.nth <= 0 and fault.times > 0:
                    fault.times -= 1
                    raise DiskError(operation, path, fault.error_number, "a test asked for it")

    def take_space(self, operation: str, path: Path, end: int) -> None:
        """Count the file as having blocks up to `end`, or say that the disk is full."""
        with self._lock:
            known = self._allocated.get(path)
            if known is None:
                known = self._allocated[path] = 0
            wanted = self.used_bytes + max(end - known, 0)
            if self.capacity_bytes is not None and end > known and wanted > self.capacity_bytes:
                raise DiskError(
                    operation, path, errno.ENOSPC, f"a test made the disk {self.capacity_bytes} bytes large"
                )
            self._allocated[path] = max(known, end)

    def give_space(self, path: Path, end: int) -> None:
        """Count the file as having no blocks behind `end`."""
        with self._lock:
            self._allocated[path] = min(self._allocated.get(path, 0), end)

    def was_synced(self, inode: int, content: bytes) -> None:
        """Remember what a loss of power leaves of a file; `inode` is the file system's number of it."""
        with self._lock:
            self._synced_content[self._inodes[inode]] = content

    # ------------------------------------------------------------------ losing power

    def _remember_what_is_there(self) -> None:
        self._changes.clear()
        files = [path for path in self.root.rglob("*") if path.is_file()]
        self._inodes = {path.stat().st_ino: next(self._inode_numbers) for path in files}
        self._synced_content = self._content_by_inode()
        self._synced_names = {
            path: None if path.is_dir() else self._inodes[path.stat().st_ino]
            for path in (self.root, *self.root.rglob("*"))
        }
        self._allocated = {path: path.stat().st_size for path in self._synced_names if path.is_file()}

    def _content_by_inode(self) -> dict[int, bytes]:
        files = [path for path in self.root.rglob("*") if path.is_file()]
        return {self._inodes[path.stat().st_ino]: path.read_bytes() for path in files}

    def _new_inode(self, number: int) -> int:
        """Give a new file a number of our own: the file system gives a removed file's number to the next one."""
        with self._lock:
            self._inodes[number] = inode = next(self._inode_numbers)
            return inode

    def _rebuild(self, directories: list[Path], files: dict[Path, bytes]) -> None:
        """Make the tree anew. A name in a directory whose own name is lost is lost with it."""
        for child in self.root.iterdir():
            if child.is_dir():
                shutil.rmtree(child)
            else:
                child.unlink()
        for directory in sorted(directories):
            if directory != self.root and directory.parent.is_dir():
                directory.mkdir()
        for path, content in files.items():
            if path.parent.is_dir():
                path.write_bytes(content)


class FaultyFile(DiskFile):
    """A file of a faulty disk."""

    __slots__ = ("_disk",)

    def __init__(self, disk: FaultyDisk, path: Path, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._disk = disk

    def read_at(self, position: int, length: int) -> bytes:
        """Read."""
        self._disk.before("read", self.path)
        return super().read_at(position, length)

    def write_at(self, position: int, data: Buffer) -> None:
        """Write; a process that is killed here has written the first half."""
        try:
            self._disk.before("write", self.path)
        except ProcessKilled:
            super().write_at(position, memoryview(data)[: len(data) // 2])
            raise
        self._disk.take_space("write", self.path, position + len(data))
        super().write_at(position, data)

    def allocate(self, position: int, length: int) -> None:
        """Allocate."""
        self._disk.before("allocate", self.path)
        self._disk.take_space("allocate", self.path, position + length)
        super().allocate(position, length)

    def truncate(self, size: int) -> None:
        """Set the size; a longer file has a hole, which takes no space."""
        self._disk.before("truncate", self.path)
        super().truncate(size)
        self._disk.give_space(self.path, size)

    def map(self, length: int, *, writable: bool, is_random: bool = False) -> mmap.mmap:
        """Map."""
        self._disk.before("map", self.path)
        return super().map(length, writable=writable, is_random=is_random)

    def sync(self) -> None:
        """Remember the content as it is now, stores through mappings included."""
        self._disk.before("sync", self.path)
        status = os.fstat(self._descriptor)
        self._disk.was_synced(status.st_ino, os.pread(self._descriptor, status.st_size, 0))


def _apply(names: dict[Path, int | None], change: _NameChange) -> None:
    """Let a change of names reach the disk."""
    source, target = change.source, change.target
    if source is None and target is not None:
        names[target] = change.inode
    elif source is not None:
        _move(names, source, target)
        if target is not None and change.inode is not None:
            names[target] = change.inode


def _move(names: dict[Path, T], source: Path, target: Path | None) -> None:
    """Rename a file, or a directory with all below it; without a target, remove it."""
    if source.name.endswith(_FILE_SUFFIXES):
        moved = [source] if source in names else []
    else:
        moved = [known for known in names if known.is_relative_to(source)]
    for path in moved:
        value = names.pop(path)
        if target is not None:
            names[target / path.relative_to(source)] = value


def _mixture(synced: bytes, present: bytes, chance: random.Random) -> bytes:
    """Give the synced content with some of the pages that were written since."""
    size = chance.choice((len(synced), len(present)))
    content = bytearray(synced[:size].ljust(size, b"\0"))
    for start in range(0, size, PAGE_BYTES):
        page = present[start : min(start + PAGE_BYTES, size)]
        if chance.random() < 0.5 and page:
            content[start : start + len(page)] = page
    return bytes(content)
