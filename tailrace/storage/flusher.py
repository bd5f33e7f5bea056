"""Group commit: one sync on a thread for all that wait for it.

With `flush.messages=1` an acknowledgement means "on disk". Whoever comes while a sync runs waits for the next one,
which covers everything appended until it begins; so under load many requests share one fdatasync. After a sync has
failed, the kernel may have forgotten the dirty pages: the log and its directory go offline, and nothing is tried
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.storage.disk import DiskError
from tailrace.storage.segment import Segment

if TYPE_CHECKING:
    from tailrace.storage.log import Log


@dataclass(slots=True)
class FlushPlan:
    """What one sync covers, decided on the event loop before the thread begins."""

    segments: Sequence[Segment]
    active: Segment
    end_offset: int
    has_new_names: bool
    truncations: int


class Flusher:
    """What of a log is on disk, and who waits for more."""

    __slots__ = ("_flushed_segment_base", "_log", "_running", "_truncations", "last_flush_ms", "recovery_point")

    def __init__(self, log: Log, *, recovery_point: int) -> None:
        self._log = log
        self.recovery_point = recovery_point
        self.last_flush_ms = log.context.clock.time_ms()
        self._flushed_segment_base = -1
        """The base offset of the active segment whose name is known to be on disk."""
        self._running: asyncio.Task[None] | None = None
        self._truncations = 0

    async def flush(self, up_to_offset: int) -> None:
        """Return when everything below `up_to_offset` is on disk; raise KAFKA_STORAGE_ERROR where that failed."""
        log = self._log
        # The log's end is asked anew each time: what was cut off meanwhile is nobody's to wait for.
        while self.recovery_point < min(up_to_offset, log.log_end_offset):
            log.check_online()
            if self._running is None:
                self._running = asyncio.get_running_loop().create_task(self._flush_once())
            # Shielded: one waiter that goes away must not take the sync from the others.
            await asyncio.shield(self._running)

    async def _flush_once(self) -> None:
        plan = self.plan()
        try:
            loop = asyncio.get_running_loop()
            seconds = await loop.run_in_executor(self._log.context.executor, self.perform, plan)
            self.finish(plan, seconds)
        except DiskError as error:
            self._log.disk_failed(error)
        finally:
            self._running = None

    def flush_now(self) -> None:
        """Sync here and now, blocking; raises DiskError."""
        plan = self.plan()
        self.finish(plan, self.perform(plan))

    def plan(self) -> FlushPlan:
        """Say what has to be synced to bring the recovery point to the log's end."""
        log = self._log
        # The segment with the last record on disk may have been closed and cut since, which has to be synced too.
        slot = max(log.segment_slot(self.recovery_point - 1), 0)
        return FlushPlan(
            log.segments[slot:],
            log.active,
            log.log_end_offset,
            self._flushed_segment_base != log.active.base_offset,
            self._truncations,
        )

    def perform(self, plan: FlushPlan) -> float:
        """Sync and say how long it took; for a thread. Closed segments with their indexes: recovery leaves them be."""
        log = self._log
        clock = log.context.clock
        started = clock.monotonic()
        for segment in plan.segments:
            try:
                segment.sync(with_indexes=segment is not plan.active)
            except DiskError:
                if not segment.is_removed:  # Retention or a deletion may have taken it since the plan was made.
                    raise
        if plan.has_new_names:
            log.leader_epochs.flush()
            log.context.disk.sync_directory(log.directory)
        return clock.monotonic() - started

    def finish(self, plan: FlushPlan, seconds: float) -> None:
        """Note what a sync has covered."""
        self._log.context.on_flush(seconds)
        if plan.truncations == self._truncations:
            self._flushed_segment_base = plan.active.base_offset
            self.recovery_point = max(self.recovery_point, plan.end_offset)
        self.last_flush_ms = self._log.context.clock.time_ms()

    def truncated_to(self, offset: int) -> None:
        """Note that the log now ends at `offset`; what a running sync covers may be gone and written anew."""
        self._truncations += 1
        self.recovery_point = min(self.recovery_point, offset)
        self._flushed_segment_base = -1  # The next segment may have the name of one that went.
