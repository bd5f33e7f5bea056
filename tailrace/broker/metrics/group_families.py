"""Groups as metric families: kafka_exporter's names for members, offsets and lag, Kafka's own for the rest."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tailrace.broker.groups.group_numbers import GroupNumbers, OffsetNumbers

_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_PARTITION_LABELS = ("consumergroup", "topic", "partition")
_TOPIC_LABELS = ("consumergroup", "topic")


def group_families(numbers: GroupNumbers) -> Iterator[Metric]:
    """Give groups by state, their members, offsets and lag, and what was counted."""
    yield from _states(numbers)
    members = GaugeMetricFamily("kafka_consumergroup_members", "Members of a group.", labels=["consumergroup"])
    for group, count in numbers.members.items():
        members.add_metric([group], count)
    yield members
    yield from _offsets(numbers.offsets)
    prefix = "kafka_server_group_coordinator_metrics"
    for name, text, value in (
        (f"{prefix}_group_rebalance", "Rebalances that began.", numbers.started_rebalances),
        (f"{prefix}_group_completed_rebalance", "Rebalances that ended.", numbers.completed_rebalances),
        (f"{prefix}_offset_commit", "Offsets that were committed.", numbers.committed_offsets),
        (f"{prefix}_offset_expiration", "Offsets that expired.", numbers.expired_offsets),
        ("tailrace_group_expired_members", "Classic members that fell silent.", numbers.expired_members),
    ):
        yield CounterMetricFamily(name, text, value=value)


def _states(numbers: GroupNumbers) -> Iterator[Metric]:
    prefix = "kafka_coordinator_group_groupmetadatamanager"
    yield GaugeMetricFamily(f"{prefix}_numgroups", "Groups.", value=sum(numbers.states.values()))
    yield GaugeMetricFamily(f"{prefix}_numoffsets", "Committed offsets.", value=len(numbers.offsets))
    for state in _STATES:
        count = sum(n for (_, name), n in numbers.states.items() if name == state)
        yield GaugeMetricFamily(f"{prefix}_numgroups{state.lower()}", f"Groups in state {state}.", value=count)
    family = GaugeMetricFamily(
        "kafka_server_group_coordinator_metrics_group_count",
        "Groups by protocol and state.",
        labels=["protocol", "state"],
    )
    for (protocol, state), count in sorted(numbers.states.items()):
        family.add_metric([protocol, state], count)
    yield family


def _offsets(offsets: list[OffsetNumbers]) -> Iterator[Metric]:
    current = GaugeMetricFamily("kafka_consumergroup_current_offset", "A committed offset.", labels=_PARTITION_LABELS)
    lag = GaugeMetricFamily(
        "kafka_consumergroup_lag", "How many offsets are between the commit and the end.", labels=_PARTITION_LABELS
    )
    offset_sums: dict[tuple[str, str], int] = {}
    lag_sums: dict[tuple[str, str], int] = {}
    for one in offsets:
        labels = [one.group, one.topic, str(one.partition)]
        key = (one.group, one.topic)
        current.add_metric(labels, one.offset)
        offset_sums[key] = offset_sums.get(key, 0) + one.offset
        if one.lag is not None:
            lag.add_metric(labels, one.lag)
            lag_sums[key] = lag_sums.get(key, 0) + one.lag
    yield from (current, lag)
    for name, text, sums in (
        ("kafka_consumergroup_current_offset_sum", "A topic's committed offsets.", offset_sums),
        ("kafka_consumergroup_lag_sum", "A topic's lag.", lag_sums),
    ):
        family = GaugeMetricFamily(name, text, labels=_TOPIC_LABELS)
        for key, value in sums.items():
            family.add_metric(key, value)
        yield family
