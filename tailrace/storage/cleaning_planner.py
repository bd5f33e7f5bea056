"""Making the plan of one cleaning: what the cleaner has to know of the log, as it is now.

Runs on the event loop and reads no record: sizes, times of files, transaction indexes, producers.
"""

from __future__ import annotations

from tailrace.settings.broker_config import BrokerConfig
from tailrace.storage.batch_retention import LastBatch
from tailrace.storage.cleanable import CleanableRange
from tailrace.storage.cleaning_plan import CleanerLimits, CleaningPlan, SourceSegment
from tailrace.storage.log import segment_limits


def plan_cleaning(chosen: CleanableRange, config: BrokerConfig, now_ms: int) -> CleaningPlan:
    """Make the plan; raises DiskError, or ApiError where a transaction index can't be read."""
    log = chosen.log
    end = chosen.first_uncleanable_offset
    segments = [segment for segment in log.segments if segment.base_offset < end]
    return CleaningPlan(
        directory=log.directory.absolute(),
        segments=[
            SourceSegment(segment.base_offset, segment.log_path.absolute(), segment.size, segment.modified_ms())
            for segment in segments
        ],
        first_dirty_offset=chosen.first_dirty_offset,
        first_uncleanable_offset=end,
        aborted=log.collect_aborted_transactions(segments[0].base_offset, end),
        last_batches={
            entry.producer_id: LastBatch(entry.last_offset if entry.batches else None, entry.producer_epoch)
            for entry in log.producer_states()
        },
        now_ms=now_ms,
        delete_retention_ms=log.config.delete_retention_ms,
        segment_limits=segment_limits(log.config),
        limits=cleaner_limits(config),
    )


def cleaner_limits(config: BrokerConfig) -> CleanerLimits:
    """Give one of the cleaners its share of what the settings allow all of them."""
    threads = max(config.log_cleaner_threads, 1)
    return CleanerLimits(
        map_bytes=config.log_cleaner_dedupe_buffer_size // threads,
        map_load_factor=config.log_cleaner_io_buffer_load_factor,
        buffer_bytes=config.log_cleaner_io_buffer_size // threads // 2,
        bytes_per_second=config.log_cleaner_io_max_bytes_per_second / threads,
    )
