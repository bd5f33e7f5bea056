"""What Prometheus reads of groups."""

from __future__ import annotations

from pathlib import Path

from tailrace.broker.metrics.collector import BrokerCollector
from tailrace.broker.metrics.snapshot import take_snapshot
from tests.broker.groups.handled import commit, make_groups, stable_member
from tests.broker.parts import batch, stop_parts
from tests.broker.test_metrics import samples_of


async def test_members_offsets_and_lag_have_the_names_that_dashboards_know(tmp_path: Path) -> None:
    parts = await make_groups(tmp_path)
    await parts.create_topic("t", partitions=2)
    parts.partition("t").append_as_leader(batch(b"1", b"2", b"3"), acks=-1)
    joined = await stable_member(parts)
    for number, offset in enumerate((1, 5)):
        commit(parts, offset, partition=number, member_id=joined.member_id, generation=joined.generation_id)
    commit(parts, group="simple")
    snapshot = take_snapshot(parts.broker)
    samples = samples_of(BrokerCollector(lambda: snapshot).collect())
    group, of_topic = ("consumergroup", "g"), ("topic", "t")
    for number, offset, lag in ((0, 1, 2), (1, 5, 0)):
        labels = (group, ("partition", str(number)), of_topic)
        assert samples["kafka_consumergroup_current_offset", labels] == offset
        assert samples["kafka_consumergroup_lag", labels] == lag
    assert samples["kafka_consumergroup_current_offset_sum", (group, of_topic)] == 6
    assert samples["kafka_consumergroup_lag_sum", (group, of_topic)] == 2
    assert samples["kafka_consumergroup_members", (group,)] == 1
    assert samples["kafka_consumergroup_members", (("consumergroup", "simple"),)] == 0
    prefix = "kafka_coordinator_group_groupmetadatamanager"
    assert samples[f"{prefix}_numgroups", ()] == 2
    assert samples[f"{prefix}_numgroupsstable", ()] == 1
    assert samples[f"{prefix}_numgroupsempty", ()] == 1
    assert samples[f"{prefix}_numoffsets", ()] == 3
    prefix = "kafka_server_group_coordinator_metrics"
    assert samples[f"{prefix}_group_count", (("protocol", "classic"), ("state", "Stable"))] == 1
    assert samples[f"{prefix}_group_completed_rebalance_total", ()] == 1
    assert samples[f"{prefix}_group_rebalance_total", ()] == 1
    assert samples[f"{prefix}_offset_commit_total", ()] == 3
    await stop_parts(parts)
