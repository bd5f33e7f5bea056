"""Checking a segment's bytes against their checksums.

A disk returns wrong bytes without an error now and then, and other programs write into directories. So what was on disk
when the process started is checked once, at its first read; a damaged batch is never served.
"""

from __future__ import annotations

from tailrace.storage.batch_scan import checksum_matches, read_span
from tailrace.storage.log_errors import SegmentDamaged
from tailrace.storage.segment import Segment


def verify(segment: Segment, start: int, end: int) -> None:
    """Check the batches of the range that were not checked before; raise `SegmentDamaged` at the first bad one.

    `start` is where a batch begins; `end` may lie inside one, which is then checked whole.
    """
    ranges = segment.unverified
    if ranges is None:
        return
    view, size = segment.view, segment.size
    for low, high in ranges.unchecked(start, end):
        position = low
        offset_min = segment.base_offset
        while position < high:
            span = read_span(view, position, size)
            if span is None:
                raise SegmentDamaged(segment.log_path, position, "no record batch begins where one must")
            if not checksum_matches(view, span):
                raise SegmentDamaged(segment.log_path, position, f"batch at offset {span.base_offset} fails its CRC")
            if span.last_offset < offset_min or (span.magic == 2 and span.base_offset < offset_min):
                # The base offset is not under the checksum: the broker sets it after the producer made the batch.
                raise SegmentDamaged(
                    segment.log_path, position, f"batch at offset {span.base_offset} where {offset_min} is due or later"
                )
            offset_min = span.last_offset + 1
            position += span.size
        ranges.mark(low, position)
    if not ranges.gaps:
        segment.unverified = None
