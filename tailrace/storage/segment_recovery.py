"""Reading a segment again after the process died: where it ends, what its indexes say, whether it is whole.

A process that is killed leaves the last batch half written, or the zeros of preallocated space behind the last one:
that tail is cut. Bytes that can't be a batch with good data behind them, or where data was known to be on disk, are
damage: nothing is cut, `SegmentDamaged` is raised, and the caller sets the segment aside.
"""

from __future__ import annotations

import logging

from tailrace.storage.batch_scan import BatchSpan, checksum_matches, find_valid_batch, is_zero, read_span
from tailrace.storage.leader_epoch_cache import LeaderEpochCache
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.log_replay import replay_batch
from tailrace.storage.producer_state_manager import ProducerStateManager
from tailrace.storage.segment import RELATIVE_OFFSET_MAX, Segment

_log = logging.getLogger(__name__)


def recover_segment(
    segment: Segment,
    producer_state: ProducerStateManager,
    leader_epochs: LeaderEpochCache,
    *,
    durable_offset: int,
    log_start_offset: int,
    end_offset: int | None,
) -> int:
    """Check every batch, make the indexes anew and cut a torn tail; give the offset behind the last batch.

    `producer_state` is that of the segment's base offset and becomes that of its end. Below `durable_offset` everything
    is known to have been on disk. `end_offset` is where the next segment begins, None for the last one: a segment with
    another behind it was complete, there nothing may be missing, and nothing may reach into the next one.
    """
    is_last = end_offset is None
    has_unsynced = end_offset is None or durable_offset < end_offset  # And so have those behind it.
    segment.discard_indexes()
    segment.transaction_index.reset()
    view, size = segment.view, segment.size
    position, next_offset = 0, segment.base_offset
    while position < size:
        span = read_span(view, position, size)
        if span is None or not _follows(span, next_offset, segment) or not checksum_matches(view, span):
            break
        if end_offset is not None and span.last_offset >= end_offset:
            reason = f"a batch ends at offset {span.last_offset}, but the next segment begins at {end_offset}"
            raise SegmentDamaged(segment.log_path, position, reason)
        segment.index_span(span)
        if has_unsynced:
            if span.last_offset >= log_start_offset:
                leader_epochs.found(span.leader_epoch, max(span.base_offset, log_start_offset))
        elif span.leader_epoch > (-1 if leader_epochs.latest_epoch is None else leader_epochs.latest_epoch):
            leader_epochs.assign(span.leader_epoch, span.base_offset)
        if span.magic == 2:
            replay_batch(producer_state, segment, span, writes_transaction_index=True)
        next_offset = span.last_offset + 1
        position += span.size
    if position < size:
        reason = _damage(segment, position, next_offset, durable_offset=durable_offset, is_last=is_last)
        if reason:
            raise SegmentDamaged(segment.log_path, position, reason)
        del view
        _cut(segment, position, next_offset)
    segment.unverified = None
    if not is_last:
        segment.trim()
    producer_state.map_end_offset = next_offset
    return next_offset


def _follows(span: BatchSpan, next_offset: int, segment: Segment) -> bool:
    """Whether the batch's offsets can come after those before it. Compaction leaves gaps."""
    first = span.base_offset if span.magic == 2 else span.last_offset
    return first >= next_offset and span.last_offset - segment.base_offset <= RELATIVE_OFFSET_MAX


def _damage(segment: Segment, position: int, next_offset: int, *, durable_offset: int, is_last: bool) -> str:
    """Say why the bytes from `position` on are damage; nothing where they are the tail that a killed process leaves."""
    view, size = segment.view, segment.size
    is_empty = is_zero(view, position, size)
    if next_offset < durable_offset and (is_last or not is_empty):
        return f"records from offset {next_offset} to {durable_offset} were on disk and can't be read"
    if is_empty:
        return ""
    if not is_last:
        return f"no whole batch follows offset {next_offset - 1}, and later segments exist"
    later = find_valid_batch(view, position + 1, size, offset_min=next_offset)
    if later is not None:
        return f"a good batch (offset {later.base_offset}) follows at byte {later.position}"
    return ""


def _cut(segment: Segment, position: int, next_offset: int) -> None:
    removed = segment.size - position
    if is_zero(segment.view, position, segment.size):
        _log.info("%s: cut %d preallocated bytes behind offset %d", segment.log_path, removed, next_offset - 1)
    else:
        _log.warning("%s: cut a torn tail of %d bytes behind offset %d", segment.log_path, removed, next_offset - 1)
    segment.cut_tail(position)
