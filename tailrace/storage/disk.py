"""The one module that touches the disk.

Lives here: opening, allocating, mapping, reading, writing, syncing, renaming, locking. Promises: every failure of the
operating system is a `DiskError` that names operation, path and errno, so that a full disk can be told from a broken
one; `replace_file` leaves either the old content or the new. Leaves to others: what the bytes mean, and when to sync.

`Disk` and `DiskFile` hold no state beyond a descriptor, so a thread may call `sync` while the event loop writes.
`tailrace.testing.faulty_disk` subclasses both to fail on demand.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from tailrace.protocol.buffers import Buffer

ALLOCATION_BYTES_MIN = 64 * 1024
"""The first allocation of a growing file: a thousand idle partitions should not take a gigabyte."""
ALLOCATION_BYTES_MAX = 64 * 1024 * 1024
"""The largest step of a growing file: beyond it fewer calls save nothing and a full disk would be met too early."""

FileMapping: TypeAlias = mmap.mmap
"""A file's bytes as memory; made by `DiskFile.map`."""

_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_allocate: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)


class DiskError(Exception):
    """The operating system refused an operation on a file or directory."""

    def __init__(self, operation: str, path: Path, error_number: int, detail: str = "") -> None:
        name = errno.errorcode.get(error_number, str(error_number))
        super().__init__(f"{operation} {path}: {name}: {detail or os.strerror(error_number)}")
        self.operation = operation
        self.path = path
        self.errno = error_number

    @property
    def is_disk_full(self) -> bool:
        """No space or no quota: the operation may succeed after somebody deletes something."""
        return self.errno in (errno.ENOSPC, errno.EDQUOT)

    @property
    def is_missing(self) -> bool:
        """The file or directory does not exist."""
        return self.errno == errno.ENOENT

    @property
    def is_locked(self) -> bool:
        """Somebody else holds the lock."""
        return self.operation == "lock" and self.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


class DiskFile:
    """An open file. `path` follows renames only if whoever renames sets it; the descriptor stays good either way."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._descriptor < 0

    def size(self) -> int:
        """Give the size of the file in bytes, preallocated space included."""
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise self._failed("stat", error) from error

    def read_at(self, position: int, length: int) -> bytes:
        """Read up to `length` bytes; fewer only at the end of the file."""
        try:
            chunk = os.pread(self._descriptor, length, position)
            if len(chunk) == length or not chunk:
                return chunk
            chunks = [chunk]
            missing = length - len(chunk)
            while missing and (chunk := os.pread(self._descriptor, missing, position + length - missing)):
                chunks.append(chunk)
                missing -= len(chunk)
            return b"".join(chunks)
        except OSError as error:
            raise self._failed("read", error) from error

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of `data` into the page cache; it is on disk after `sync`."""
        try:
            written = os.pwrite(self._descriptor, data, position)
            if written == len(data):
                return
            rest = memoryview(data)
            while written < len(rest):
                written += os.pwrite(self._descriptor, rest[written:], position + written)
        except OSError as error:
            raise self._failed("write", error) from error

    def allocate(self, position: int, length: int) -> None:
        """Give the range real blocks, extending the file where it ends earlier; existing content stays.

        A store through a mapping into a range without blocks kills the process with SIGBUS when the disk is full;
        after this call it can't. New bytes read as zeros.
        """
        if length <= 0:
            return
        try:
            if _allocate is not None:
                _allocate(self._descriptor, position, length)
                return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS):
                raise self._failed("allocate", error) from error
        self._allocate_by_writing(position, length)

    def _allocate_by_writing(self, position: int, length: int) -> None:
        """Allocate on a file system that has no call for it: write back what is there, zeros where nothing is."""
        piece = 1 << 20
        for start in range(position, position + length, piece):
            wanted = min(piece, position + length - start)
            self.write_at(start, self.read_at(start, wanted).ljust(wanted, b"\0"))

    def truncate(self, size: int) -> None:
        """Set the file's size: cut its tail, or extend it by a hole that reads as zeros.

        Touching a mapped page beyond the new end is SIGBUS, so the caller first gives up its views of that range.
        """
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise self._failed("truncate", error) from error

    def map(self, length: int, *, writable: bool, is_random: bool = False) -> FileMapping:
        """Map the first `length` bytes, which must exist. The mapping outlives this file's `close`.

        File and mapping share the page cache: what `write_at` writes is seen in the mapping at once, and the reverse.
        `is_random` keeps the kernel from filling pages around the one that is touched: the first store into a sparse
        file of 10 MB costs 12 µs with it and 1.4 ms without.
        """
        self._check_open("map")  # -1 stands for memory without a file
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        try:
            mapping = mmap.mmap(self._descriptor, length, access=access)
            if is_random:
                mapping.madvise(mmap.MADV_RANDOM)
            return mapping
        except OSError as error:
            raise self._failed("map", error) from error
        except ValueError as error:
            raise DiskError("map", self.path, errno.EINVAL, f"{error} (length {length})") from error

    def sync(self) -> None:
        """Wait until content and size are on disk, stores through mappings included. Releases the GIL; for threads.

        After a failure the kernel may have dropped the dirty pages: never sync again and hope, fence the log.
        """
        self._check_open("sync")
        try:
            _fdatasync(self._descriptor)
        except OSError as error:
            raise self._failed("sync", error) from error

    def close(self) -> None:
        """Give the descriptor back; a second call has no effect. Says nothing about being on disk."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                os.close(descriptor)
            except OSError as error:
                raise self._failed("close", error) from error

    def _check_open(self, operation: str) -> None:
        if self._descriptor < 0:
            raise DiskError(operation, self.path, errno.EBADF)

    def _failed(self, operation: str, error: OSError) -> DiskError:
        return DiskError(operation, self.path, error.errno or errno.EIO, error.strerror or "")


class FileLock:
    """An exclusive lock that the operating system drops when the process ends, however it ends."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go of the lock; the file stays, as Kafka leaves it. A second call has no effect."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class Disk:
    """The file system, with typed failures."""

    def open(self, path: Path, *, writable: bool = True, create: bool = False) -> DiskFile:
        """Open a file; with `create`, make it if it is missing (durable after `sync_directory` of its parent)."""
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        try:
            return self._file(path, os.open(path, flags, 0o644))
        except OSError as error:
            raise _failed("open", path, error) from error

    def _file(self, path: Path, descriptor: int) -> DiskFile:
        return DiskFile(path, descriptor)

    def exists(self, path: Path) -> bool:
        """Whether a file or directory of that name exists."""
        try:
            path.lstat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _failed("stat", path, error) from error
        return True

    def is_directory(self, path: Path) -> bool:
        """Whether the name exists and is a directory."""
        return path.is_dir()

    def file_size(self, path: Path) -> int:
        """Give a file's size in bytes."""
        try:
            return path.stat().st_size
        except OSError as error:
            raise _failed("stat", path, error) from error

    def modified_ms(self, path: Path) -> int:
        """Give the time of a file's last change in milliseconds since the epoch."""
        try:
            return path.stat().st_mtime_ns // 1_000_000
        except OSError as error:
            raise _failed("stat", path, error) from error

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Set the time of a file's last change, as for a copy that stands for its original."""
        try:
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
        except OSError as error:
            raise _failed("set time", path, error) from error

    def list_directory(self, path: Path) -> list[str]:
        """Give the names in a directory, sorted, so that what follows does not depend on the file system's order."""
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries)
        except OSError as error:
            raise _failed("list", path, error) from error

    def make_directory(self, path: Path, *, sync: bool = True) -> None:
        """Make a directory and its parents; no effect where it exists. `sync` makes its name durable."""
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _failed("make directory", path, error) from error
        if sync:
            self.sync_directory(path.parent)

    def read_file(self, path: Path, *, size_max: int = 64 * 1024 * 1024) -> bytes:
        """Read a small file whole; one larger than `size_max` is refused rather than trusted with memory."""
        file = self.open(path, writable=False)
        try:
            size = file.size()
            if size > size_max:
                raise DiskError("read", path, errno.EFBIG, f"{size} bytes, at most {size_max} expected")
            return file.read_at(0, size)
        finally:
            file.close()

    def replace_file(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        """Put `data` in the place of a small file: a reader finds the old content or the new, never a mixture.

        The bytes go to `<name>.tmp` (the name Kafka uses, and clears away at start) which is then renamed. Without
        `sync` this holds over a kill of the process; with it, over a loss of power.
        """
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        try:
            file.truncate(0)
            file.write_at(0, data)
            if sync:
                file.sync()
        finally:
            file.close()
        self.rename(temporary, path, sync=sync)

    def rename(self, source: Path, target: Path, *, sync: bool = True) -> None:
        """Rename a file or directory, replacing a file of the new name. `sync` makes it durable."""
        try:
            source.rename(target)
        except OSError as error:
            raise _failed("rename", source, error) from error
        if sync:
            self.sync_directory(target.parent)
            if source.parent != target.parent:
                self.sync_directory(source.parent)

    def unlink(self, path: Path) -> bool:
        """Remove a file; say whether it was there."""
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _failed("unlink", path, error) from error
        return True

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and what is in it; no effect where it is missing."""
        try:
            names = self.list_directory(path)
        except DiskError as error:
            if error.is_missing:
                return
            raise
        for name in names:
            child = path / name
            if child.is_dir() and not child.is_symlink():
                self.remove_tree(child)
            else:
                self.unlink(child)
        self.remove_directory(path)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        try:
            path.rmdir()
        except OSError as error:
            raise _failed("remove directory", path, error) from error

    def sync_directory(self, path: Path) -> None:
        """Wait until the names in a directory are on disk: creations, renames and removals."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise _failed("open", path, error) from error
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise _failed("sync", path, error) from error
        finally:
            os.close(descriptor)

    def lock(self, path: Path) -> FileLock:
        """Take an exclusive lock or raise a `DiskError` that `is_locked`.

        Two locks are taken: flock, which also keeps out a second broker of the same process, and a POSIX record lock,
        which is the one that a Java virtual machine takes, so Apache Kafka and Tailrace keep each other out.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise _failed("open", path, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise _failed("lock", path, error) from error
        return FileLock(path, descriptor)

    def total_bytes(self, path: Path) -> int:
        """Give the size of the file system of `path`."""
        try:
            found = os.statvfs(path)
        except OSError as error:
            raise _failed("statvfs", path, error) from error
        return found.f_blocks * found.f_frsize

    def free_bytes(self, path: Path) -> int:
        """Give the space that an ordinary user can still take on the file system of `path`."""
        try:
            found = os.statvfs(path)
        except OSError as error:
            raise _failed("statvfs", path, error) from error
        return found.f_bavail * found.f_frsize


def grown_size(allocated: int, needed: int, limit: int) -> int:
    """Say how large a file should be made that has `allocated` bytes and needs `needed`, at most `limit`.

    It doubles from 64 KiB on, by at most 64 MiB at a time: few calls for a busy partition, little waste for an idle
    one.
    What is needed is given even above the limit: the limit is where growing ahead of need ends.
    """
    step = min(max(allocated, ALLOCATION_BYTES_MIN), ALLOCATION_BYTES_MAX)
    return max(needed, min(max(allocated + step, needed), limit))


def _failed(operation: str, path: Path, error: OSError) -> DiskError:
    return DiskError(operation, path, error.errno or errno.EIO, error.strerror or "")
