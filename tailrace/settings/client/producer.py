"""What a producer is told: who must have a record, how batches fill and travel, and what transactions are called.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.client.connection import ConnectionOptions, ConnectionSettings
from tailrace.settings.client.security import ClientSecuritySettings, SecurityOptions
from tailrace.settings.declare import boolean, integer, long, string
from tailrace.settings.definition import HIGH, INT_MAX, LOW, MEDIUM
from tailrace.settings.value_range import BetweenOr, NotEmpty, at_least, between, one_of


class ProducerSettings(ConnectionSettings, ClientSecuritySettings):
    """Producers: who must have a record, how batches fill and travel, and what transactions are called."""

    acks = string(
        "all",
        "Who must have a record before it counts as written: all in-sync replicas, the leader (1), nobody (0).",
        one_of("all", "-1", "0", "1"),
        LOW,
        acts=True,
    )
    enable_idempotence = boolean(
        True, "Number the batches, so that a retry never writes a record twice.", None, LOW, acts=True
    )
    batch_size = integer(16384, "Bytes up to which a partition's batch is filled.", at_least(0), MEDIUM, acts=True)
    linger_ms = long(5, "How long a batch that is not full waits for more records.", at_least(0), MEDIUM, acts=True)
    buffer_memory = long(
        33554432, "Bytes that batches may take until brokers have them; then send waits.", at_least(0), HIGH, acts=True
    )
    max_block_ms = long(
        60000, "How long send waits for memory or for metadata before it fails.", at_least(0), MEDIUM, acts=True
    )
    max_request_size = integer(
        1048576, "Bytes that a request, and so a record, may have.", at_least(0), MEDIUM, acts=True
    )
    max_in_flight_requests_per_connection = integer(
        5, "Requests that may wait for one broker's answer at a time.", at_least(1), LOW, acts=True
    )
    delivery_timeout_ms = integer(120000, "How long after send a record is given up.", at_least(0), MEDIUM, acts=True)
    retries = integer(
        INT_MAX, "How often a batch is sent again, inside delivery.timeout.ms.", between(0, INT_MAX), HIGH, acts=True
    )
    compression_type = string(
        "none", "The codec of batches.", one_of("none", "gzip", "snappy", "lz4", "zstd"), HIGH, acts=True
    )
    compression_gzip_level = integer(-1, "How hard gzip tries.", BetweenOr(1, 9, -1), MEDIUM, acts=True)
    compression_lz4_level = integer(9, "How hard LZ4 tries.", between(1, 17), MEDIUM, acts=True)
    compression_zstd_level = integer(3, "How hard Zstandard tries.", between(-131072, 22), MEDIUM, acts=True)
    partitioner_ignore_keys = boolean(
        False, "Spread records that have a key as if they had none.", None, MEDIUM, acts=True
    )
    partitioner_adaptive_partitioning_enable = boolean(
        True, "Give records without a key rather to partitions whose broker keeps up.", None, LOW, acts=True
    )
    partitioner_availability_timeout_ms = long(
        0,
        "How long batches may wait for a broker before its partitions get no more records without a key; 0 is never.",
        at_least(0),
        LOW,
        acts=True,
    )
    transactional_id = string(
        None, "The name by which a producer's transactions are known across restarts.", NotEmpty(), LOW, acts=True
    )
    transaction_timeout_ms = integer(
        60000, "How long a transaction may be open before the coordinator aborts it.", None, LOW, acts=True
    )


class ProducerOptions(ConnectionOptions, SecurityOptions, total=False):
    """The same as keyword arguments."""

    acks: str | int
    enable_idempotence: bool
    batch_size: int
    linger_ms: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    retries: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
