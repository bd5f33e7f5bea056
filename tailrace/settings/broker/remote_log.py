"""Tiered storage. Tailrace keeps its logs on local disks; these are taken so that Kafka's files load.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import boolean, double, integer, long, string
from tailrace.settings.definition import CLUSTER_WIDE, LONG_MAX, LOW, MEDIUM, SettingTable
from tailrace.settings.value_range import NotEmpty, at_least, between


class RemoteLogSettings(SettingTable):
    """Tiered storage."""

    remote_log_storage_system_enable = boolean(False, "Turn tiered storage on.")
    remote_log_storage_manager_impl_prefix = string(
        "rsm.config.", "Prefix of the settings that go to the remote storage manager.", NotEmpty()
    )
    remote_log_metadata_manager_impl_prefix = string(
        "rlmm.config.", "Prefix of the settings that go to the remote metadata manager.", NotEmpty()
    )
    remote_log_storage_manager_class_name = string(None, "The class that stores segments remotely.", NotEmpty())
    remote_log_storage_manager_class_path = string(None, "Where that class is loaded from.")
    remote_log_metadata_manager_class_name = string(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "The class that remembers which segments are remote.",
        NotEmpty(),
    )
    remote_log_metadata_manager_class_path = string(None, "Where that class is loaded from.")
    remote_log_metadata_manager_listener_name = string(
        None, "The listener through which remote metadata is read and written.", NotEmpty()
    )
    remote_log_metadata_custom_metadata_max_bytes = integer(
        128, "How many bytes a storage manager may attach to a segment.", at_least(0), LOW
    )
    remote_log_index_file_cache_total_size_bytes = long(
        1073741824, "Disk space for cached indexes of remote segments.", at_least(1), LOW, CLUSTER_WIDE
    )
    remote_log_manager_thread_pool_size = integer(
        2, "Threads that follow the partitions with remote segments.", at_least(1)
    )
    remote_log_manager_copier_thread_pool_size = integer(
        10, "Threads that copy segments to remote storage.", at_least(1), MEDIUM, CLUSTER_WIDE
    )
    remote_log_manager_expiration_thread_pool_size = integer(
        10, "Threads that delete expired remote segments.", at_least(1), MEDIUM, CLUSTER_WIDE
    )
    remote_log_manager_task_interval_ms = long(30000, "How often segments are copied and expired.", at_least(1), LOW)
    remote_log_manager_task_retry_backoff_ms = long(
        500, "The first pause after a failed copy.", at_least(1), LOW, internal=True
    )
    remote_log_manager_task_retry_backoff_max_ms = long(
        30000, "The longest pause after a failed copy.", at_least(1), LOW, internal=True
    )
    remote_log_manager_task_retry_jitter = double(
        0.2, "The random share of the pause after a failed copy.", between(0, 0.5), LOW, internal=True
    )
    remote_log_reader_threads = integer(
        10, "Threads that read remote segments for consumers.", at_least(1), MEDIUM, CLUSTER_WIDE
    )
    remote_log_reader_max_pending_tasks = integer(100, "How many remote reads may wait.", at_least(1))
    log_local_retention_ms = long(
        -2,
        "How long a copied segment stays on the local disk; -2 means as long as log.retention.ms.",
        at_least(-2),
        MEDIUM,
        CLUSTER_WIDE,
    )
    log_local_retention_bytes = long(
        -2,
        "How many bytes of copied segments stay on the local disk; -2 means as many as log.retention.bytes.",
        at_least(-2),
        MEDIUM,
        CLUSTER_WIDE,
    )
    remote_log_manager_copy_max_bytes_per_second = long(
        LONG_MAX, "How many bytes a second are copied to remote storage.", at_least(1), MEDIUM, CLUSTER_WIDE
    )
    remote_log_manager_copy_quota_window_num = integer(11, "How many samples the copy quota remembers.", at_least(1))
    remote_log_manager_copy_quota_window_size_seconds = integer(
        1, "Length of one sample of the copy quota.", at_least(1)
    )
    remote_log_manager_fetch_max_bytes_per_second = long(
        LONG_MAX, "How many bytes a second are read from remote storage.", at_least(1), MEDIUM, CLUSTER_WIDE
    )
    remote_log_manager_fetch_quota_window_num = integer(
        11, "How many samples the remote fetch quota remembers.", at_least(1)
    )
    remote_log_manager_fetch_quota_window_size_seconds = integer(
        1, "Length of one sample of the remote fetch quota.", at_least(1)
    )
    remote_fetch_max_wait_ms = integer(
        500, "How long a fetch waits for remote data.", at_least(1), MEDIUM, CLUSTER_WIDE
    )
    remote_list_offsets_request_timeout_ms = long(
        30000, "How long a search by timestamp in remote segments may take.", at_least(1), MEDIUM, CLUSTER_WIDE
    )
