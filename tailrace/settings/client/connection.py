"""What every client is told: where the cluster is, how connections are made and kept, how often something is tried.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours. `ConnectionOptions` has the
same names as keyword arguments; a test holds both equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from tailrace.settings.declare import integer, long, string, word_list
from tailrace.settings.definition import HIGH, LOW, MEDIUM, SettingTable
from tailrace.settings.value_range import OneOf, at_least


class ConnectionSettings(SettingTable):
    """Connections: where the cluster is, how connections are made and kept, how often something is tried."""

    bootstrap_servers = word_list(
        (), "Some brokers as host:port, from which the others are learnt.", None, HIGH, acts=True
    )
    client_id = string("", "The name under which brokers log and count this client.", None, MEDIUM, acts=True)
    request_timeout_ms = integer(
        30000, "How long a broker may take to answer one request.", at_least(0), MEDIUM, acts=True
    )
    connections_max_idle_ms = long(
        540000, "How long a connection is kept that nothing is sent on; negative for ever.", None, MEDIUM, acts=True
    )
    socket_connection_setup_timeout_ms = long(
        10000, "How long making a connection may take; doubled after each failure.", None, MEDIUM, acts=True
    )
    socket_connection_setup_timeout_max_ms = long(
        30000, "The most that making a connection may take.", None, MEDIUM, acts=True
    )
    reconnect_backoff_ms = long(
        50, "The pause before a broker is connected to again after a failure.", at_least(0), LOW, acts=True
    )
    reconnect_backoff_max_ms = long(1000, "What that pause doubles up to.", at_least(0), LOW, acts=True)
    retry_backoff_ms = long(100, "The pause before a request that failed is tried again.", at_least(0), LOW, acts=True)
    retry_backoff_max_ms = long(1000, "What that pause doubles up to.", at_least(0), LOW, acts=True)
    metadata_max_age_ms = long(
        300000, "Age at which metadata is asked for anew, even if nothing seems wrong.", at_least(0), LOW, acts=True
    )
    metadata_recovery_strategy = string(
        "rebootstrap",
        "What to do when no known broker can be reached: begin again with bootstrap.servers, or nothing.",
        OneOf(("REBOOTSTRAP", "NONE"), any_case=True),
        LOW,
        acts=True,
    )
    send_buffer_bytes = integer(
        131072, "The socket's send buffer; -1 leaves it to the system.", at_least(-1), MEDIUM, acts=True
    )
    receive_buffer_bytes = integer(
        32768, "The socket's receive buffer; -1 leaves it to the system.", at_least(-1), MEDIUM, acts=True
    )


class ConnectionOptions(TypedDict, total=False):
    """The same as keyword arguments."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    connections_max_idle_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: str
    send_buffer_bytes: int
    receive_buffer_bytes: int
