"""What a node is: its id and roles, its place in the cluster, and the metadata that brokers share.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, class_name, integer, long, string, word_list
from tailrace.settings.definition import HIGH, LONG_MAX, LOW, SettingTable
from tailrace.settings.value_range import at_least, each_one_of, host_ports, quorum_voters


class NodeSettings(SettingTable):
    """What a node is: its id and roles, its place in the cluster, and the metadata that brokers share."""

    process_roles = word_list(
        ("broker", "controller"),
        "Which parts of Kafka this process plays; Tailrace is always a broker that also keeps the metadata.",
        each_one_of("broker", "controller"),
        HIGH,
        required=True,
    )
    node_id = integer(
        1,
        "The number of this node, unique in its cluster; clients see it as the broker's id.",
        at_least(0),
        HIGH,
        acts=True,
        required=True,
    )
    broker_id = integer(-1, "An older name of the node's id; used where node.id is not given.", None, HIGH, acts=True)
    broker_rack = string(None, "The rack or zone that this broker reports to clients.", acts=True)
    initial_broker_registration_timeout_ms = integer(
        60000, "How long a starting broker tries to register with the controller before it gives up."
    )
    broker_heartbeat_interval_ms = integer(2000, "How often a broker tells the controller that it lives.")
    broker_session_timeout_ms = integer(9000, "How long a silent broker keeps its registration.")
    controller_listener_names = string(
        None, "Listeners that belong to the controller; Tailrace does not open them.", None, HIGH, acts=True
    )
    sasl_mechanism_controller_protocol = string("GSSAPI", "The SASL mechanism of links to the controller.", None, HIGH)
    controller_performance_sample_period_ms = long(
        60000, "The period over which the controller's own work is measured.", at_least(100), internal=True
    )
    controller_performance_always_log_threshold_ms = long(
        2000,
        "A controller event that takes longer than this is logged whatever the sampling.",
        at_least(0),
        internal=True,
    )
    server_max_startup_time_ms = long(
        LONG_MAX, "How long a start may take before the process gives up.", at_least(0), internal=True
    )
    metadata_log_max_record_bytes_between_snapshots = long(
        20971520, "How many bytes of metadata records may gather before a snapshot is written.", at_least(1), HIGH
    )
    metadata_log_max_snapshot_interval_ms = long(
        3600000, "How old the newest metadata snapshot may become while there are newer records.", at_least(0), HIGH
    )
    metadata_log_dir = string(
        None, "Where the metadata log lives; without it, in the first log directory.", None, HIGH, acts=True
    )
    metadata_log_segment_bytes = integer(
        1073741824, "Size of one segment of the metadata log.", at_least(8388608), HIGH
    )
    metadata_log_segment_ms = long(604800000, "Age at which a segment of the metadata log is closed.", None, HIGH)
    metadata_max_retention_bytes = long(104857600, "How many bytes of metadata log and snapshots are kept.", None, HIGH)
    metadata_max_retention_ms = long(604800000, "How long metadata log and snapshots are kept.", None, HIGH)
    metadata_max_idle_interval_ms = integer(
        500, "How often an idle controller writes a no-op record to its log.", at_least(0), LOW
    )
    internal_metadata_log_segment_bytes = integer(
        None, "A test's way below the least size of a metadata segment.", None, LOW, internal=True
    )
    internal_metadata_max_batch_size_in_bytes = integer(
        8388608, "A test's limit on one batch of metadata records.", None, LOW, internal=True
    )
    internal_metadata_max_fetch_size_in_bytes = integer(
        8388608, "A test's limit on one fetch of metadata records.", None, LOW, internal=True
    )
    internal_metadata_delete_delay_millis = long(
        60000, "A test's delay between renaming a metadata segment and removing it.", None, LOW, internal=True
    )
    controller_quorum_voters = word_list(
        (), "The voters of the controller quorum, as id@host:port.", quorum_voters(), HIGH
    )
    controller_quorum_bootstrap_servers = word_list(
        (), "Where to find the controller quorum, as host:port.", host_ports(), HIGH
    )
    controller_quorum_election_timeout_ms = integer(
        1000, "How long a voter waits for an election's result before it starts another.", at_least(0), HIGH
    )
    controller_quorum_fetch_timeout_ms = integer(
        2000,
        "How long a voter goes on without a fetch answered by the leader before it stands for election.",
        at_least(0),
        HIGH,
    )
    controller_quorum_election_backoff_max_ms = integer(
        1000, "The longest random pause after a lost election.", at_least(0), HIGH
    )
    controller_quorum_append_linger_ms = integer(
        25, "How long the quorum's leader gathers records before it writes them.", at_least(0)
    )
    controller_quorum_request_timeout_ms = integer(2000, "How long a request inside the quorum may take.", at_least(0))
    controller_quorum_retry_backoff_ms = integer(
        20, "The pause before a failed request inside the quorum is sent again.", at_least(0), LOW
    )
    unstable_api_versions_enable = boolean(
        False, "Serve versions of the protocol that Kafka has not released yet.", None, HIGH, internal=True
    )
    unstable_feature_versions_enable = boolean(
        False, "Accept feature levels that Kafka has not released yet.", None, HIGH, internal=True
    )
    controlled_shutdown_enable = boolean(True, "Move leadership to other brokers before stopping.")
    authorizer_class_name = string(
        "", "The class that decides who may do what; empty allows everybody everything.", None, LOW
    )
    early_start_listeners = string(None, "Listeners that open before the authorizer has read its rules.", None, HIGH)
    create_topic_policy_class_name = class_name(None, "The class that may refuse a CreateTopics request.", None, LOW)
    alter_config_policy_class_name = class_name(None, "The class that may refuse a change of configuration.", None, LOW)
