"""The partitions' logs: where they lie, when segments roll, how long data stays and when it reaches the disk.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, integer, long, string, word_set
from tailrace.settings.definition import CLUSTER_WIDE, HIGH, LONG_MAX, LOW, MEDIUM, SettingTable
from tailrace.settings.value_range import BetweenOr, at_least, between, each_one_of, one_of


class LogSettings(SettingTable):
    """The partitions' logs: where they lie, when segments roll, how long data stays and when it reaches the disk."""

    log_dir = string("/tmp/kafka-logs", "The directory of the logs where log.dirs is not given.", None, HIGH, acts=True)
    log_dirs = string(None, "The directories of the logs, separated by commas.", None, HIGH, acts=True)
    num_partitions = integer(1, "How many partitions a topic gets when nobody says.", at_least(1), acts=True)
    auto_create_topics_enable = boolean(
        True, "Create a topic when a client first asks about it.", None, HIGH, acts=True
    )
    delete_topic_enable = boolean(True, "Allow topics to be deleted.", None, HIGH, acts=True)
    log_segment_bytes = integer(
        1073741824,
        "Size at which a segment is closed and the next one begun.",
        at_least(1048576),
        HIGH,
        CLUSTER_WIDE,
        acts=True,
    )
    log_roll_ms = long(
        None,
        "Age at which a segment is closed even if it is small; decides before log.roll.hours.",
        None,
        HIGH,
        CLUSTER_WIDE,
        acts=True,
    )
    log_roll_hours = integer(
        168, "Age in hours at which a segment is closed even if it is small.", at_least(1), HIGH, acts=True
    )
    log_roll_jitter_ms = long(
        None,
        "The most that is taken off the age at random, so that segments do not all roll at once.",
        None,
        HIGH,
        CLUSTER_WIDE,
        acts=True,
    )
    log_roll_jitter_hours = integer(
        0, "The same in hours; log.roll.jitter.ms decides before it.", at_least(0), HIGH, acts=True
    )
    log_retention_ms = long(
        None,
        "How long a record is kept; -1 for ever; decides before minutes and hours.",
        None,
        HIGH,
        CLUSTER_WIDE,
        acts=True,
    )
    log_retention_minutes = integer(
        None, "How long in minutes a record is kept; decides before log.retention.hours.", None, HIGH, acts=True
    )
    log_retention_hours = integer(168, "How long in hours a record is kept.", None, HIGH, acts=True)
    log_retention_bytes = long(
        -1, "How many bytes of a partition are kept; -1 sets no limit.", None, HIGH, CLUSTER_WIDE, acts=True
    )
    log_retention_check_interval_ms = long(
        300000, "How often the broker looks for segments to delete.", at_least(1), acts=True
    )
    log_cleanup_policy = word_set(
        frozenset({"delete"}),
        "What happens to old data: delete removes it, compact keeps the newest record of each key.",
        each_one_of("compact", "delete"),
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    log_index_size_max_bytes = integer(
        10485760,
        "Size of an offset index; a full index closes its segment.",
        at_least(4),
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    log_index_interval_bytes = integer(
        4096,
        "How many bytes of records lie between two entries of the offset index.",
        at_least(0),
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    log_flush_interval_messages = long(
        LONG_MAX,
        "How many records may wait in memory before they are forced to disk; 1 forces each before its answer.",
        at_least(1),
        HIGH,
        CLUSTER_WIDE,
        acts=True,
    )
    log_flush_scheduler_interval_ms = long(
        LONG_MAX, "How often the broker looks for logs that are due for a flush.", None, HIGH, acts=True
    )
    log_flush_interval_ms = long(
        None, "How long a record may wait in memory before it is forced to disk.", None, HIGH, CLUSTER_WIDE, acts=True
    )
    log_flush_offset_checkpoint_interval_ms = integer(
        60000, "How often the recovery points are written down.", at_least(0), HIGH, acts=True
    )
    log_flush_start_offset_checkpoint_interval_ms = integer(
        60000, "How often the log start offsets are written down.", at_least(0), HIGH, acts=True
    )
    log_segment_delete_delay_ms = long(
        60000, "How long a deleted segment's files stay on disk.", at_least(0), HIGH, CLUSTER_WIDE, acts=True
    )
    log_preallocate = boolean(
        False, "Give a new segment its full size on disk at once.", None, MEDIUM, CLUSTER_WIDE, acts=True
    )
    num_recovery_threads_per_data_dir = integer(
        2,
        "Threads for each log directory that load logs at start and flush them at the end.",
        at_least(1),
        HIGH,
        CLUSTER_WIDE,
        acts=True,
    )
    min_insync_replicas = integer(
        1,
        "How many in-sync replicas a produce request with acks=all needs.",
        at_least(1),
        HIGH,
        CLUSTER_WIDE,
        acts=True,
    )
    message_max_bytes = integer(
        1048588,
        "The largest record batch that is accepted, after compression.",
        at_least(0),
        HIGH,
        CLUSTER_WIDE,
        acts=True,
    )
    log_message_timestamp_type = string(
        "CreateTime",
        "Whether a record keeps its producer's time (CreateTime) or gets the broker's (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    log_message_timestamp_before_max_ms = long(
        LONG_MAX,
        "How far a producer's timestamp may lie behind the broker's clock.",
        at_least(0),
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    log_message_timestamp_after_max_ms = long(
        3600000,
        "How far a producer's timestamp may lie ahead of the broker's clock.",
        at_least(0),
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    compression_type = string(
        "producer",
        "The codec that records are stored in; producer keeps the one they came in.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        HIGH,
        CLUSTER_WIDE,
        acts=True,
    )
    compression_gzip_level = integer(
        -1, "How hard gzip tries; -1 leaves it to the library.", BetweenOr(1, 9, -1), MEDIUM, CLUSTER_WIDE, acts=True
    )
    compression_lz4_level = integer(9, "How hard lz4 tries.", between(1, 17), MEDIUM, CLUSTER_WIDE, acts=True)
    compression_zstd_level = integer(3, "How hard zstd tries.", between(-131072, 22), MEDIUM, CLUSTER_WIDE, acts=True)
    log_dir_failure_timeout_ms = long(
        30000, "How long a broker may fail to report a broken log directory before it stops.", at_least(1), LOW
    )
    log_initial_task_delay_ms = long(
        30000, "How long after the start the logs' periodic work begins.", at_least(0), LOW, acts=True, internal=True
    )
