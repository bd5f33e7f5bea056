"""The cleaner: which compacted log is cleaned next, and what becomes of the result.

Decides and swaps on the event loop; reading and writing is done by a `SegmentCleaner`, in a process of its own where
it can be. `log.cleaner.threads` logs are cleaned at a time, the one with the largest dirty share first; where there is
none to clean, `log.cleaner.backoff.ms` go by. A log that can't be cleaned (a damaged batch) is set aside until the next
start, with an error; it goes on serving. Settings are taken anew for every log.

While a log is cleaned it goes on: what it loses at its start meanwhile is not put back, and where it is cut the
cleaning is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.storage.checkpoint_file import CLEANER_CHECKPOINT
from tailrace.storage.cleanable import CleanableRange, cleanable_range
from tailrace.storage.cleaner_numbers import CleanerNumbers
from tailrace.storage.cleaner_pace import CleaningStopped
from tailrace.storage.cleaner_process import CleanerProcess
from tailrace.storage.cleaner_thread import CleanerThread
from tailrace.storage.cleaning_plan import CleaningPlan, CleaningStats
from tailrace.storage.cleaning_planner import plan_cleaning
from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.log import Log
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.segment import Segment
from tailrace.storage.segment_swap import swap_in
from tailrace.storage.swap_files import CLEANED_SUFFIX

if TYPE_CHECKING:
    from tailrace.storage.log_manager import LogManager

THREADS_MAX = 64
T = TypeVar("T")
_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Cleaning:
    """A log that is being cleaned."""

    log: Log
    worker: CleanerProcess | CleanerThread | None = None
    is_given_up: bool = False

    def give_up(self) -> None:
        """See to it that nothing more is swapped in."""
        self.is_given_up = True
        if self.worker is not None:
            self.worker.stop()

    def close(self) -> None:
        """Let the worker go; for a thread."""
        if self.worker is not None:
            self.worker.close()


class LogCleaner:
    """Compacts the logs of a manager. Everything but the work itself is on the event loop."""

    def __init__(self, manager: LogManager, *, uses_process: bool | None = None) -> None:
        self._manager = manager
        # A disk that is not the real one lives in this process.
        self._uses_process = type(manager.disk) is Disk if uses_process is None else uses_process
        self._executor: ThreadPoolExecutor | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._resting: set[int] = set()
        self._cleanings: dict[TopicPartition, Cleaning] = {}
        self._is_running = False
        self._checkpointing = asyncio.Lock()
        self.checkpoints: dict[TopicPartition, int] = {}
        """Up to where each log is clean; on disk it may be less."""
        self.uncleanable: dict[TopicPartition, str] = {}
        """The logs set aside, each with the reason."""
        self.last_stats: dict[int, CleaningStats] = {}
        """What the last cleaning of each of the threads did."""
        self._max_dirty_percent = 0.0
        self._max_compaction_delay_ms = 0
        self._last_run_ms = manager.clock.time_ms()
        self._cleanings_count = self._bytes_read = self._bytes_written = 0

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin cleaning, unless `log.cleaner.enable` is false."""
        self._is_running = self._manager.config.log_cleaner_enable
        self.adjust()

    def adjust(self) -> None:
        """Begin as many loops as `log.cleaner.threads` says now; too many of them end after what they are doing."""
        if not self._is_running:
            return
        loop = asyncio.get_running_loop()
        for number in range(min(self._manager.config.log_cleaner_threads, THREADS_MAX)):
            if number not in self._tasks:
                self._tasks[number] = loop.create_task(self._work(number))

    async def stop(self) -> None:
        """End; what is half done is given up."""
        self._is_running = False
        for cleaning in self._cleanings.values():
            cleaning.give_up()
        for number in self._resting:
            self._tasks[number].cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    async def _work(self, number: int) -> None:
        manager = self._manager
        while self._is_running and number < manager.config.log_cleaner_threads:
            has_cleaned = False
            try:
                has_cleaned = await self.clean_filthiest(number)
            except Exception:  # Our own fault is logged whole, and the next round comes.
                _logger.exception("the cleaner failed")
            if not has_cleaned and self._is_running:
                self._resting.add(number)
                try:
                    await manager.clock.sleep(manager.config.log_cleaner_backoff_ms)
                finally:
                    self._resting.discard(number)
        del self._tasks[number]

    # -- what others tell -------------------------------------------------------------------------------------------

    def truncated(self, log: Log, offset: int) -> None:
        """Note that a log is about to be cut: what is written there later is dirty again."""
        cleaning = self._cleanings.get(log.topic_partition)
        if cleaning is not None and cleaning.log is log:
            cleaning.give_up()
        if self.checkpoints.get(log.topic_partition, 0) > offset:
            self.checkpoints[log.topic_partition] = offset

    def removed(self, topic_partition: TopicPartition) -> None:
        """Forget a log that is out of use."""
        cleaning = self._cleanings.get(topic_partition)
        if cleaning is not None:
            cleaning.give_up()
        self.checkpoints.pop(topic_partition, None)
        self.uncleanable.pop(topic_partition, None)

    # -- choosing ---------------------------------------------------------------------------------------------------

    async def clean_filthiest(self, number: int = 0) -> bool:
        """Clean the log that needs it most; say whether there was one."""
        chosen = self._choose()
        if chosen is None:
            return False
        log = chosen.log
        try:
            stats = await self._clean(chosen)
        except CleaningStopped:
            _logger.info("%s: the cleaning was given up", log.topic_partition)
            return False
        except DiskError as error:
            self._disk_failed(log, error)
            return False
        except (SegmentDamaged, ApiError, RuntimeError, OSError) as error:
            self._set_aside(log, str(error))
            return False
        self.last_stats[number] = stats
        self._cleanings_count += 1
        _logger.info(
            "%s: cleaned up to offset %d in %.1f s: %d of %d records and %d of %d bytes are left",
            log.topic_partition,
            stats.end_offset,
            stats.seconds,
            stats.records_kept,
            stats.records_read,
            stats.bytes_written,
            stats.bytes_copied_from,
        )
        return True

    def _choose(self) -> CleanableRange | None:
        """Find the log with the largest dirty share among those that are due."""
        manager = self._manager
        self._last_run_ms = now_ms = manager.clock.time_ms()
        self._max_dirty_percent = 0.0
        self._max_compaction_delay_ms = 0
        best: CleanableRange | None = None
        for topic_partition, log in manager.logs.items():
            if (
                log.failure is not None
                or "compact" not in log.config.cleanup_policy
                or len(log.segments) == 1
                or topic_partition in self._cleanings
                or topic_partition in self.uncleanable
            ):
                continue
            found = self._look_at(log, now_ms)
            if found is None or not found.total_bytes:
                continue
            self._max_dirty_percent = max(self._max_dirty_percent, 100 * found.ratio)
            self._max_compaction_delay_ms = max(self._max_compaction_delay_ms, found.compaction_delay_ms)
            if found.is_due and (best is None or found.ratio > best.ratio):
                best = found
        return best

    def _look_at(self, log: Log, now_ms: int) -> CleanableRange | None:
        try:
            found = cleanable_range(log, self.checkpoint_of(log), now_ms)
        except (DiskError, SegmentDamaged) as error:
            self._set_aside(log, str(error))
            return None
        if found.replaces_checkpoint:
            # Where old segments are deleted too, the log's start passes the checkpoint in the ordinary course.
            if "delete" not in log.config.cleanup_policy:
                _logger.warning("%s: the cleaner's checkpoint is outside the log; it begins anew", log.topic_partition)
            self.checkpoints[log.topic_partition] = found.first_dirty_offset
        return found

    def checkpoint_of(self, log: Log) -> int | None:
        """Give the offset up to which a log is clean, None where it never was cleaned."""
        known = self.checkpoints.get(log.topic_partition)
        if known is None:
            known = self._manager.directory_of(log).checkpointed(CLEANER_CHECKPOINT, log.topic_partition)
            if known is not None:
                self.checkpoints[log.topic_partition] = known
        return known

    # -- cleaning ---------------------------------------------------------------------------------------------------

    async def _clean(self, chosen: CleanableRange) -> CleaningStats:
        """Perform one cleaning, from the plan to the checkpoint."""
        log, manager = chosen.log, self._manager
        plan = plan_cleaning(chosen, manager.config, manager.clock.time_ms())
        sources = {segment.base_offset: segment for segment in log.segments}
        cleaning = self._cleanings[log.topic_partition] = Cleaning(log)
        started = manager.clock.monotonic()
        try:
            await self._start_worker(cleaning, plan)
            stats = await self._perform(cleaning, plan, sources)
        except Exception as error:
            if cleaning.is_given_up:  # What was read may have been cut or deleted under the cleaner's hands.
                raise CleaningStopped from error
            raise
        finally:
            await self._run(cleaning.close)
            await self._run(remove_leftovers, manager.disk, plan)
            del self._cleanings[log.topic_partition]
        stats.seconds = manager.clock.monotonic() - started
        if not cleaning.is_given_up:
            await self._advance(log, min([stats.end_offset, *stats.dropped]))
        return stats

    async def _start_worker(self, cleaning: Cleaning, plan: CleaningPlan) -> None:
        if self._uses_process:
            process = CleanerProcess(plan)
            cleaning.worker = process
            if cleaning.is_given_up:
                process.stop()
            try:
                await self._run(process.start)
            except OSError as error:
                _logger.warning("no process for the cleaner, so it shares that of the event loop: %s", error)
                self._uses_process = False
            else:
                return
        cleaning.worker = CleanerThread(plan, self._manager.disk, self._manager.clock)
        if cleaning.is_given_up:
            cleaning.worker.stop()

    async def _perform(self, cleaning: Cleaning, plan: CleaningPlan, sources: dict[int, Segment]) -> CleaningStats:
        """Have the worker do its steps, and swap in what each gives."""
        worker, log = cleaning.worker, cleaning.log
        assert worker is not None
        report = await self._run(worker.build_map)
        if report.end_offset <= plan.first_dirty_offset:
            raise RuntimeError(
                f"the batch at offset {plan.first_dirty_offset} has more keys than log.cleaner.dedupe.buffer.size "
                "has room for"
            )
        stats = CleaningStats(
            bytes_mapped=report.bytes_read, map_utilization=report.utilization, end_offset=report.end_offset
        )
        while (cleaned := await self._run(worker.clean_next)) is not None:
            if cleaning.is_given_up or log.failure is not None:
                raise CleaningStopped
            if not swap_in(log, cleaned, [sources[source.base_offset] for source in cleaned.sources]):
                stats.dropped.append(cleaned.base_offset)
                continue
            await self._run(self._manager.disk.sync_directory, log.directory)
            stats.add(cleaned)
            self._bytes_read += cleaned.bytes_read
            self._bytes_written += cleaned.size
        self._bytes_read += report.bytes_read
        return stats

    async def _advance(self, log: Log, offset: int) -> None:
        """Note that a log is clean up to `offset`."""
        self.checkpoints[log.topic_partition] = offset
        directory = self._manager.directory_of(log)
        async with self._checkpointing:
            logs = self._manager.logs
            offsets = {
                known: offset
                for known, offset in directory.written.get(CLEANER_CHECKPOINT, {}).items()
                if known in logs
            }
            offsets.update(
                (one.topic_partition, self.checkpoints[one.topic_partition])
                for one in self._manager.logs_in(directory.path)
                if one.topic_partition in self.checkpoints
            )
            try:
                await self._run(directory.write_checkpoint, CLEANER_CHECKPOINT, offsets, directory.generation)
            except DiskError as error:
                self._manager.context.on_disk_failed(directory.path, error)

    async def _run(self, function: Callable[..., T], *arguments: object) -> T:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="tailrace-cleaner")
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *arguments)

    # -- failing ----------------------------------------------------------------------------------------------------

    def _set_aside(self, log: Log, reason: str) -> None:
        """Try this log no more until the next start; it goes on serving what it has."""
        if self._manager.get(log.topic_partition) is log and log.failure is None:
            self.uncleanable[log.topic_partition] = reason
            _logger.error("%s can't be cleaned and is set aside until the next start: %s", log.topic_partition, reason)

    def _disk_failed(self, log: Log, error: DiskError) -> None:
        """Take the directory offline, unless the log just went away or the disk is only full."""
        if self._manager.get(log.topic_partition) is not log or log.failure is not None:
            return
        if error.is_missing and not self._manager.disk.exists(error.path):
            _logger.info("%s: the cleaning was given up, a segment has gone: %s", log.topic_partition, error)
        elif error.is_disk_full:
            # Nothing is lost: the old segments are there, and the next round may find room.
            _logger.error("%s: no room for cleaning it: %s", log.topic_partition, error)
        else:
            log.disk_failed(error)

    # -- metrics ----------------------------------------------------------------------------------------------------

    def take_numbers(self) -> CleanerNumbers:
        """Give what there is to see at this moment."""
        numbers = CleanerNumbers(
            max_dirty_percent=self._max_dirty_percent,
            max_compaction_delay_s=self._max_compaction_delay_ms / 1000,
            time_since_last_run_ms=self._manager.clock.time_ms() - self._last_run_ms,
            running_count=len(self._cleanings),
            cleanings=self._cleanings_count,
            bytes_read=self._bytes_read,
            bytes_written=self._bytes_written,
        )
        numbers.take_last(list(self.last_stats.values()))
        for directory in self._manager.directories:
            logs = [log for log in self._manager.logs_in(directory.path) if log.topic_partition in self.uncleanable]
            numbers.uncleanable_partitions[directory.path] = len(logs)
            numbers.uncleanable_bytes[directory.path] = sum(log.size_bytes for log in logs)
        return numbers


def remove_leftovers(disk: Disk, plan: CleaningPlan) -> None:
    """Remove what a cleaning that was given up has left."""
    try:
        names = [name for name in disk.list_directory(plan.directory) if name.endswith(CLEANED_SUFFIX)]
        for name in names:
            disk.unlink(plan.directory / name)
    except DiskError as error:
        # A deleted topic takes its directory along; anything else is in nobody's way, and the next start removes it.
        if not error.is_missing:
            _logger.warning("could not remove what a cleaning left in %s: %s", plan.directory, error)
