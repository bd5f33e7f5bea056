"""What an administration client is told.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.client.connection import ConnectionOptions, ConnectionSettings
from tailrace.settings.client.security import ClientSecuritySettings, SecurityOptions
from tailrace.settings.declare import integer, long
from tailrace.settings.definition import MEDIUM
from tailrace.settings.value_range import at_least


class AdminSettings(ConnectionSettings, ClientSecuritySettings):
    """Administration: how long an operation is tried."""

    default_api_timeout_ms = integer(
        60000, "How long an operation is tried, all its requests together.", at_least(0), MEDIUM, acts=True
    )
    connections_max_idle_ms = long(
        300000, "How long a connection is kept that nothing is sent on; negative for ever.", None, MEDIUM, acts=True
    )
    receive_buffer_bytes = integer(
        65536, "The socket's receive buffer; -1 leaves it to the system.", at_least(-1), MEDIUM, acts=True
    )


class AdminOptions(ConnectionOptions, SecurityOptions, total=False):
    """The same as keyword arguments."""

    default_api_timeout_ms: int
