"""The settings that a topic may override, each with the broker settings that give its default.

Names, types, ranges and defaults are those of Apache Kafka 4.1. `LogConfig` is a topic's effective values.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, double, integer, long, string, word_list, word_set
from tailrace.settings.definition import LONG_MAX, SettingTable
from tailrace.settings.value_range import BetweenOr, ThrottledReplicas, at_least, between, each_one_of, one_of


class TopicSettings(SettingTable):
    """What one topic's logs go by."""

    segment_bytes = integer(
        1073741824,
        "Size at which a segment is closed and the next one begun.",
        at_least(1048576),
        acts=True,
        synonyms=("log.segment.bytes",),
    )
    segment_ms = long(
        604800000,
        "Age at which a segment is closed even if it is small.",
        at_least(1),
        acts=True,
        synonyms=(
            "log.roll.ms",
            "log.roll.hours",
        ),
    )
    segment_jitter_ms = long(
        0,
        "The most that is taken off the age at random, so that segments do not all roll at once.",
        at_least(0),
        acts=True,
        synonyms=(
            "log.roll.jitter.ms",
            "log.roll.jitter.hours",
        ),
    )
    segment_index_bytes = integer(
        10485760,
        "Size of an offset index; a full index closes its segment.",
        at_least(4),
        acts=True,
        synonyms=("log.index.size.max.bytes",),
    )
    flush_messages = long(
        LONG_MAX,
        "How many records may wait in memory before they are forced to disk; 1 forces each before its answer.",
        at_least(1),
        acts=True,
        synonyms=("log.flush.interval.messages",),
    )
    flush_ms = long(
        LONG_MAX,
        "How long a record may wait in memory before it is forced to disk.",
        at_least(0),
        acts=True,
        synonyms=(
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
        ),
    )
    retention_bytes = long(
        -1, "How many bytes of a partition are kept; -1 sets no limit.", acts=True, synonyms=("log.retention.bytes",)
    )
    retention_ms = long(
        604800000,
        "How long a record is kept; -1 for ever.",
        at_least(-1),
        acts=True,
        synonyms=(
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours",
        ),
    )
    max_message_bytes = integer(
        1048588,
        "The largest record batch that is accepted, after compression.",
        at_least(0),
        acts=True,
        synonyms=("message.max.bytes",),
    )
    index_interval_bytes = integer(
        4096,
        "How many bytes of records lie between two entries of the offset index.",
        at_least(0),
        acts=True,
        synonyms=("log.index.interval.bytes",),
    )
    delete_retention_ms = long(
        86400000,
        "How long a compacted log keeps the mark that a key was deleted.",
        at_least(0),
        synonyms=("log.cleaner.delete.retention.ms",),
        acts=True,
    )
    min_compaction_lag_ms = long(
        0,
        "How long a record is safe from compaction.",
        at_least(0),
        synonyms=("log.cleaner.min.compaction.lag.ms",),
        acts=True,
    )
    max_compaction_lag_ms = long(
        LONG_MAX,
        "How long a record may wait for compaction; an active segment older than this rolls.",
        at_least(1),
        synonyms=("log.cleaner.max.compaction.lag.ms",),
        acts=True,
    )
    file_delete_delay_ms = long(
        60000,
        "How long a deleted segment's files stay on disk.",
        at_least(0),
        acts=True,
        synonyms=("log.segment.delete.delay.ms",),
    )
    min_cleanable_dirty_ratio = double(
        0.5,
        "The share of a log that has to be uncleaned before it is worth compacting.",
        between(0, 1),
        synonyms=("log.cleaner.min.cleanable.ratio",),
        acts=True,
    )
    cleanup_policy = word_set(
        frozenset({"delete"}),
        "What happens to old data: delete removes it, compact keeps the newest record of each key.",
        each_one_of("compact", "delete"),
        acts=True,
        synonyms=("log.cleanup.policy",),
    )
    unclean_leader_election_enable = boolean(
        False,
        "Let a replica lead that may have missed acknowledged records.",
        synonyms=("unclean.leader.election.enable",),
    )
    min_insync_replicas = integer(
        1,
        "How many in-sync replicas a produce request with acks=all needs.",
        at_least(1),
        acts=True,
        synonyms=("min.insync.replicas",),
    )
    compression_type = string(
        "producer",
        "The codec that records are stored in; producer keeps the one they came in.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        acts=True,
        synonyms=("compression.type",),
    )
    compression_gzip_level = integer(
        -1,
        "How hard gzip tries; -1 leaves it to the library.",
        BetweenOr(1, 9, -1),
        acts=True,
        synonyms=("compression.gzip.level",),
    )
    compression_lz4_level = integer(
        9, "How hard lz4 tries.", between(1, 17), acts=True, synonyms=("compression.lz4.level",)
    )
    compression_zstd_level = integer(
        3, "How hard zstd tries.", between(-131072, 22), acts=True, synonyms=("compression.zstd.level",)
    )
    preallocate = boolean(
        False, "Give a new segment its full size on disk at once.", acts=True, synonyms=("log.preallocate",)
    )
    message_timestamp_type = string(
        "CreateTime",
        "Whether a record keeps its producer's time (CreateTime) or gets the broker's (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
        acts=True,
        synonyms=("log.message.timestamp.type",),
    )
    message_timestamp_before_max_ms = long(
        LONG_MAX,
        "How far a producer's timestamp may lie behind the broker's clock.",
        at_least(0),
        acts=True,
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_after_max_ms = long(
        3600000,
        "How far a producer's timestamp may lie ahead of the broker's clock.",
        at_least(0),
        acts=True,
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    leader_replication_throttled_replicas = word_list(
        (), "Replicas whose leader side of replication is throttled, as partition:broker or `*`.", ThrottledReplicas()
    )
    follower_replication_throttled_replicas = word_list(
        (), "Replicas whose follower side of replication is throttled, as partition:broker or `*`.", ThrottledReplicas()
    )
    remote_storage_enable = boolean(False, "Keep this topic's older segments in remote storage.")
    local_retention_ms = long(
        -2,
        "How long a copied segment stays on the local disk; -2 means as long as retention.ms.",
        at_least(-2),
        synonyms=("log.local.retention.ms",),
    )
    local_retention_bytes = long(
        -2,
        "How many bytes of copied segments stay on the local disk; -2 means as many as retention.bytes.",
        at_least(-2),
        synonyms=("log.local.retention.bytes",),
    )
    remote_log_copy_disable = boolean(False, "Stop copying this topic's segments to remote storage.")
    remote_log_delete_on_disable = boolean(
        False, "Delete the remote segments when remote storage is turned off for this topic."
    )
    internal_segment_bytes = integer(None, "A test's way below the least segment size.", internal=True, acts=True)
