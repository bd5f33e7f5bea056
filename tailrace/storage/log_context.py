"""What every log of a broker shares: disk, clock, chance, threads, and whom to tell when something goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tailrace.clock import Clock
from tailrace.storage.disk import Disk, DiskError


def _nobody_listens(*_: object) -> None:
    """Take a report that nobody asked for."""


@dataclass(slots=True)
class LogContext:
    """The surroundings of a log; made once by the log manager."""

    clock: Clock
    disk: Disk = field(default_factory=Disk)
    random: Random = field(default_factory=Random)
    executor: Executor | None = None
    """Where fsync and deletion run; None takes the event loop's own threads."""
    producer_id_expiration_ms: int = 86_400_000
    transaction_max_timeout_ms: int = 900_000
    on_disk_failed: Callable[[Path, DiskError], object] = _nobody_listens
    """Told the log directory in which the disk refused an operation: every log in it goes offline."""
    on_flush: Callable[[float], object] = _nobody_listens
    """Told how many seconds a sync took."""
    on_roll: Callable[[object], object] = _nobody_listens
    """Told the log that has rolled, so that the closed segment is synced soon."""
    before_truncation: Callable[[object, int], object] = _nobody_listens
    """Told the log and the offset it is about to be cut to: the recovery point on disk must not stay above it."""
    delete_later: Callable[[Sequence[Path], int], object] = _nobody_listens
    """Asked to delete files (already renamed) in that many milliseconds."""
