"""Every log of a broker, in one or more data directories.

Lives here: opening them all at the start (on threads, recovery where the last stop was no clean one), making and
deleting logs, and what happens when a directory fails. What happens in the background, by the clock, is
`log_housekeeping`. Promises: one damaged log does not keep the others from serving; a directory that fails takes its
logs offline and no others; `stop` leaves nothing to recover. Which partitions there should be is the metadata store's
to say.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from tailrace.clock import Clock
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID, uuid_text
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.log_config import LogConfig
from tailrace.storage.checkpoint_file import LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT
from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.log import Log
from tailrace.storage.log_cleaner import LogCleaner
from tailrace.storage.log_context import LogContext
from tailrace.storage.log_directory import LogDirectory, high_watermarks, log_start_offsets, recovery_points
from tailrace.storage.log_housekeeping import LogHousekeeping
from tailrace.storage.log_loader import LogLoader
from tailrace.storage.partition_directory import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    is_marked,
    marked_name,
    parse_directory_name,
)
from tailrace.storage.partition_metadata import read_partition_metadata, write_partition_metadata

_LOADERS_AT_ONCE = 2000
"""How many logs are opened between two lines of progress."""
_THREADS_MIN = 4
"""Syncs, checkpoints and deletions share the threads with recovery; one slow sync must not hold up all others."""
T = TypeVar("T")
_logger = logging.getLogger(__name__)


class LogManager:
    """The logs of one broker."""

    def __init__(
        self,
        directories: Sequence[Path],
        config: BrokerConfig,
        clock: Clock,
        disk: Disk | None = None,
        *,
        on_directory_offline: Callable[[Path, str], object] | None = None,
        on_flush: Callable[[float], object] | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.disk = disk or Disk()
        self.directories = [LogDirectory(Path(path), self.disk) for path in dict.fromkeys(directories)]
        self._by_path = {directory.path: directory for directory in self.directories}
        self._logs: dict[TopicPartition, Log] = {}
        self._unreadable: dict[TopicPartition, str] = {}
        self._on_directory_offline = on_directory_offline
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = threading.get_ident()
        self.executor: Executor = ThreadPoolExecutor(
            max(self._threads, _THREADS_MIN), thread_name_prefix="tailrace-log"
        )
        self.housekeeping = LogHousekeeping(self)
        self.cleaner = LogCleaner(self)
        self.context = LogContext(
            clock=clock,
            disk=self.disk,
            executor=self.executor,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            transaction_max_timeout_ms=config.transaction_max_timeout_ms,
            on_disk_failed=self._disk_failed,
            on_roll=self.housekeeping.flush_soon,
            before_truncation=self._lower_recovery_point,
            delete_later=self.housekeeping.delete_later,
        )
        if on_flush is not None:
            self.context.on_flush = on_flush

    # -- what there is ----------------------------------------------------------------------------------------------

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Every log, those that are offline included."""
        return MappingProxyType(self._logs)

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """Give the log of a partition, None where there is none."""
        return self._logs.get(topic_partition)

    @property
    def offline_directories(self) -> dict[Path, str]:
        """The directories that no longer serve, each with the reason."""
        return {directory.path: directory.failure for directory in self.directories if directory.failure is not None}

    def directory_of(self, log: Log) -> LogDirectory:
        """Give the data directory that a log lies in."""
        return self._by_path[log.directory.parent]

    def logs_in(self, path: Path) -> list[Log]:
        """Give the logs that lie in a data directory."""
        return [log for log in self._logs.values() if log.directory.parent == path]

    # -- life -------------------------------------------------------------------------------------------------------

    def lock_directories(self) -> None:
        """Keep other brokers out of the data directories; raises `DirectoryInUse`. `load_all` does it too."""
        for directory in self.directories:
            if directory.failure is None:
                try:
                    directory.take_lock()
                except DiskError as error:
                    self._fail(directory, str(error))

    async def load_all(self, config_of: Callable[[str], LogConfig] | None = None) -> None:
        """Open every log that lies in the directories, on threads; `config_of` gives the settings of a topic."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self.lock_directories()
        started = self.clock.monotonic()
        loaders = [loader for directory in self.directories for loader in self._loaders(directory, config_of)]
        for start in range(0, len(loaders), _LOADERS_AT_ONCE):
            group = loaders[start : start + _LOADERS_AT_ONCE]
            # A thread takes a run of them: handing over one by one costs more than opening an idle log.
            share = -(-len(group) // self._threads)
            runs = [group[first : first + share] for first in range(0, len(group), share)]
            for results in await asyncio.gather(*(self._run(_load, run) for run in runs)):
                for loader, result in results:
                    self._loaded(loader, result)
            if len(loaders) > _LOADERS_AT_ONCE:
                _logger.info("opened %d of %d logs", start + len(group), len(loaders))
        if loaders:
            _logger.info("opened %d logs in %.3f s", len(loaders), self.clock.monotonic() - started)

    @property
    def _threads(self) -> int:
        return self.config.num_recovery_threads_per_data_dir * max(len(self.directories), 1)

    def _run(self, function: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self.executor, function, *arguments)

    def _loaders(self, directory: LogDirectory, config_of: Callable[[str], LogConfig] | None) -> list[LogLoader]:
        """Find the partitions of a directory."""
        if directory.failure is not None:
            return []
        try:
            directory.open()
            names = self.disk.list_directory(directory.path)
        except DiskError as error:
            self._fail(directory, str(error))
            return []
        default = LogConfig.from_overrides(self.config, {})
        loaders: list[LogLoader] = []
        for name in names:
            path = directory.path / name
            topic_partition = parse_directory_name(name)
            if is_marked(name) and name.endswith(DELETE_SUFFIX):
                self.housekeeping.remove_directory_later(path, default.file_delete_delay_ms)
            elif topic_partition is not None and self.disk.is_directory(path):
                config = config_of(topic_partition.topic) if config_of else default
                loaders.append(self._loader(directory, topic_partition, path, config))
        return loaders

    def _loader(
        self, directory: LogDirectory, topic_partition: TopicPartition, path: Path, config: LogConfig
    ) -> LogLoader:
        recovery_point = directory.checkpointed(RECOVERY_POINT_CHECKPOINT, topic_partition)
        return LogLoader(
            topic_partition,
            path,
            config,
            self.context,
            # A directory that the checkpoint does not know was put there since: nothing is known of how it was left.
            was_clean_stop=directory.was_clean_stop and recovery_point is not None,
            recovery_point=recovery_point or 0,
            log_start_offset=directory.checkpointed(LOG_START_CHECKPOINT, topic_partition) or 0,
            high_watermark=directory.checkpointed(REPLICATION_CHECKPOINT, topic_partition) or 0,
            knows_recovery_point=recovery_point is not None,
        )

    def _loaded(self, loader: LogLoader, result: Log | DiskError) -> None:
        topic_partition = loader.topic_partition
        if isinstance(result, DiskError):
            self._unreadable[topic_partition] = str(result)
            self._fail(self._by_path[loader.directory.parent], str(result))
            return
        other = self._logs.get(topic_partition)
        if other is not None:
            result.take_out_of_use()
            other.take_offline(f"it lies in {other.directory} and in {result.directory}: take one of them away")
            return
        self._logs[topic_partition] = result
        failure = self._by_path[loader.directory.parent].failure
        if failure is not None:
            result.take_offline(failure)

    def start(self) -> None:
        """Begin the background work: retention, compaction, checkpoints, flush.ms, expiry of producers."""
        self._loop = asyncio.get_running_loop()
        self.housekeeping.start()
        self.cleaner.start()

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by another broker configuration, as far as it is the manager's own; logs are given theirs one by one."""
        self.config = config
        self.cleaner.adjust()

    async def stop(self) -> None:
        """Stop the background work, close every log, write the checkpoints and the mark of a clean stop."""
        await self.cleaner.stop()
        await self.housekeeping.stop()
        logs = list(self._logs.values())
        share = max(-(-len(logs) // self._threads), 1)
        runs = [logs[first : first + share] for first in range(0, len(logs), share)]
        await asyncio.gather(*(self._run(_close, run) for run in runs))
        for directory in self.directories:
            if directory.failure is None and directory.lock is not None:
                await self._run(self._close_directory, directory)
            directory.release()
        self.executor.shutdown()

    def _close_directory(self, directory: LogDirectory) -> None:
        try:
            self.checkpoint(directory)
            directory.mark_clean_stop()
        except DiskError as error:
            _logger.error("%s: no mark of a clean stop: %s", directory.path, error)

    def checkpoint(self, directory: LogDirectory) -> None:
        """Write all checkpoints of a directory; blocks, raises DiskError."""
        logs = self.logs_in(directory.path)
        directory.write_checkpoint(RECOVERY_POINT_CHECKPOINT, recovery_points(logs))
        directory.write_checkpoint(LOG_START_CHECKPOINT, log_start_offsets(logs))
        directory.write_checkpoint(REPLICATION_CHECKPOINT, high_watermarks(logs))

    # -- making and deleting ----------------------------------------------------------------------------------------

    def get_or_create(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, *, is_new: bool = False
    ) -> Log:
        """Give the log of a partition, made if it is missing.

        While a directory is offline nothing is made unless the caller knows that the partition `is_new`: the log may
        lie there, and an empty one would look like the loss of its records. Raises ApiError or DiskError.
        """
        log = self._logs.get(topic_partition)
        if log is not None:
            if ZERO_UUID in (log.topic_id, topic_id) or log.topic_id == topic_id:
                self._give_id(log, topic_id)
                if log.config is not config:
                    log.reconfigure(config)
                return log
            self._set_aside_stray(log, topic_id)
        if topic_partition in self._unreadable:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition} is offline: {self._unreadable[topic_partition]}"
            )
        if self.offline_directories and not is_new:
            raise ApiError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {topic_partition} because log directories "
                f"{', '.join(map(str, self.offline_directories))} are offline",
            )
        return self._create(topic_partition, topic_id, config)

    def _create(self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig) -> Log:
        directory = self._emptiest_directory()
        path = directory.path / str(topic_partition)
        try:
            for known in self.directories:
                if known.failure is None:
                    known.forget(topic_partition)
            self.disk.make_directory(path, sync=False)
            log = LogLoader(topic_partition, path, config, self.context, was_clean_stop=True).load()
            self._logs[topic_partition] = log
            self._give_id(log, topic_id)
        except DiskError as error:
            self._fail(directory, str(error))
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"no log for {topic_partition}: {error}") from error
        return log

    def _emptiest_directory(self) -> LogDirectory:
        counts = {directory.path: 0 for directory in self.directories if directory.failure is None}
        if not counts:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "every data directory is offline")
        if len(counts) > 1:
            for log in self._logs.values():
                if log.directory.parent in counts:
                    counts[log.directory.parent] += 1
        return self._by_path[min(counts, key=counts.__getitem__)]

    def _give_id(self, log: Log, topic_id: bytes) -> None:
        if log.topic_id == ZERO_UUID and topic_id != ZERO_UUID and not log.is_offline:
            if read_partition_id(self.disk, log.directory) != topic_id:
                write_partition_metadata(self.disk, log.directory, topic_id, sync=False)
            log.topic_id = topic_id

    def _set_aside_stray(self, log: Log, topic_id: bytes) -> None:
        """Put away the log of an earlier topic of that name. It is not ours to delete."""
        target = self._take_out(log, STRAY_SUFFIX)
        _logger.error(
            "%s holds topic id %s, the topic has %s: kept as %s",
            log.topic_partition,
            uuid_text(log.topic_id),
            uuid_text(topic_id),
            target,
        )

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a log: its directory is renamed at once and removed `file.delete.delay.ms` later."""
        log = self._logs.get(topic_partition)
        if log is None:
            return
        target = self._take_out(log, DELETE_SUFFIX)
        if target is not None:
            self.housekeeping.remove_directory_later(target, log.config.file_delete_delay_ms)

    def _take_out(self, log: Log, suffix: str) -> Path | None:
        """Close a log and give its directory another name; None where the disk does not let us."""
        del self._logs[log.topic_partition]
        self.cleaner.removed(log.topic_partition)
        log.take_out_of_use()
        target = log.directory.with_name(marked_name(log.topic_partition, uuid.uuid4().hex, suffix))
        try:
            self.disk.rename(log.directory, target, sync=False)
        except DiskError as error:
            self._disk_failed(log.directory.parent, error)
            return None
        return target

    # -- failure ----------------------------------------------------------------------------------------------------

    def _lower_recovery_point(self, log: object, offset: int) -> None:
        """Before a log is cut, see to it that the checkpoint does not claim more than will be left."""
        assert isinstance(log, Log)
        log.flusher.recovery_point = min(log.flusher.recovery_point, offset)
        self.cleaner.truncated(log, offset)
        self._by_path[log.directory.parent].lower_recovery_point(log.topic_partition, offset)

    def _disk_failed(self, path: Path, error: DiskError) -> None:
        """Take a directory offline; may be called from a thread."""
        directory = self._by_path.get(path)
        if directory is None or directory.failure is not None:
            return
        if self._loop is not None and threading.get_ident() != self._loop_thread:
            self._loop.call_soon_threadsafe(self._fail, directory, str(error))
        else:
            self._fail(directory, str(error))

    def _fail(self, directory: LogDirectory, reason: str) -> None:
        if directory.failure is not None:
            return
        directory.failure = reason
        _logger.error("data directory %s is offline: %s", directory.path, reason)
        for log in self.logs_in(directory.path):
            log.take_offline(f"its data directory failed: {reason}")
        if self._on_directory_offline is not None:
            self._on_directory_offline(directory.path, reason)


def read_partition_id(disk: Disk, directory: Path) -> bytes:
    """Give the topic id that a partition directory says it has; zero where it says none that can be read."""
    try:
        return read_partition_metadata(disk, directory) or ZERO_UUID
    except CorruptFile as error:
        _logger.warning("%s says no topic id: %s", directory, error)
        return ZERO_UUID


def _load(loaders: Sequence[LogLoader]) -> list[tuple[LogLoader, Log | DiskError]]:
    """Open logs one after another, on a thread."""
    results: list[tuple[LogLoader, Log | DiskError]] = []
    for loader in loaders:
        try:
            loader.topic_id = read_partition_id(loader.context.disk, loader.directory)
            results.append((loader, loader.load()))
        except DiskError as error:
            results.append((loader, error))
    return results


def _close(logs: Sequence[Log]) -> None:
    """Close logs one after another, on a thread; one that fails has said so and is offline."""
    for log in logs:
        try:
            log.close()
        except ApiError as error:
            _logger.error("%s was not closed in order: %s", log.topic_partition, error)
