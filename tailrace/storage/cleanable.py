"""What of a log the cleaner may and should clean: the range, its bytes, and whether it is time.

    log start ... first dirty offset ... first uncleanable offset ... log end
         clean            dirty, may be cleaned         must not be touched

Not touched are the active segment, what lies at or above the last stable offset, and segments younger than
min.compaction.lag.ms. It is time when the dirty share exceeds min.cleanable.dirty.ratio, or something dirty is older
than max.compaction.lag.ms. Asks a log and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.settings.definition import LONG_MAX
from tailrace.storage.log import Log
from tailrace.storage.segment import Segment


@dataclass(slots=True)
class CleanableRange:
    """What could be cleaned of one log, if it were its turn."""

    log: Log
    first_dirty_offset: int
    first_uncleanable_offset: int
    """The base offset of the first segment that must be left alone."""
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """By how much something dirty is older than max.compaction.lag.ms; 0 where nothing is."""
    replaces_checkpoint: bool
    """Whether the checkpoint named an offset that the log does not have any more."""

    @property
    def total_bytes(self) -> int:
        """Bytes of the clean and the cleanable segments."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """The dirty share."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether the log should be cleaned."""
        if self.compaction_delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio


def cleanable_range(log: Log, checkpoint: int | None, now_ms: int) -> CleanableRange:
    """Say what could be cleaned; `checkpoint` is up to where the log was clean. Raises DiskError, SegmentDamaged."""
    start = log.log_start_offset
    first_dirty = start if checkpoint is None else checkpoint
    is_wrong = not start <= first_dirty <= log.log_end_offset
    if is_wrong:
        first_dirty = start
    uncleanable = max(first_dirty, _first_uncleanable_offset(log, first_dirty, now_ms))
    slot = min(max(log.segment_slot(uncleanable), 0), len(log.segments) - 1)
    end = log.segments[slot].base_offset
    clean = cleanable = 0
    dirty: list[Segment] = []
    for segment in log.segments[:slot]:
        if segment.base_offset < first_dirty:
            # One that is clean in part counts among both, as in Kafka.
            clean += segment.size
    for segment in _from(log, min(first_dirty, end), slot):
        cleanable += segment.size
        dirty.append(segment)
    delay = _compaction_delay_ms(log, first_dirty, now_ms)
    return CleanableRange(log, first_dirty, end, clean, cleanable, delay, is_wrong)


def _from(log: Log, offset: int, end_slot: int) -> list[Segment]:
    """Give the segments from the one that holds `offset` to that before `end_slot`."""
    return log.segments[max(log.segment_slot(offset), 0) : end_slot]


def _first_uncleanable_offset(log: Log, first_dirty: int, now_ms: int) -> int:
    offset = min(log.last_stable_offset, log.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in _from(log, first_dirty, len(log.segments) - 1):
            if segment.load_largest_timestamp() > now_ms - lag_ms:
                return min(offset, segment.base_offset)
    return offset


def _compaction_delay_ms(log: Log, first_dirty: int, now_ms: int) -> int:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= LONG_MAX:
        return 0
    times = [segment.load_first_timestamp() for segment in _from(log, first_dirty, len(log.segments) - 1)]
    oldest = min((time for time in times if time > 0), default=None)
    return 0 if oldest is None else max(now_ms - lag_ms - oldest, 0)
