"""Share groups, which hand out records one by one, and streams groups.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, integer, short, string, word_list
from tailrace.settings.definition import HIGH, INT_MAX, LOW, SettingTable
from tailrace.settings.value_range import at_least, between


class ShareGroupSettings(SettingTable):
    """Share groups, which hand out records one by one, and streams groups."""

    group_share_enable = boolean(False, "Offer share groups.", internal=True)
    group_share_session_timeout_ms = integer(45000, "How long a silent member stays in a share group.", at_least(1))
    group_share_min_session_timeout_ms = integer(
        45000, "The least that a share group may set its session timeout to.", at_least(1)
    )
    group_share_max_session_timeout_ms = integer(
        60000, "The most that a share group may set its session timeout to.", at_least(1)
    )
    group_share_heartbeat_interval_ms = integer(5000, "How often members of a share group report.", at_least(1))
    group_share_min_heartbeat_interval_ms = integer(
        5000, "The least that a share group may set its heartbeat interval to.", at_least(1)
    )
    group_share_max_heartbeat_interval_ms = integer(
        15000, "The most that a share group may set its heartbeat interval to.", at_least(1)
    )
    group_share_max_size = integer(200, "How many members a share group may have.", between(1, 1000))
    group_share_assignors = word_list(("simple",), "The assignors that share groups may use.")
    group_share_delivery_count_limit = integer(
        5, "How often a record is handed out before it is given up.", between(2, 10)
    )
    group_share_record_lock_duration_ms = integer(
        30000, "How long a consumer may hold a record.", between(1000, 3600000)
    )
    group_share_min_record_lock_duration_ms = integer(
        15000, "The least that a group may set its lock duration to.", between(1000, 30000)
    )
    group_share_max_record_lock_duration_ms = integer(
        60000, "The most that a group may set its lock duration to.", between(30000, 3600000)
    )
    group_share_partition_max_record_locks = integer(
        2000, "How many records of a partition may be held at once.", between(100, 10000)
    )
    share_fetch_purgatory_purge_interval_requests = integer(
        1000, "Completed share fetches that may stay in the purgatory before it is swept."
    )
    group_share_max_share_sessions = integer(2000, "How many share sessions are kept.", at_least(1))
    group_share_persister_class_name = string(
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        "The class that keeps the state of share groups.",
        internal=True,
    )
    share_coordinator_state_topic_num_partitions = integer(
        50, "How many partitions the share state topic gets.", at_least(1), HIGH, acts=True
    )
    share_coordinator_state_topic_replication_factor = short(
        3, "How many replicas the share state topic gets.", at_least(1), HIGH, acts=True
    )
    share_coordinator_state_topic_min_isr = short(
        2, "How many in-sync replicas a write to the share state topic needs.", at_least(1), HIGH, acts=True
    )
    share_coordinator_state_topic_segment_bytes = integer(
        104857600, "Segment size of the share state topic.", at_least(1), HIGH, acts=True
    )
    share_coordinator_threads = integer(1, "Threads that serve the share coordinator.", at_least(1))
    share_coordinator_snapshot_update_records_per_snapshot = integer(
        500, "How many updates may follow a share snapshot before the next one.", at_least(0)
    )
    share_coordinator_load_buffer_size = integer(
        5242880, "How many bytes are read at a time when share state is loaded.", at_least(1), HIGH
    )
    share_coordinator_state_topic_compression_codec = integer(
        0, "Codec of the share state topic's batches, by number.", None, HIGH
    )
    share_coordinator_append_linger_ms = integer(
        5, "How long the share coordinator gathers records before it writes them.", at_least(0)
    )
    share_coordinator_write_timeout_ms = integer(
        5000, "How long a write of share state may wait for its replicas.", at_least(1), HIGH
    )
    share_coordinator_state_topic_prune_interval_ms = integer(
        300000,
        "How often records that are no longer needed are removed from the share state topic.",
        at_least(1),
        LOW,
        internal=True,
    )
    share_coordinator_cold_partition_snapshot_interval_ms = integer(
        300000,
        "How often a snapshot is written for share partitions that nobody uses.",
        at_least(1),
        LOW,
        internal=True,
    )
    group_streams_session_timeout_ms = integer(45000, "How long a silent member stays in a streams group.", at_least(1))
    group_streams_min_session_timeout_ms = integer(
        45000, "The least that a streams group may set its session timeout to.", at_least(1)
    )
    group_streams_max_session_timeout_ms = integer(
        60000, "The most that a streams group may set its session timeout to.", at_least(1)
    )
    group_streams_heartbeat_interval_ms = integer(5000, "How often members of a streams group report.", at_least(1))
    group_streams_min_heartbeat_interval_ms = integer(
        5000, "The least that a streams group may set its heartbeat interval to.", at_least(1)
    )
    group_streams_max_heartbeat_interval_ms = integer(
        15000, "The most that a streams group may set its heartbeat interval to.", at_least(1)
    )
    group_streams_max_size = integer(INT_MAX, "How many members a streams group may have.", at_least(1))
    group_streams_num_standby_replicas = integer(
        0, "How many standby copies of its state a streams task keeps.", at_least(0)
    )
    group_streams_max_standby_replicas = integer(
        2, "The most standby copies that a streams group may ask for.", at_least(0)
    )
