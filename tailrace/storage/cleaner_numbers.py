"""What is to be seen of the cleaner: the numbers behind Kafka's metrics of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tailrace.storage.cleaning_plan import CleaningStats


@dataclass(slots=True)
class CleanerNumbers:
    """A snapshot, for metrics."""

    max_dirty_percent: float = 0.0
    """The largest dirty share of a log, when logs were last looked at."""
    max_compaction_delay_s: float = 0.0
    """By how much something dirty was older than its topic's max.compaction.lag.ms."""
    time_since_last_run_ms: int = 0
    recopy_percent: float = 0.0
    """Of what the last cleanings read, how much they wrote again."""
    max_clean_time_s: float = 0.0
    max_buffer_utilization_percent: float = 0.0
    uncleanable_partitions: dict[Path, int] = field(default_factory=dict[Path, int])
    """Logs set aside, by data directory."""
    uncleanable_bytes: dict[Path, int] = field(default_factory=dict[Path, int])
    running_count: int = 0
    cleanings: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def take_last(self, stats: list[CleaningStats]) -> None:
        """Take over what the last cleaning of each thread did."""
        read = sum(one.bytes_read for one in stats)
        self.recopy_percent = 100 * sum(one.bytes_written for one in stats) / read if read else 0.0
        self.max_clean_time_s = max((one.seconds for one in stats), default=0.0)
        self.max_buffer_utilization_percent = 100 * max((one.map_utilization for one in stats), default=0.0)
