"""What happens to logs by the clock.

    log.retention.check.interval.ms                 old segments are deleted
    log.flush.offset.checkpoint.interval.ms         recovery points are written down
    log.flush.start.offset.checkpoint.interval.ms   log start offsets are
    replica.high.watermark.checkpoint.interval.ms   high watermarks are
    flush.ms of a topic                             its logs are synced
    producer.id.expiration.check.interval.ms        silent producers are forgotten
    file.delete.delay.ms of a topic                 files already renamed are removed

Deciding runs on the event loop, what blocks runs on the log manager's threads. A failing disk takes its directory
offline and ends none of these tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.clock import TimerHandle
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.storage.checkpoint_file import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT
from tailrace.storage.disk import DiskError
from tailrace.storage.log import Log
from tailrace.storage.log_directory import high_watermarks, log_start_offsets, recovery_points

if TYPE_CHECKING:
    from tailrace.storage.log_manager import LogManager

FLUSH_CHECK_INTERVAL_MS = 1000
"""How often flush.ms is looked at; a topic may set it far below `log.flush.scheduler.interval.ms`."""
_logger = logging.getLogger(__name__)


class LogHousekeeping:
    """The background work of a log manager."""

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._timers: set[_Removal] = set()
        self._is_running = False

    def start(self) -> None:
        """Begin."""
        config = self._manager.config
        self._is_running = True
        initial_ms = config.log_initial_task_delay_ms
        flush_ms = min(config.log_flush_scheduler_interval_ms, FLUSH_CHECK_INTERVAL_MS)
        plan: list[tuple[float, Callable[[], Coroutine[object, object, None]]]] = [
            (config.log_retention_check_interval_ms, self.delete_old_segments),
            (config.log_flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points),
            (config.log_flush_start_offset_checkpoint_interval_ms, self.checkpoint_log_start_offsets),
            (config.replica_high_watermark_checkpoint_interval_ms, self.checkpoint_high_watermarks),
            (flush_ms, self.flush_by_age),
            (config.producer_id_expiration_check_interval_ms, self.expire_producers),
        ]
        loop = asyncio.get_running_loop()
        self._loops = [loop.create_task(self._repeat(initial_ms, interval, work)) for interval, work in plan]

    async def stop(self) -> None:
        """End; what runs on a thread is waited for."""
        self._is_running = False
        for removal in list(self._timers):
            removal.cancel()
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(
        self, initial_ms: float, interval_ms: float, work: Callable[[], Coroutine[object, object, None]]
    ) -> None:
        clock = self._manager.clock
        await clock.sleep(min(initial_ms, interval_ms))
        while True:
            await self._spawn(work())
            await clock.sleep(interval_ms)

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Future[None]:
        """Run a piece of work as a task of its own: cancelling the loop that waits for it does not cut it short."""
        task = asyncio.get_running_loop().create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asyncio.shield(task)

    async def _guard(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception:  # Our own fault is logged whole, and the next round comes.
            _logger.exception("background work of the logs failed")

    def _online_logs(self) -> list[Log]:
        return [log for log in self._manager.logs.values() if not log.is_offline]

    # -- the work ---------------------------------------------------------------------------------------------------

    async def delete_old_segments(self) -> None:
        """Apply retention to every log."""
        for log in self._online_logs():
            try:
                log.delete_old_segments()
            except ApiError as error:
                _logger.error("retention of %s: %s", log.topic_partition, error)
            await asyncio.sleep(0)  # Requests go on between two logs.

    async def flush_by_age(self) -> None:
        """Sync the logs whose records have waited for flush.ms."""
        now_ms = self._manager.clock.time_ms()
        for log in self._online_logs():
            flusher = log.flusher
            if log.log_end_offset == flusher.recovery_point:
                flusher.last_flush_ms = now_ms
            elif now_ms - flusher.last_flush_ms >= log.config.flush_ms:
                await self._flush(log)

    async def _flush(self, log: Log) -> None:
        try:
            await log.flush(log.log_end_offset)
        except ApiError as error:
            _logger.error("flush of %s: %s", log.topic_partition, error)

    def flush_soon(self, log: object) -> None:
        """Sync a log that has rolled: its closed segment should not need recovery."""
        assert isinstance(log, Log)
        if self._is_running:
            self._spawn(self._flush(log))

    async def expire_producers(self) -> None:
        """Forget the producers that were silent for long."""
        now_ms = self._manager.clock.time_ms()
        for log in self._online_logs():
            log.producer_state.remove_expired_producers(now_ms)

    async def checkpoint_recovery_points(self) -> None:
        """Write down what is on disk."""
        await self._checkpoint(RECOVERY_POINT_CHECKPOINT, recovery_points)

    async def checkpoint_log_start_offsets(self) -> None:
        """Write down where logs begin."""
        await self._checkpoint(LOG_START_CHECKPOINT, log_start_offsets)

    async def checkpoint_high_watermarks(self) -> None:
        """Write down the high watermarks."""
        await self._checkpoint(REPLICATION_CHECKPOINT, high_watermarks)

    async def _checkpoint(self, name: str, offsets_of: Callable[[Sequence[Log]], dict[TopicPartition, int]]) -> None:
        manager = self._manager
        loop = asyncio.get_running_loop()
        for directory in manager.directories:
            if directory.failure is None and directory.lock is not None:
                offsets, generation = offsets_of(manager.logs_in(directory.path)), directory.generation
                try:
                    await loop.run_in_executor(manager.executor, directory.write_checkpoint, name, offsets, generation)
                except DiskError as error:
                    manager.context.on_disk_failed(directory.path, error)

    # -- removing ---------------------------------------------------------------------------------------------------

    def delete_later(self, paths: Sequence[Path], delay_ms: int) -> None:
        """Remove files that are out of their log already."""
        if paths:
            self._remove_later(_Removal(list(paths), is_directory=False), delay_ms)

    def remove_directory_later(self, path: Path, delay_ms: int) -> None:
        """Remove a partition directory that is out of use already."""
        self._remove_later(_Removal([path], is_directory=True), delay_ms)

    def _remove_later(self, removal: _Removal, delay_ms: int) -> None:
        self._timers.add(removal)
        removal.timer = self._manager.clock.call_later(delay_ms, lambda: self._remove(removal))

    def _remove(self, removal: _Removal) -> None:
        self._timers.discard(removal)
        self._spawn(self._perform(removal))

    async def _perform(self, removal: _Removal) -> None:
        disk = self._manager.disk
        remove: Callable[[Path], object] = disk.remove_tree if removal.is_directory else disk.unlink
        loop = asyncio.get_running_loop()
        for path in removal.paths:
            try:
                await loop.run_in_executor(self._manager.executor, remove, path)
            except DiskError as error:
                # Nothing is lost by a file that stays: the next start removes it.
                _logger.error("could not remove %s: %s", path, error)


class _Removal:
    """Files or a directory that wait to be removed."""

    __slots__ = ("is_directory", "paths", "timer")

    def __init__(self, paths: list[Path], *, is_directory: bool) -> None:
        self.paths = paths
        self.is_directory = is_directory
        self.timer: TimerHandle | None = None

    def cancel(self) -> None:
        """Leave them; the next start removes them."""
        if self.timer is not None:
            self.timer.cancel()
