"""Bringing the producer state of a log to an offset: from a snapshot, then batch by batch.

The log is the truth about producers and transactions; snapshots only save reading it. Used when a log is opened and
after its end was cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.protocol.errors import ApiError, MalformedFrame
from tailrace.protocol.records.batch_header import read_batch_header
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.batch_scan import BatchSpan, read_span
from tailrace.storage.log_append import check_producers, take_over
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.producer_state_manager import ProducerStateManager
from tailrace.storage.segment import Segment
from tailrace.storage.segment_check import verify


def rebuild_producer_state(
    producer_state: ProducerStateManager,
    segments: Sequence[Segment],
    *,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Make `producer_state` that of `end_offset`. Every batch read for it is checked; raises `SegmentDamaged`."""
    producer_state.truncate_and_reload(log_start_offset=log_start_offset, log_end_offset=end_offset, now_ms=now_ms)
    for slot, segment in enumerate(segments):
        start = producer_state.map_end_offset
        if start >= end_offset or segment.base_offset >= end_offset:
            break
        if slot + 1 < len(segments) and segments[slot + 1].base_offset <= start:
            continue
        if segment.base_offset > start:
            producer_state.map_end_offset = segment.base_offset
        if segment.base_offset == producer_state.map_end_offset and slot:
            # Where the reading was long, the next start should not repeat it.
            producer_state.take_snapshot(sync=False)
        _replay(producer_state, segment, producer_state.map_end_offset, end_offset)
    producer_state.map_end_offset = end_offset


def _replay(producer_state: ProducerStateManager, segment: Segment, start_offset: int, end_offset: int) -> None:
    if not segment.size:
        return
    span = segment.find(start_offset)
    while span is not None and span.base_offset < end_offset:
        verify(segment, span.position, span.end)
        if span.magic == 2 and span.base_offset >= start_offset:
            replay_batch(producer_state, segment, span, writes_transaction_index=False)
        producer_state.map_end_offset = span.last_offset + 1
        span = read_span(segment.view, span.end, segment.size)


def replay_batch(
    producer_state: ProducerStateManager, segment: Segment, span: BatchSpan, *, writes_transaction_index: bool
) -> None:
    """Let the producer state know of a batch that is in the log, and, where asked, the transaction index."""
    try:
        header = read_batch_header(segment.view, span.position)
        if header.producer_id < 0:
            return
        batch = segment.view[span.position : span.end]
        updates = check_producers(producer_state, batch, [header], AppendOrigin.REPLICATION)
    except (ApiError, MalformedFrame) as error:
        raise SegmentDamaged(segment.log_path, span.position, str(error)) from error
    if updates is None:
        return
    if not writes_transaction_index:
        for completed in updates.completed:
            completed.is_aborted = False  # It is in the index already.
    take_over(producer_state, segment, updates)
