"""Settings that Apache Kafka does not have: all begin with `tailrace.`, and DescribeConfigs lists those that are given.

Kafka's settings come first: one of these exists only where Kafka has none for the purpose.
"""

from __future__ import annotations

from tailrace.settings.declare import integer, string
from tailrace.settings.definition import SettingTable
from tailrace.settings.value_range import between


class OwnSettings(SettingTable):
    """What Tailrace has and Kafka has not."""

    tailrace_busy_poll_max_us = integer(
        300,
        "Microseconds for which the broker stays awake for a client that always asks again as soon as it is answered; "
        "0 lets it sleep.",
        between(0, 10_000),
        acts=True,
    )
    tailrace_metrics_host = string(
        "127.0.0.1", "The address that answers Prometheus; empty is every address.", acts=True
    )
    tailrace_metrics_port = integer(
        9308, "The port that answers Prometheus; 0 takes a free one, -1 turns it off.", between(-1, 65535), acts=True
    )
