"""Consumer groups of both protocols, and the topic that keeps their offsets.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import integer, long, short, string, word_list
from tailrace.settings.definition import HIGH, INT_MAX, SettingTable
from tailrace.settings.value_range import OneOf, at_least, each_one_of


class GroupSettings(SettingTable):
    """Consumer groups of both protocols, and the topic that keeps their offsets."""

    group_coordinator_rebalance_protocols = word_list(
        ("classic", "consumer", "streams"),
        "Which rebalance protocols groups may use.",
        each_one_of("consumer", "classic", "share", "streams"),
        acts=True,
    )
    group_coordinator_threads = integer(4, "Threads that serve groups.", at_least(1), HIGH)
    group_coordinator_append_linger_ms = integer(
        5, "How long the coordinator gathers records before it writes them.", at_least(0)
    )
    offsets_commit_timeout_ms = integer(
        5000, "How long an offset commit may wait for its replicas.", at_least(1), HIGH, acts=True
    )
    offsets_load_buffer_size = integer(
        5242880, "How many bytes are read at a time when offsets are loaded.", at_least(1), HIGH
    )
    offsets_topic_replication_factor = short(
        3, "How many replicas the offsets topic gets.", at_least(1), HIGH, acts=True
    )
    offsets_topic_num_partitions = integer(
        50, "How many partitions the offsets topic gets.", at_least(1), HIGH, acts=True
    )
    offsets_topic_segment_bytes = integer(104857600, "Segment size of the offsets topic.", at_least(1), HIGH, acts=True)
    offsets_topic_compression_codec = integer(
        0,
        "Codec of the offsets topic's batches, by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        None,
        HIGH,
        acts=True,
    )
    offset_metadata_max_bytes = integer(
        4096, "How many bytes of metadata a client may commit with an offset.", None, HIGH, acts=True
    )
    offsets_retention_minutes = integer(
        10080, "How long the offsets of a group without members are kept.", at_least(1), HIGH, acts=True
    )
    offsets_retention_check_interval_ms = long(
        600000, "How often expired offsets are looked for.", at_least(1), HIGH, acts=True
    )
    group_min_session_timeout_ms = integer(
        6000, "The shortest session timeout a classic member may ask for.", acts=True
    )
    group_max_session_timeout_ms = integer(
        1800000, "The longest session timeout a classic member may ask for.", acts=True
    )
    group_initial_rebalance_delay_ms = integer(
        3000, "How long an empty classic group waits for more members before its first rebalance.", acts=True
    )
    group_max_size = integer(INT_MAX, "How many members a classic group may have.", at_least(1), acts=True)
    group_consumer_session_timeout_ms = integer(
        45000, "How long a silent member stays in a consumer group.", at_least(1), acts=True
    )
    group_consumer_min_session_timeout_ms = integer(
        45000, "The least that a group may set its session timeout to.", at_least(1)
    )
    group_consumer_max_session_timeout_ms = integer(
        60000, "The most that a group may set its session timeout to.", at_least(1)
    )
    group_consumer_heartbeat_interval_ms = integer(
        5000, "How often members of a consumer group report.", at_least(1), acts=True
    )
    group_consumer_min_heartbeat_interval_ms = integer(
        5000, "The least that a group may set its heartbeat interval to.", at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms = integer(
        15000, "The most that a group may set its heartbeat interval to.", at_least(1)
    )
    group_consumer_max_size = integer(INT_MAX, "How many members a consumer group may have.", at_least(1), acts=True)
    group_consumer_assignors = word_list(
        ("uniform", "range"), "The assignors that the broker offers; the first is the default.", acts=True
    )
    group_consumer_migration_policy = string(
        "bidirectional",
        "In which direction a group may change between the classic and the consumer protocol.",
        OneOf(("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), any_case=True),
        acts=True,
    )
    group_consumer_regex_refresh_interval_ms = integer(
        600000,
        "How often subscribed patterns are matched with the topics again.",
        at_least(10000),
        internal=True,
        acts=True,
    )
