"""Transactions as metric families. Kafka counts none of this, so the names are ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
"""Every state that lasts: each is told even where no transaction is in it, so that a dashboard has no gaps."""


def transaction_families(by_state: Mapping[str, int]) -> Iterator[Metric]:
    """Give the transactional ids that are coordinated here, by state."""
    family = GaugeMetricFamily(
        "tailrace_transactional_ids", "Transactional ids coordinated here, by state.", labels=["state"]
    )
    for state in sorted({*STATES, *by_state}):
        family.add_metric([state], by_state.get(state, 0))
    yield family
