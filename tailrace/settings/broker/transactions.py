"""Idempotent producers and transactions.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, integer, short
from tailrace.settings.definition import CLUSTER_WIDE, HIGH, LOW, SettingTable
from tailrace.settings.value_range import at_least


class TransactionSettings(SettingTable):
    """Idempotent producers and transactions."""

    transaction_state_log_min_isr = integer(
        2, "How many in-sync replicas a write to the transaction topic needs.", at_least(1), HIGH, acts=True
    )
    transaction_state_log_load_buffer_size = integer(
        5242880, "How many bytes are read at a time when transaction state is loaded.", at_least(1), HIGH
    )
    transaction_state_log_replication_factor = short(
        3, "How many replicas the transaction topic gets.", at_least(1), HIGH, acts=True
    )
    transaction_state_log_num_partitions = integer(
        50, "How many partitions the transaction topic gets.", at_least(1), HIGH, acts=True
    )
    transaction_state_log_segment_bytes = integer(
        104857600, "Segment size of the transaction topic.", at_least(1), HIGH, acts=True
    )
    transaction_partition_verification_enable = boolean(
        True,
        "Check that a partition belongs to a transaction before its records are appended.",
        None,
        LOW,
        CLUSTER_WIDE,
        acts=True,
    )
    producer_id_expiration_ms = integer(
        86400000,
        "How long a partition remembers a producer that writes no more.",
        at_least(1),
        LOW,
        CLUSTER_WIDE,
        acts=True,
    )
    producer_id_expiration_check_interval_ms = integer(
        600000, "How often forgotten producers are looked for.", at_least(1), LOW, acts=True, internal=True
    )
    transactional_id_expiration_ms = integer(
        604800000, "How long an unused transactional id is remembered.", at_least(1), HIGH, acts=True
    )
    transaction_max_timeout_ms = integer(
        900000, "The longest transaction timeout a producer may ask for.", at_least(1), HIGH, acts=True
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = integer(
        10000, "How often transactions that took too long are looked for and aborted.", at_least(1), LOW, acts=True
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        3600000, "How often expired transactional ids are looked for.", at_least(1), LOW, acts=True
    )
    transaction_two_phase_commit_enable = boolean(
        False, "Allow transactions that another system prepares and decides.", None, LOW
    )
    add_partitions_to_txn_retry_backoff_max_ms = integer(
        100, "How long the broker goes on retrying AddPartitionsToTxn for a producer.", at_least(0), HIGH, acts=True
    )
    add_partitions_to_txn_retry_backoff_ms = integer(
        20, "The pause between those retries.", at_least(1), HIGH, acts=True
    )
