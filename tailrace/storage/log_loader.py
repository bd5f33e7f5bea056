"""Opening a partition's directory.

Lives here: finishing what a stop interrupted (`.deleted`, `.cleaned`, `.swap` files), finding the segments, recovering
those that may be torn, and the offsets and producer state that follow. Promises to delete nothing that could be a
record: damage sets a segment aside and gives a log that is offline and says why. Runs on a thread, before anybody else
has the log.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID
from tailrace.settings.log_config import LogConfig
from tailrace.storage.checkpoint_file import LEADER_EPOCH_CHECKPOINT
from tailrace.storage.errors import CorruptFile
from tailrace.storage.leader_epoch_cache import LeaderEpochCache
from tailrace.storage.log import DAMAGED_SUFFIX, Log, LogParts, new_segment, segment_limits, set_aside
from tailrace.storage.log_context import LogContext
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.log_replay import rebuild_producer_state
from tailrace.storage.lost_pages import is_hole, offset_at, set_rest_aside
from tailrace.storage.producer_state_manager import ProducerStateManager
from tailrace.storage.segment import Segment
from tailrace.storage.segment_recovery import recover_segment
from tailrace.storage.swap_files import finish_swaps

_SEGMENT_KINDS = (".log", ".index", ".timeindex", ".txnindex")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class LogLoader:
    """Opens one partition's log."""

    topic_partition: TopicPartition
    directory: Path
    config: LogConfig
    context: LogContext
    topic_id: bytes = ZERO_UUID
    was_clean_stop: bool = False
    """Whether the last process that had the log closed it; then nothing can be torn."""
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    knows_recovery_point: bool = True
    """Whether `recovery_point` was checkpointed, and is not only where to begin."""
    _names: set[str] = field(default_factory=set[str])
    _synced_to: int | None = None
    """Up to where flushes are known to have come; None where that is not known, or everything was synced."""

    def load(self) -> Log:
        """Open the log; raises DiskError. A log with damage comes back offline."""
        disk = self.context.disk
        self._synced_to = self.recovery_point if self.knows_recovery_point and not self.was_clean_stop else None
        self._names = finish_swaps(disk, self.directory, set(disk.list_directory(self.directory)))
        damaged = sorted(name for name in self._names if name.endswith(DAMAGED_SUFFIX))
        if damaged:
            return self._offline(
                f"{self.directory / damaged[0]} was set aside because it is damaged; put a good copy in the place of "
                f"{damaged[0].removesuffix(DAMAGED_SUFFIX)}, or take the file away to go on without its records"
            )
        segments = self._find_segments()
        leader_epochs = self._load_leader_epochs()
        try:
            return self._load(segments, leader_epochs)
        except SegmentDamaged as damage:
            reason = str(damage)
            for segment in segments:
                segment.close()
                if segment.log_path == damage.path:
                    reason += f"; set aside as {set_aside(segment, self.context).name}"
            return self._offline(reason)

    def _load(self, segments: list[Segment], leader_epochs: LeaderEpochCache) -> Log:
        next_offset = self._recover(segments, leader_epochs)
        if next_offset < self.recovery_point:
            raise SegmentDamaged(
                segments[-1].log_path if segments else self.directory,
                segments[-1].size if segments else 0,
                f"the log ends at offset {next_offset}, but {self.recovery_point} was on disk",
            )
        start_offset = max(self.log_start_offset, segments[0].base_offset if segments else 0)
        if next_offset < start_offset:
            # Everything that was left lies below the log start offset: the log begins anew there, as Kafka has it.
            for segment in segments:
                segment.delete_files()
            segments = []
        if not segments:
            segments = [new_segment(self.directory, start_offset, self.config, self.context)]
            next_offset = start_offset
        leader_epochs.truncate_from_end(next_offset)
        leader_epochs.truncate_from_start(start_offset)
        producer_state = self._producer_state()
        producer_state.remove_stray_snapshots(segment.base_offset for segment in segments)
        rebuild_producer_state(
            producer_state,
            segments,
            log_start_offset=start_offset,
            end_offset=next_offset,
            now_ms=self.context.clock.time_ms(),
        )
        recovery_point = min(self.recovery_point, next_offset)
        return self._log(
            LogParts(segments, producer_state, leader_epochs, start_offset, next_offset, recovery_point),
            self.high_watermark,
        )

    def _log(self, parts: LogParts, high_watermark: int) -> Log:
        return Log(
            self.topic_partition,
            self.directory,
            self.config,
            self.context,
            parts,
            topic_id=self.topic_id,
            high_watermark=high_watermark,
        )

    def _offline(self, reason: str) -> Log:
        """Give a log that serves nothing and says why."""
        placeholder = Segment(
            self.context.disk, self.directory, self.log_start_offset, limits=segment_limits(self.config), created_ms=0
        )
        leader_epochs = LeaderEpochCache.empty(self.context.disk, self.directory / LEADER_EPOCH_CHECKPOINT)
        start = self.log_start_offset
        log = self._log(LogParts([placeholder], self._producer_state(), leader_epochs, start, start, start), start)
        log.take_offline(reason)
        return log

    # -- finding ----------------------------------------------------------------------------------------------------

    def _find_segments(self) -> list[Segment]:
        """Give the segments by base offset; index files without a log are removed, as Kafka does."""
        now_ms = self.context.clock.time_ms()
        limits = segment_limits(self.config)
        segments: list[Segment] = []
        for name in sorted(self._names):
            stem, dot, kind = name.partition(".")
            if dot + kind not in _SEGMENT_KINDS or not stem.isdigit():
                continue
            if f"{stem}.log" not in self._names:
                _log.warning("%s: removing %s, which belongs to no segment", self.directory, name)
                self.context.disk.unlink(self.directory / name)
            elif kind == "log":
                size = self.context.disk.file_size(self.directory / name)
                segments.append(
                    Segment(self.context.disk, self.directory, int(stem), limits=limits, created_ms=now_ms, size=size)
                )
        return segments

    def _load_leader_epochs(self) -> LeaderEpochCache:
        path = self.directory / LEADER_EPOCH_CHECKPOINT
        try:
            return LeaderEpochCache(self.context.disk, path)
        except CorruptFile as error:
            _log.warning("%s: making the leader epochs anew: %s", self.topic_partition, error)
            self.was_clean_stop = False
            self.recovery_point = 0
            return LeaderEpochCache.empty(self.context.disk, path)

    def _producer_state(self) -> ProducerStateManager:
        return ProducerStateManager(
            self.context.disk,
            self.directory,
            log_name=self.topic_partition,
            producer_id_expiration_ms=self.context.producer_id_expiration_ms,
            transaction_max_timeout_ms=self.context.transaction_max_timeout_ms,
        )

    # -- recovering -------------------------------------------------------------------------------------------------

    def _recover(self, segments: list[Segment], leader_epochs: LeaderEpochCache) -> int:
        """Recover the segments that may be torn or lack an index; give the offset behind the last batch."""
        producer_state: ProducerStateManager | None = None
        next_offset = 0
        for slot, segment in enumerate(segments):
            end = segments[slot + 1].base_offset if slot + 1 < len(segments) else None
            found = None if self._needs_recovery(segment, end) else self._next_offset(segment, end)
            if found is None:
                if producer_state is None:
                    producer_state = self._producer_state()
                found = self._recover_segment(segments, slot, producer_state, leader_epochs)
            next_offset = found
        if segments and not self.was_clean_stop:
            # The process may have been killed while it cut the log. What goes on from here must not meet the rest again
            # after a loss of power.
            segments[-1].sync()
            self.context.disk.sync_directory(self.directory)
        return next_offset

    def _recover_segment(
        self, segments: list[Segment], slot: int, producer_state: ProducerStateManager, leader_epochs: LeaderEpochCache
    ) -> int:
        """Recover one segment, which becomes the last one where it ends at a hole."""
        segment, end = segments[slot], segments[slot + 1].base_offset if slot + 1 < len(segments) else None
        self._rebuild(producer_state, segments[:slot], segment.base_offset)
        try:
            return recover_segment(
                segment,
                producer_state,
                leader_epochs,
                durable_offset=self.recovery_point if end is None else min(self.recovery_point, end),
                log_start_offset=self.log_start_offset,
                end_offset=end,
            )
        except SegmentDamaged as damage:
            synced_to = self._synced_to
            if synced_to is None or offset_at(segment, damage.position) < synced_to:
                raise
            if not is_hole(segment, damage.position):
                raise
            set_rest_aside(self.context.disk, segment, damage.position, segments[slot + 1 :])
            del segments[slot + 1 :]
        return self._recover_segment(segments, slot, self._producer_state(), leader_epochs)

    def _needs_recovery(self, segment: Segment, end: int | None) -> bool:
        """Whether the segment may be torn, or what is beside its log can't be relied on."""
        # One that ends at the recovery point was synced while it was in use: that it was cut then may be lost.
        if not self.was_clean_stop and (end is None or end >= self.recovery_point):
            return True
        return self._lacks_index(segment) or not self._has_sane_transaction_index(segment)

    def _next_offset(self, segment: Segment, end: int | None) -> int | None:
        """Give where a segment that was closed ends; None where it was not closed as it should have been."""
        if end is not None:
            return end
        try:
            return segment.next_offset()
        except SegmentDamaged as damage:
            _log.warning("%s: recovering it, though the last stop was a clean one: %s", self.topic_partition, damage)
            return None

    def _rebuild(self, producer_state: ProducerStateManager, earlier: list[Segment], offset: int) -> None:
        """Make the producer state that of `offset`, where a segment begins that is about to be recovered.

        Kafka reads from the log start offset on. What lies below may be served again, when a loss of power undoes a
        deletion; with an index that begins a transaction too late, its first records would be shown as committed.
        """
        rebuild_producer_state(
            producer_state,
            earlier,
            log_start_offset=earlier[0].base_offset if earlier else offset,
            end_offset=offset,
            now_ms=self.context.clock.time_ms(),
        )
        producer_state.take_snapshot(sync=False)

    def _lacks_index(self, segment: Segment) -> bool:
        """Whether an index file is missing. The transaction index may have gone with it, so it is made anew too."""
        if not segment.size:
            return False
        return not {segment.path(".index").name, segment.path(".timeindex").name} <= self._names

    def _has_sane_transaction_index(self, segment: Segment) -> bool:
        if segment.path(".txnindex").name not in self._names:
            return True
        try:
            segment.transaction_index.sanity_check()
        except CorruptFile as error:
            _log.warning("%s: making a transaction index anew: %s", self.topic_partition, error)
            return False
        return True
