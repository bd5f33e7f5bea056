"""Which offsets a task reads, and how the ranges of partitions become tasks.

Pure. A task is one range of one partition. `maxRecordsPerPartition` divides ranges that are longer, and `minPartitions`
has the larger ones divided in proportion to their size; both as the official connector does it, so that a query that
moves here has the tasks that it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from tailrace.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets of a partition from `first` to before `until`; not each of them has to have a record."""

    topic_partition: TopicPartition
    first: int
    until: int

    @property
    def size(self) -> int:
        """How many offsets these are."""
        return self.until - self.first

    def divided(self, parts: int) -> list[OffsetRange]:
        """Divide into parts whose sizes differ by one at most, the smaller ones first."""
        pieces: list[OffsetRange] = []
        first = self.first
        for part in range(parts):
            until = first + (self.until - first) // (parts - part)
            pieces.append(OffsetRange(self.topic_partition, first, until))
            first = until
        return pieces


def plan_tasks(
    ranges: Sequence[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Make the tasks' ranges of the partitions' ranges; those in which there is nothing to read are left out."""
    tasks = [offset_range for offset_range in ranges if offset_range.size > 0]
    if max_records is not None:
        tasks = [piece for task in tasks for piece in task.divided(-(-task.size // max_records))]
    if min_partitions is None or len(tasks) >= min_partitions or not tasks:
        return tasks
    return _divide_large(tasks, min_partitions)


def _divide_large(tasks: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Divide ranges by their share of all records; those that stay whole are not part of that sum."""
    total = sum(task.size for task in tasks)
    whole = {task for task in tasks if _share(task.size, total, min_partitions) == 1}
    left = total - sum(task.size for task in whole)
    parts_left = max(min_partitions - len(whole), 1)
    divided: list[OffsetRange] = []
    for task in tasks:
        divided += [task] if task in whole else task.divided(_share(task.size, left, parts_left))
    return divided


def _share(size: int, total: int, parts: int) -> int:
    """Give the number of parts for a range, rounded half up, and at least one."""
    return max(floor(size / total * parts + 0.5), 1)
