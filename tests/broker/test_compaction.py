"""Compaction in a broker: by its topic's settings, its dynamic settings, and for Prometheus to see."""

from __future__ import annotations

from pathlib import Path

from tailrace.broker.dynamic_config import follow_dynamic_config
from tailrace.broker.metadata_store import ALL_BROKERS
from tailrace.broker.metrics.collector import BrokerCollector
from tailrace.broker.metrics.snapshot import take_snapshot
from tailrace.protocol.topic_partition import TopicPartition
from tests.broker.parts import batch, make_parts, stop_parts
from tests.broker.test_metrics import samples_of


async def test_compacted_topic_is_cleaned_and_the_progress_can_be_seen(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    await parts.create_topic("table", cleanup_policy="compact")
    log = parts.partition("table").log
    assert log is not None
    for value in (b"1", b"2", b"3"):
        log.append_as_leader(batch(value), leader_epoch=0)
        log.roll()
    log.update_high_watermark(3)
    manager = parts.broker.log_manager
    assert await manager.cleaner.clean_filthiest()
    assert manager.cleaner.checkpoints == {TopicPartition("table", 0): 3}
    samples = samples_of(BrokerCollector(lambda: take_snapshot(parts.broker)).collect())
    assert samples["kafka_log_logcleanermanager_max_dirty_percent", ()] == 100
    assert samples["tailrace_log_cleaner_cleanings_total", ()] == 1
    assert 0 < samples["kafka_log_logcleaner_cleaner_recopy_percent", ()] < 100
    label = (("logDirectory", str(manager.directories[0].path)),)
    assert samples["kafka_log_logcleanermanager_uncleanable_partitions_count", label] == 0
    await stop_parts(parts)


async def test_cleaner_goes_by_the_settings_of_the_moment(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    follow_dynamic_config(parts.broker)
    values = {"log.cleaner.backoff.ms": "77"}
    await parts.metadata.change_configs(ALL_BROKERS, expected={}, values=values)
    assert parts.broker.log_manager.config.log_cleaner_backoff_ms == 77
    await stop_parts(parts)
