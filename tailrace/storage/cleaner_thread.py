"""A cleaner on a thread of the broker's own process.

For where no other process can be started or could see the disk (tests have one in this process). Python lets one thread
run at a time, so while it looks at records the event loop waits now and then; `cleaner_process` is what spares it.
"""

from __future__ import annotations

from threading import Event

from tailrace.clock import Clock
from tailrace.storage.cleaner_pace import CleanerPace
from tailrace.storage.cleaning_plan import CleanedSegment, CleaningPlan, MapReport
from tailrace.storage.disk import Disk
from tailrace.storage.segment_cleaner import SegmentCleaner


class CleanerThread:
    """Performs one plan; everything but `stop` is for the thread."""

    def __init__(self, plan: CleaningPlan, disk: Disk, clock: Clock) -> None:
        self._plan = plan
        self._disk = disk
        self._clock = clock
        self._stopping = Event()
        self._cleaner: SegmentCleaner | None = None

    def build_map(self) -> MapReport:
        """Read the dirty segments; errors as from `SegmentCleaner`, and `CleaningStopped`."""
        pace = CleanerPace(self._clock, self._plan.limits.bytes_per_second, self._stopping)
        self._cleaner = SegmentCleaner(self._plan, self._disk, pace)
        return self._cleaner.build_map()

    def clean_next(self) -> CleanedSegment | None:
        """Clean the next segments into one; None where all are done."""
        assert self._cleaner is not None
        return self._cleaner.clean_next()

    def stop(self) -> None:
        """Have whatever runs end soon."""
        self._stopping.set()

    def close(self) -> None:
        """Let the memory go."""
        self._cleaner = None
