"""What a cleaner is told before it begins, and what it answers: plain values, for another thread or process.

The event loop makes a `CleaningPlan` of a log as it is at that moment. The cleaner reads only files named in it and
writes only `.cleaned` files; the event loop then looks whether the log still is as the plan says, and swaps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tailrace.storage.batch_retention import LastBatch
from tailrace.storage.disk import DiskError
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.segment import SegmentLimits
from tailrace.storage.transaction_index import AbortedTransaction


@dataclass(slots=True)
class SourceSegment:
    """A closed segment, as the plan found it."""

    base_offset: int
    path: Path
    size: int
    modified_ms: int


@dataclass(slots=True)
class CleanerLimits:
    """How much memory and disk a cleaner may use."""

    map_bytes: int
    map_load_factor: float
    buffer_bytes: int
    bytes_per_second: float


@dataclass(slots=True)
class CleaningPlan:
    """One cleaning of one log."""

    directory: Path
    segments: list[SourceSegment]
    """Every segment from the log's first to the last that may be cleaned."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    """Where the segments end: the base offset of the first that is not among them."""
    aborted: list[AbortedTransaction]
    last_batches: dict[int, LastBatch]
    now_ms: int
    delete_retention_ms: int
    segment_limits: SegmentLimits
    limits: CleanerLimits


@dataclass(slots=True)
class MapReport:
    """What became of reading the dirty segments."""

    end_offset: int
    """Up to here (exclusive) the log is clean when all is done; the first dirty offset where no batch fitted."""
    utilization: float
    bytes_read: int
    records_read: int


@dataclass(slots=True)
class CleanedSegment:
    """A segment that may take the place of some others; its files end in `.cleaned` and are on disk."""

    base_offset: int
    size: int
    sources: list[SourceSegment]
    bytes_read: int = 0
    records_read: int = 0
    records_kept: int = 0


@dataclass(slots=True)
class CleaningFailure:
    """What ended a cleaner in another process. Exceptions with arguments of their own do not travel by themselves."""

    kind: str
    arguments: tuple[object, ...]

    @classmethod
    def of(cls, error: Exception) -> CleaningFailure:
        """Take an exception apart."""
        if isinstance(error, DiskError):
            return cls("disk", (error.operation, error.path, error.errno))
        if isinstance(error, SegmentDamaged):
            return cls("damage", (error.path, error.position, error.reason))
        return cls("other", (f"{type(error).__name__}: {error}",))

    def error(self) -> Exception:
        """Put it together again; what the broker has no way to handle is a RuntimeError."""
        if self.kind == "disk":
            return DiskError(*self.arguments)  # type: ignore[arg-type]
        if self.kind == "damage":
            return SegmentDamaged(*self.arguments)  # type: ignore[arg-type]
        return RuntimeError(*self.arguments)


@dataclass(slots=True)
class CleaningStats:
    """What one cleaning did, for the log and for metrics."""

    bytes_mapped: int = 0
    """Bytes read for the map."""
    bytes_copied_from: int = 0
    """Bytes read to be copied or left out."""
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    map_utilization: float = 0.0
    seconds: float = 0.0
    end_offset: int = 0
    dropped: list[int] = field(default_factory=list[int])
    """Base offsets of segments that were cleaned in vain: those they were made of had gone meanwhile."""

    @property
    def bytes_read(self) -> int:
        """All that was read."""
        return self.bytes_mapped + self.bytes_copied_from

    def add(self, cleaned: CleanedSegment) -> None:
        """Count a segment that was swapped in."""
        self.bytes_copied_from += cleaned.bytes_read
        self.bytes_written += cleaned.size
        self.records_read += cleaned.records_read
        self.records_kept += cleaned.records_kept
