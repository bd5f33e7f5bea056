"""The log of one partition: its segments, its offsets, and what may be done to it.

`Log` holds the state and says what is true of it; how an append, a read, a deletion or a recovery goes is in the
modules beside (`log_append`, `log_read`, `retention`, `flusher`, `log_loader`), which work on a `Log` given to them.
Everything here runs on the event loop that owns the broker's state, but for loading, which has the log to itself on a
thread.

    log start offset <= last stable offset <= high watermark <= log end offset

A log whose directory failed, or in which damage was found, is offline: every operation raises KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID
from tailrace.settings.log_config import LogConfig
from tailrace.storage import log_append, log_conversion, log_read, log_truncation, retention
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.disk import DiskError
from tailrace.storage.flusher import Flusher
from tailrace.storage.leader_epoch_cache import LeaderEpochCache
from tailrace.storage.log_context import LogContext
from tailrace.storage.log_errors import LogOffline, SegmentDamaged
from tailrace.storage.log_read import ReadResult, TimestampOffset
from tailrace.storage.log_validator import checks_records
from tailrace.storage.producer_state import ProducerStateEntry
from tailrace.storage.producer_state_manager import ProducerStateManager
from tailrace.storage.recent_positions import RecentPositions
from tailrace.storage.segment import Segment, SegmentLimits
from tailrace.storage.transaction_index import AbortedTransaction

__all__ = ["AppendOrigin", "AppendResult", "Log", "LogParts", "ReadResult", "TimestampOffset"]

AppendResult = log_append.AppendResult
DAMAGED_SUFFIX = ".damaged"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LogParts:
    """What loading found in a directory; a `Log` takes it over."""

    segments: list[Segment]
    producer_state: ProducerStateManager
    leader_epochs: LeaderEpochCache
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class Log:
    """A partition's records, in order, on disk."""

    __slots__ = (
        "_base_offsets",
        "active",
        "checks_records",
        "config",
        "context",
        "directory",
        "failure",
        "first_unstable_offset",
        "flusher",
        "high_watermark",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producer_state",
        "recent_positions",
        "segment_age_max_ms",
        "segments",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: Path,
        config: LogConfig,
        context: LogContext,
        parts: LogParts,
        *,
        topic_id: bytes = ZERO_UUID,
        high_watermark: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.context = context
        self.config = config
        self.segment_age_max_ms = segment_age_max_ms(config)
        self.checks_records = checks_records(config)
        self.failure: str | None = None
        self.segments = parts.segments
        self._base_offsets = [segment.base_offset for segment in parts.segments]
        self.active = parts.segments[-1]
        self.producer_state = parts.producer_state
        self.leader_epochs = parts.leader_epochs
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.flusher = Flusher(self, recovery_point=parts.recovery_point)
        self.recent_positions = RecentPositions()
        self.first_unstable_offset: int | None = None
        self.high_watermark = parts.log_start_offset
        self.update_first_unstable_offset()
        self.update_high_watermark(high_watermark)

    def __repr__(self) -> str:
        return f"Log({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset}, {self.directory})"

    # -- what is true of it -----------------------------------------------------------------------------------------

    def reconfigure(self, config: LogConfig) -> None:
        """Go by other settings of the topic from now on."""
        self.config = config
        self.segment_age_max_ms = segment_age_max_ms(config)
        self.checks_records = checks_records(config)
        limits = segment_limits(config)
        for segment in self.segments:
            segment.limits = limits

    @property
    def is_offline(self) -> bool:
        """Whether the log no longer serves."""
        return self.failure is not None

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided; what read_committed may see."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None or unstable > self.high_watermark else unstable

    @property
    def recovery_point(self) -> int:
        """Below it everything is known to be on disk."""
        return self.flusher.recovery_point

    @property
    def size_bytes(self) -> int:
        """How many bytes of records the log holds."""
        return sum(segment.size for segment in self.segments)

    @property
    def latest_epoch(self) -> int | None:
        """The leader epoch of the last record."""
        return self.leader_epochs.latest_epoch

    def producer_states(self) -> list[ProducerStateEntry]:
        """What is known of each producer, for DescribeProducers."""
        return list(self.producer_state.active_producers.values())

    def segment_slot(self, offset: int) -> int:
        """Give the slot of the last segment that begins at or before `offset`; -1 where none does."""
        return bisect_right(self._base_offsets, offset) - 1

    # -- records ----------------------------------------------------------------------------------------------------

    append_as_leader = log_append.append_as_leader
    """As `log_append` says; the function itself, since each produce request calls it."""

    def append_as_follower(self, records: Buffer) -> AppendResult:
        """Append batches as a leader sent them, which must begin at the log end offset."""
        return log_append.append_as_follower(self, records)

    def needs_conversion(self, records: Buffer) -> bool:
        """Whether `convert` has to come before `append_as_leader`: another codec is wanted, or the format is old."""
        return log_conversion.needs_conversion(records, self.config)

    def convert(self, records: Buffer) -> bytearray:
        """Give the records as one batch in the topic's codec and today's format. Touches nothing; for threads."""
        return log_conversion.convert(records, self.config, self.topic_partition)

    def read(self, fetch_offset: int, *, max_bytes: int, upper_offset: int, min_one_message: bool) -> ReadResult:
        """Give batches from the one with `fetch_offset` on, as a slice of the mapped segment.

        Everything given lies below `upper_offset`. It may end inside a batch, where `max_bytes` are full; with
        `min_one_message` the first batch is whole however large. Raises OFFSET_OUT_OF_RANGE.
        """
        return log_read.read(
            self, fetch_offset, max_bytes=max_bytes, upper_offset=upper_offset, min_one_message=min_one_message
        )

    def collect_aborted_transactions(self, first_offset: int, upper_offset: int) -> list[AbortedTransaction]:
        """Give the aborted transactions that overlap the range, for a read_committed fetch."""
        return log_read.collect_aborted_transactions(self, first_offset, upper_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Give the first record at or after `timestamp`; None where there is none."""
        return log_read.offset_for_timestamp(self, timestamp)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """Give the first record that has the largest timestamp; None where no record has one."""
        return log_read.offset_of_max_timestamp(self)

    # -- offsets ----------------------------------------------------------------------------------------------------

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, kept between log start offset and log end offset; give what it is now."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset < self.log_start_offset:
            offset = self.log_start_offset
        self.high_watermark = offset
        if self.first_unstable_offset is not None:
            self.producer_state.high_watermark_moved(offset)
            self.update_first_unstable_offset()
        return offset

    def update_first_unstable_offset(self) -> None:
        """Take over from the producer state where the oldest undecided transaction begins."""
        offset = self.producer_state.first_unstable_offset
        self.first_unstable_offset = None if offset is None else max(offset, self.log_start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Give the largest epoch at or below `epoch` and the offset where it ends; (-1, -1) where unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def advance_log_start_offset(self, offset: int) -> bool:
        """Move the log start offset, as DeleteRecords asks; say whether it moved. Segments below are deleted later."""
        self.check_online()
        if offset > self.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} "
                f"since it is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        with log_append.StorageGuard(self):
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self.producer_state.log_start_offset_moved(offset)
            self.update_first_unstable_offset()
        return True

    def truncate_to(self, offset: int) -> bool:
        """Remove everything from `offset` on (from the batch that holds it on); say whether anything went."""
        return log_truncation.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything and begin anew at `offset`."""
        log_truncation.truncate_fully_and_start_at(self, offset)

    def delete_old_segments(self) -> int:
        """Delete what retention by time, size and log start offset lets go; say how many segments went."""
        return retention.delete_old_segments(self)

    # -- durability -------------------------------------------------------------------------------------------------

    @property
    def flush_is_due(self) -> bool:
        """Whether `flush.messages` records wait to be on disk: then an acknowledgement waits for `flush`."""
        return self.log_end_offset - self.flusher.recovery_point >= self.config.flush_messages

    async def flush(self, up_to_offset: int) -> None:
        """Return when everything below `up_to_offset` is on disk. All who wait share one sync."""
        await self.flusher.flush(up_to_offset)

    def roll(self, base_offset: int | None = None) -> Segment:
        """Close the active segment and begin the next one."""
        return log_append.roll(self, self.log_end_offset if base_offset is None else base_offset)

    def close(self) -> None:
        """Trim, sync and close everything: a clean stop. Call it on a thread, when nobody uses the log any more."""
        if self.failure is None:
            with log_append.StorageGuard(self):
                # Not synced: a snapshot that a loss of power spoils is told by its checksum, and the log has it all.
                self.producer_state.take_snapshot(sync=False)
                if self.active.is_growing:
                    self.active.trim()
                    self.flusher.flush_now()
        for segment in self.segments:
            segment.close()

    def take_out_of_use(self) -> None:
        """Give descriptors and mappings back without writing, and serve nothing any more: the log is being deleted."""
        self.failure = "it is no longer in use"
        for segment in self.segments:
            segment.close()

    # -- failure ----------------------------------------------------------------------------------------------------

    def check_online(self) -> None:
        """Raise KAFKA_STORAGE_ERROR where the log is offline."""
        if self.failure is not None:
            raise LogOffline(f"{self.topic_partition} is offline: {self.failure}")

    def take_offline(self, reason: str) -> None:
        """Serve nothing from now on."""
        if self.failure is None:
            self.failure = reason
            _log.error("%s is offline: %s", self.topic_partition, reason)

    def disk_failed(self, error: DiskError) -> LogOffline:
        """Take the log and its directory offline; give what to raise."""
        self.take_offline(str(error))
        self.context.on_disk_failed(self.directory.parent, error)
        return LogOffline(f"{self.topic_partition} is offline: {error}")

    def set_aside(self, segment: Segment, damage: SegmentDamaged) -> LogOffline:
        """Put a damaged segment out of the way, whole, and take the log offline; give what to raise."""
        self.take_offline(f"{damage}; set aside as {segment.log_path.name}{DAMAGED_SUFFIX}")
        try:
            set_aside(segment, self.context)
        except DiskError as error:
            return self.disk_failed(error)
        return LogOffline(f"{self.topic_partition} is offline: {self.failure}")

    # -- segments ---------------------------------------------------------------------------------------------------

    def add_segment(self, base_offset: int) -> Segment:
        """Begin a segment at the end of the log."""
        segment = new_segment(self.directory, base_offset, self.config, self.context)
        self.segments.append(segment)
        self._base_offsets.append(base_offset)
        self.active = segment
        self.recent_positions.clear()
        return segment

    def remove_segments(self, first_slot: int, end_slot: int) -> list[Segment]:
        """Take segments out of the list; their files are the caller's to delete. At least one must be left or added."""
        removed = self.segments[first_slot:end_slot]
        del self.segments[first_slot:end_slot]
        del self._base_offsets[first_slot:end_slot]
        if self.segments:
            self.active = self.segments[-1]
        self.recent_positions.clear()
        return removed

    def replace_segments(self, first_slot: int, end_slot: int, segment: Segment) -> None:
        """Put one segment, which begins where they do, in the place of closed ones."""
        self.segments[first_slot:end_slot] = [segment]
        self._base_offsets[first_slot:end_slot] = [segment.base_offset]


def segment_limits(config: LogConfig) -> SegmentLimits:
    """Give what a segment needs of its topic's settings."""
    return SegmentLimits(config.segment_bytes, config.segment_index_bytes, config.index_interval_bytes)


def segment_age_max_ms(config: LogConfig) -> int:
    """Give the age at which a segment rolls; in a compacted topic it must not put compaction off too long."""
    if "compact" in config.cleanup_policy:
        return min(config.segment_ms, config.max_compaction_lag_ms)
    return config.segment_ms


def new_segment(directory: Path, base_offset: int, config: LogConfig, context: LogContext) -> Segment:
    """Make an empty segment and its `.log` file."""
    jitter_max = min(config.segment_jitter_ms, config.segment_ms)
    segment = Segment(
        context.disk,
        directory,
        base_offset,
        limits=segment_limits(config),
        created_ms=context.clock.time_ms(),
        roll_jitter_ms=context.random.randrange(jitter_max) if jitter_max > 0 else 0,
    )
    context.disk.open(segment.log_path, create=True).close()
    if config.preallocate:
        segment.preallocate()
    return segment


def set_aside(segment: Segment, context: LogContext) -> Path:
    """Rename a damaged `.log` so that nothing is appended to it and nothing deletes it; give its new path."""
    path = segment.log_path
    aside = path.with_name(path.name + DAMAGED_SUFFIX)
    context.disk.rename(path, aside)
    return aside
