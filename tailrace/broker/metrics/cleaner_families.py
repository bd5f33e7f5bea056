"""The log cleaner's numbers as metric families: Kafka's names, as the JMX exporter makes them of its beans."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tailrace.storage.cleaner_numbers import CleanerNumbers


def cleaner_families(numbers: CleanerNumbers) -> Iterator[Metric]:
    """Give the progress of compaction."""
    manager, cleaner = "kafka_log_logcleanermanager", "kafka_log_logcleaner"
    gauges = (
        (f"{manager}_max_dirty_percent", "The largest dirty share of a compacted log.", numbers.max_dirty_percent),
        (f"{manager}_time_since_last_run_ms", "Since a cleaner last looked for work.", numbers.time_since_last_run_ms),
        (
            f"{cleaner}_cleaner_recopy_percent",
            "How much of what the last cleanings read they wrote again.",
            numbers.recopy_percent,
        ),
        (f"{cleaner}_max_clean_time_secs", "How long the longest last cleaning took.", numbers.max_clean_time_s),
        (
            f"{cleaner}_max_buffer_utilization_percent",
            "How full the map of keys was at the end of the last cleanings.",
            numbers.max_buffer_utilization_percent,
        ),
        (
            f"{cleaner}_max_compaction_delay_secs",
            "By how much a record waits longer than max.compaction.lag.ms.",
            numbers.max_compaction_delay_s,
        ),
        ("tailrace_log_cleaner_running", "Logs that are being cleaned now.", numbers.running_count),
    )
    for name, text, value in gauges:
        yield GaugeMetricFamily(name, text, value=value)
    for name, text, by_directory in (
        (f"{manager}_uncleanable_partitions_count", "Logs set aside for an error.", numbers.uncleanable_partitions),
        (f"{manager}_uncleanable_bytes", "Bytes of logs set aside for an error.", numbers.uncleanable_bytes),
    ):
        family = GaugeMetricFamily(name, text, labels=["logDirectory"])
        for directory, value in by_directory.items():
            family.add_metric([str(directory)], value)
        yield family
    for name, text, value in (
        ("tailrace_log_cleaner_cleanings", "Cleanings that came to their end.", numbers.cleanings),
        ("tailrace_log_cleaner_read_bytes", "Bytes that cleaners read.", numbers.bytes_read),
        ("tailrace_log_cleaner_written_bytes", "Bytes that cleaners wrote.", numbers.bytes_written),
    ):
        yield CounterMetricFamily(name, text, value=value)
