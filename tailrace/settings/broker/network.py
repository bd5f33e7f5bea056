"""Listeners, connections and requests: where the broker listens and how much a client may ask of it.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import integer, long, string
from tailrace.settings.definition import CLUSTER_WIDE, HIGH, INT_MAX, LOW, MEDIUM, PER_BROKER, SettingTable
from tailrace.settings.value_range import at_least, one_of


class NetworkSettings(SettingTable):
    """Listeners, connections and requests: where the broker listens and how much a client may ask of it."""

    listeners = string(
        "PLAINTEXT://:9092",
        "Where the broker listens, as name://host:port; an empty host is every address, port 0 takes a free one.",
        None,
        HIGH,
        PER_BROKER,
        acts=True,
    )
    advertised_listeners = string(
        None,
        "The addresses that clients are told to connect to; without it, those of listeners.",
        None,
        HIGH,
        acts=True,
    )
    listener_security_protocol_map = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener name stands for.",
        None,
        LOW,
        PER_BROKER,
        acts=True,
    )
    security_inter_broker_protocol = string(
        "PLAINTEXT",
        "The security protocol between brokers, where no listener is named for it.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    inter_broker_listener_name = string(None, "The listener that brokers use among themselves.")
    socket_send_buffer_bytes = integer(
        102400, "The sockets' send buffer (SO_SNDBUF); -1 leaves it to the system.", None, HIGH, acts=True
    )
    socket_receive_buffer_bytes = integer(
        102400, "The sockets' receive buffer (SO_RCVBUF); -1 leaves it to the system.", None, HIGH, acts=True
    )
    socket_request_max_bytes = integer(
        104857600, "The largest request that is read; a longer one ends its connection.", at_least(1), HIGH, acts=True
    )
    socket_listen_backlog_size = integer(50, "How many connections may wait to be accepted.", at_least(1), acts=True)
    max_connections_per_ip = integer(
        INT_MAX, "How many connections one address may have open.", at_least(0), MEDIUM, CLUSTER_WIDE, acts=True
    )
    max_connections_per_ip_overrides = string(
        "",
        "Other limits for single addresses or host names, as host:count,host:count.",
        None,
        MEDIUM,
        CLUSTER_WIDE,
        acts=True,
    )
    max_connections = integer(
        INT_MAX, "How many connections the broker keeps open in all.", at_least(0), MEDIUM, CLUSTER_WIDE, acts=True
    )
    max_connection_creation_rate = integer(
        INT_MAX, "How many connections a second the broker accepts.", at_least(0), MEDIUM, CLUSTER_WIDE, acts=True
    )
    connections_max_idle_ms = long(600000, "A connection on which nothing moved for this long is closed.", acts=True)
    connection_failed_authentication_delay_ms = integer(
        100, "How long the broker waits before it closes a connection that failed to authenticate.", at_least(0), LOW
    )
    queued_max_requests = integer(
        500, "How many requests may wait for an answer before the broker stops reading.", at_least(1), HIGH, acts=True
    )
    queued_max_request_bytes = long(
        -1,
        "How many bytes of requests may wait for an answer before the broker stops reading; -1 sets no limit.",
        acts=True,
    )
    num_network_threads = integer(
        3,
        "Threads that Kafka reads and writes sockets with; Tailrace does this on its event loop.",
        at_least(1),
        HIGH,
        CLUSTER_WIDE,
    )
    num_io_threads = integer(
        8,
        "Threads that Kafka handles requests with; Tailrace does this on its event loop.",
        at_least(1),
        HIGH,
        CLUSTER_WIDE,
    )
    background_threads = integer(
        10, "Threads for slow work such as deleting files and compressing.", at_least(1), HIGH, CLUSTER_WIDE
    )
    request_timeout_ms = integer(
        30000, "How long the broker waits for an answer to a request of its own.", None, HIGH, acts=True
    )
    socket_connection_setup_timeout_ms = long(10000, "How long the broker waits for a connection it opens.")
    socket_connection_setup_timeout_max_ms = long(
        30000, "The longest that waits for connections grow to, after repeated failures."
    )
    max_request_partition_size_limit = integer(
        2000, "How many partitions one answer about topics may hold.", at_least(1), acts=True
    )
    fetch_max_bytes = integer(
        57671680, "The most bytes one fetch response carries, whatever the client asks for.", at_least(1024), acts=True
    )
    max_incremental_fetch_session_cache_slots = integer(
        1000, "How many incremental fetch sessions are kept.", at_least(0), acts=True
    )
    fetch_purgatory_purge_interval_requests = integer(
        1000, "Completed fetches that may stay in the purgatory before it is swept."
    )
    producer_purgatory_purge_interval_requests = integer(
        1000, "Completed produce requests that may stay in the purgatory before it is swept."
    )
    delete_records_purgatory_purge_interval_requests = integer(
        1, "Completed DeleteRecords requests that may stay in the purgatory before it is swept."
    )
