"""Replicas: how many a topic gets, how followers copy, and who may become leader.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, integer, long, string
from tailrace.settings.definition import CLUSTER_WIDE, HIGH, LONG_MAX, MEDIUM, SettingTable
from tailrace.settings.value_range import at_least


class ReplicationSettings(SettingTable):
    """Replicas: how many a topic gets, how followers copy, and who may become leader."""

    default_replication_factor = integer(1, "How many replicas a topic gets when nobody says.", acts=True)
    controller_socket_timeout_ms = integer(30000, "How long links to the controller wait for an answer.")
    replica_lag_time_max_ms = long(
        30000,
        "How long a follower may stay behind the leader's end before it leaves the in-sync set.",
        None,
        HIGH,
        acts=True,
    )
    replica_socket_timeout_ms = integer(30000, "How long a follower waits for the leader's answer.", None, HIGH)
    replica_socket_receive_buffer_bytes = integer(65536, "The receive buffer of a follower's socket.", None, HIGH)
    replica_fetch_max_bytes = integer(
        1048576, "How many bytes of one partition a follower asks for at a time.", at_least(0)
    )
    replica_fetch_wait_max_ms = integer(500, "How long a follower's fetch waits for data on the leader.", None, HIGH)
    replica_fetch_backoff_ms = integer(1000, "How long a follower rests after an error.", at_least(0))
    replica_fetch_min_bytes = integer(1, "How many bytes a follower's fetch waits for.", None, HIGH)
    replica_fetch_response_max_bytes = integer(10485760, "How many bytes a follower asks for in all.", at_least(0))
    num_replica_fetchers = integer(1, "How many links a follower opens to each leader.", None, HIGH, CLUSTER_WIDE)
    replica_high_watermark_checkpoint_interval_ms = long(
        5000, "How often the high watermarks are written down.", None, HIGH, acts=True
    )
    num_replica_alter_log_dirs_threads = integer(
        None, "Threads that move replicas between log directories; without it, one for each directory.", None, HIGH
    )
    auto_leader_rebalance_enable = boolean(
        True, "Give leadership back to preferred replicas in the background.", None, HIGH
    )
    leader_imbalance_check_interval_seconds = long(
        300, "How often the balance of leaders is looked at.", at_least(1), HIGH
    )
    unclean_leader_election_interval_ms = long(
        300000,
        "How often an election outside the in-sync set is tried, where it is allowed.",
        at_least(1),
        internal=True,
    )
    unclean_leader_election_enable = boolean(
        False, "Let a replica lead that may have missed acknowledged records.", None, HIGH, CLUSTER_WIDE
    )
    replica_selector_class = string(None, "The class that picks the replica a consumer reads from.")
    leader_replication_throttled_rate = long(
        LONG_MAX,
        "How many bytes a second throttled replicas are sent; given only while the broker runs.",
        at_least(0),
        MEDIUM,
        CLUSTER_WIDE,
        internal=True,
    )
    follower_replication_throttled_rate = long(
        LONG_MAX,
        "How many bytes a second throttled replicas copy; given only while the broker runs.",
        at_least(0),
        MEDIUM,
        CLUSTER_WIDE,
        internal=True,
    )
    replica_alter_log_dirs_io_max_bytes_per_second = long(
        LONG_MAX,
        "How many bytes a second move between log directories; given only while the broker runs.",
        at_least(0),
        MEDIUM,
        CLUSTER_WIDE,
        internal=True,
    )
