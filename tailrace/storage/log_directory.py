"""One data directory: its lock, its checkpoints, and whether it still serves.

Checkpoints are written whole, on a thread, and only when they would say something new. A directory in which the disk
refused an operation is offline until the broker is started again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from tailrace.protocol.topic_partition import TopicPartition
from tailrace.storage.checkpoint_file import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    OffsetCheckpointFile,
)
from tailrace.storage.clean_shutdown import take_clean_shutdown, write_clean_shutdown
from tailrace.storage.directory_lock import lock_directory
from tailrace.storage.disk import Disk, FileLock
from tailrace.storage.errors import CorruptFile
from tailrace.storage.log import Log

_log = logging.getLogger(__name__)
CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, REPLICATION_CHECKPOINT, CLEANER_CHECKPOINT)


@dataclass(slots=True)
class LogDirectory:
    """A data directory and what its small files say."""

    path: Path
    disk: Disk
    lock: FileLock | None = None
    failure: str | None = None
    was_clean_stop: bool = False
    written: dict[str, dict[TopicPartition, int]] = field(default_factory=dict[str, dict[TopicPartition, int]])
    """What each checkpoint file says, by its name."""
    generation: int = 0
    """Counts the changes after which offsets that were collected before must not be written any more."""
    _writing: Lock = field(default_factory=Lock)

    def take_lock(self) -> None:
        """Keep other brokers out; raises `DirectoryInUse`."""
        if self.lock is None:
            self.disk.make_directory(self.path)
            self.lock = lock_directory(self.disk, self.path)

    def open(self) -> None:
        """Read the checkpoints and whether the last stop was clean."""
        self.was_clean_stop = take_clean_shutdown(self.disk, self.path) is not None
        for name in CHECKPOINTS:
            file = OffsetCheckpointFile(self.disk, self.path / name)
            try:
                self.written[name] = file.read()
            except CorruptFile as error:
                # Without it every log is checked from its beginning, or begins at its first segment: slower, not wrong.
                _log.warning("%s can't be used: %s", name, error)
                self.written[name] = {}
                self.was_clean_stop = self.was_clean_stop and name != RECOVERY_POINT_CHECKPOINT

    def checkpointed(self, name: str, topic_partition: TopicPartition) -> int | None:
        """Give what a checkpoint says of a partition."""
        return self.written.get(name, {}).get(topic_partition)

    def write_checkpoint(self, name: str, offsets: dict[TopicPartition, int], generation: int | None = None) -> None:
        """Write a checkpoint if it says something new and was collected in this generation; raises DiskError."""
        with self._writing:
            if generation in (None, self.generation) and offsets != self.written.get(name, {}):
                OffsetCheckpointFile(self.disk, self.path / name).write(offsets)
                self.written[name] = offsets

    def forget(self, topic_partition: TopicPartition) -> None:
        """Take a partition out of the checkpoints: its offsets must not be those of its next log of that name."""
        self.generation += 1
        for name, offsets in list(self.written.items()):
            if topic_partition in offsets:
                self.write_checkpoint(name, {key: offset for key, offset in offsets.items() if key != topic_partition})

    def lower_recovery_point(self, topic_partition: TopicPartition, offset: int) -> None:
        """See to it that no checkpoint calls more than `offset` of a log that is about to be cut on disk, or clean."""
        self.generation += 1
        for name in (RECOVERY_POINT_CHECKPOINT, CLEANER_CHECKPOINT):
            known = self.written.get(name, {})
            if known.get(topic_partition, 0) > offset:
                self.write_checkpoint(name, {**known, topic_partition: offset})

    def mark_clean_stop(self) -> None:
        """Say that nothing in this directory needs recovery; raises DiskError."""
        write_clean_shutdown(self.disk, self.path)

    def release(self) -> None:
        """Let another broker have the directory."""
        lock, self.lock = self.lock, None
        if lock is not None:
            lock.release()


def recovery_points(logs: Iterable[Log]) -> dict[TopicPartition, int]:
    """Give what the recovery point checkpoint should say."""
    return {log.topic_partition: log.recovery_point for log in logs}


def log_start_offsets(logs: Iterable[Log]) -> dict[TopicPartition, int]:
    """Give what the log start checkpoint should say: only what the first segment's name does not."""
    return {
        log.topic_partition: log.log_start_offset
        for log in logs
        if log.log_start_offset > log.segments[0].base_offset or log.is_offline
    }


def high_watermarks(logs: Iterable[Log]) -> dict[TopicPartition, int]:
    """Give what the high watermark checkpoint should say."""
    return {log.topic_partition: log.high_watermark for log in logs}
