"""Measurements, client telemetry, and the windows of quotas.

Names, types, ranges and defaults are those of Apache Kafka 4.1; the sentences are ours.
"""

from __future__ import annotations

from tailrace.settings.declare import class_name, integer, long, string, word_list
from tailrace.settings.definition import CLUSTER_WIDE, LOW, SettingTable
from tailrace.settings.value_range import at_least


class MetricsSettings(SettingTable):
    """Measurements, client telemetry, and the windows of quotas."""

    metrics_num_samples = integer(
        2,
        "How many samples a Kafka metric remembers; Prometheus keeps its own history of Tailrace's.",
        at_least(1),
        LOW,
    )
    metrics_sample_window_ms = long(30000, "Length of one sample of a Kafka metric.", at_least(1), LOW)
    metric_reporters = word_list(
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "Classes that Kafka reports metrics to; Tailrace answers Prometheus on its metrics port.",
        None,
        LOW,
        CLUSTER_WIDE,
    )
    metrics_recording_level = string("INFO", "The level of detail of Kafka's metrics.", None, LOW)
    kafka_metrics_reporters = word_list((), "Older classes that Kafka reports metrics to.", None, LOW)
    kafka_metrics_polling_interval_secs = integer(10, "How often those older classes are called.", at_least(1), LOW)
    telemetry_max_bytes = integer(1048576, "How many bytes of metrics a client may push at a time.", at_least(1), LOW)
    quota_window_num = integer(11, "How many samples client quotas remember.", at_least(1), LOW)
    replication_quota_window_num = integer(11, "How many samples replication quotas remember.", at_least(1), LOW)
    alter_log_dirs_replication_quota_window_num = integer(
        11, "How many samples the quota for moving replicas between directories remembers.", at_least(1), LOW
    )
    controller_quota_window_num = integer(
        11, "How many samples the quota for changing topics remembers.", at_least(1), LOW
    )
    quota_window_size_seconds = integer(1, "Length of one sample of client quotas.", at_least(1), LOW)
    replication_quota_window_size_seconds = integer(1, "Length of one sample of replication quotas.", at_least(1), LOW)
    alter_log_dirs_replication_quota_window_size_seconds = integer(
        1, "Length of one sample of the quota for moving replicas between directories.", at_least(1), LOW
    )
    controller_quota_window_size_seconds = integer(
        1, "Length of one sample of the quota for changing topics.", at_least(1), LOW
    )
    client_quota_callback_class = class_name(None, "The class that decides which quota a client has.", None, LOW)
