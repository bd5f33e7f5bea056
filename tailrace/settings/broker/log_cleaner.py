"""The cleaner, which compacts logs in the background.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, double, integer, long
from tailrace.settings.definition import CLUSTER_WIDE, LONG_MAX, MEDIUM, SettingTable
from tailrace.settings.value_range import at_least, between


class LogCleanerSettings(SettingTable):
    """The cleaner, which compacts logs in the background."""

    log_cleaner_threads = integer(1, "Threads that compact logs.", at_least(0), MEDIUM, CLUSTER_WIDE, acts=True)
    log_cleaner_io_max_bytes_per_second = double(
        1.7976931348623157e308,
        "How many bytes a second the cleaners may read and write together.",
        None,
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    log_cleaner_dedupe_buffer_size = long(
        134217728, "Memory for the cleaners' maps of keys, all threads together.", None, MEDIUM, CLUSTER_WIDE, acts=True
    )
    log_cleaner_io_buffer_size = integer(
        524288,
        "Memory for the cleaners' reading and writing, all threads together.",
        at_least(0),
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    log_cleaner_io_buffer_load_factor = double(
        0.9, "How full a cleaner's map of keys may become.", None, MEDIUM, CLUSTER_WIDE, acts=True
    )
    log_cleaner_backoff_ms = long(
        15000, "How long a cleaner rests when there is nothing to clean.", at_least(0), MEDIUM, CLUSTER_WIDE, acts=True
    )
    log_cleaner_min_cleanable_ratio = double(
        0.5,
        "The share of a log that has to be uncleaned before it is worth compacting.",
        between(0, 1),
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    log_cleaner_enable = boolean(
        True, "Run the cleaner at all; Kafka ignores the value since 4.0 where compacted topics exist.", acts=True
    )
    log_cleaner_delete_retention_ms = long(
        86400000,
        "How long a compacted log keeps the mark that a key was deleted.",
        at_least(0),
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    log_cleaner_min_compaction_lag_ms = long(
        0, "How long a record is safe from compaction.", at_least(0), MEDIUM, CLUSTER_WIDE, acts=True
    )
    log_cleaner_max_compaction_lag_ms = long(
        LONG_MAX, "How long a record may wait for compaction.", at_least(1), MEDIUM, CLUSTER_WIDE, acts=True
    )
