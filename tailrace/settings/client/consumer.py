"""What a consumer is told: which group it belongs to, how much it fetches at a time, where it begins.

Names, types, ranges and defaults are those of Apache Kafka 4.1 but for one: `partition.assignment.strategy` has the
assignors' names, as librdkafka has them, where Java has classes. The sentences are ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.settings.client.connection import ConnectionOptions, ConnectionSettings
from tailrace.settings.client.offset_reset import OffsetResetRange
from tailrace.settings.client.security import ClientSecuritySettings, SecurityOptions
from tailrace.settings.declare import boolean, integer, string, word_list
from tailrace.settings.definition import HIGH, LOW, MEDIUM
from tailrace.settings.value_range import NotEmpty, OneOf, at_least, one_of


class ConsumerSettings(ConnectionSettings, ClientSecuritySettings):
    """Consumers: which group they belong to, how much they fetch at a time, where they begin."""

    client_id = string("", "The name under which brokers log and count this client.", None, LOW, acts=True)
    client_rack = string(
        "", "Where this client is: brokers may name a replica nearby to fetch from.", None, LOW, acts=True
    )
    receive_buffer_bytes = integer(
        65536, "The socket's receive buffer; -1 leaves it to the system.", at_least(-1), MEDIUM, acts=True
    )
    default_api_timeout_ms = integer(
        60000, "How long an operation is tried, all its requests together.", at_least(0), MEDIUM, acts=True
    )
    allow_auto_create_topics = boolean(
        True, "Have the broker create a topic that is subscribed to and not there.", None, MEDIUM, acts=True
    )
    auto_offset_reset = string(
        "latest", "Where to begin without a position, or where it is gone.", OffsetResetRange(), MEDIUM, acts=True
    )
    check_crcs = boolean(True, "Check the CRC of every batch.", None, LOW, acts=True)
    enable_auto_commit = boolean(True, "Commit the positions now and then.", None, MEDIUM, acts=True)
    auto_commit_interval_ms = integer(5000, "How often positions are committed.", at_least(0), LOW, acts=True)
    exclude_internal_topics = boolean(
        True, "Leave out the cluster's own topics where a pattern has them too.", None, MEDIUM, acts=True
    )
    fetch_min_bytes = integer(
        1, "Bytes for which a broker waits before it answers a fetch.", at_least(0), HIGH, acts=True
    )
    fetch_max_bytes = integer(
        52428800,
        "Bytes that a broker answers at most, if the first batch is no larger.",
        at_least(0),
        MEDIUM,
        acts=True,
    )
    fetch_max_wait_ms = integer(500, "How long a broker waits for fetch.min.bytes.", at_least(0), LOW, acts=True)
    max_partition_fetch_bytes = integer(
        1048576, "Bytes of one partition in an answer, if its first batch is no larger.", at_least(0), HIGH, acts=True
    )
    isolation_level = string(
        "read_uncommitted",
        "Whether records of open and aborted transactions are read.",
        one_of("read_committed", "read_uncommitted"),
        MEDIUM,
        acts=True,
    )
    max_poll_records = integer(500, "Records that one poll gives at most.", at_least(1), MEDIUM, acts=True)
    max_poll_interval_ms = integer(
        300000,
        "How long a member may take between two polls before it leaves its group.",
        at_least(1),
        MEDIUM,
        acts=True,
    )
    group_id = string(None, "The group that shares the partitions among its members.", None, HIGH, acts=True)
    group_instance_id = string(
        None, "A member's own name, under which it may restart without a rebalance.", NotEmpty(), MEDIUM, acts=True
    )
    group_protocol = string(
        "classic",
        "Whether the members assign partitions (classic) or the coordinator does (consumer).",
        OneOf(("CONSUMER", "CLASSIC"), any_case=True),
        HIGH,
        acts=True,
    )
    group_remote_assignor = string(
        None,
        "The coordinator's assignor, in the protocol consumer; its own choice where unset.",
        None,
        MEDIUM,
        acts=True,
    )
    heartbeat_interval_ms = integer(3000, "How often a classic member says that it lives.", None, HIGH, acts=True)
    session_timeout_ms = integer(
        45000, "After how long without a heartbeat a classic member counts as dead.", None, HIGH, acts=True
    )
    partition_assignment_strategy = word_list(
        ("range", "cooperative-sticky"),
        "The assignors that a classic member can work with, the one it likes best first.",
        None,
        MEDIUM,
        acts=True,
    )


class ConsumerOptions(ConnectionOptions, SecurityOptions, total=False):
    """The same as keyword arguments."""

    client_rack: str
    default_api_timeout_ms: int
    allow_auto_create_topics: bool
    auto_offset_reset: str
    check_crcs: bool
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    exclude_internal_topics: bool
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    isolation_level: str
    max_poll_records: int
    max_poll_interval_ms: int
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    heartbeat_interval_ms: int
    session_timeout_ms: int
    partition_assignment_strategy: str | Sequence[str]
