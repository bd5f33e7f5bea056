"""What the broker counts, and how Prometheus reads it.

`registry` holds plain numbers that the hot path adds to, `collector` turns them into Prometheus's families when
somebody scrapes, `http_server` serves them. Only the latter two know prometheus-client, and they are imported late.
"""

from __future__ import annotations

from tailrace.broker.metrics.registry import BrokerMetrics, Histogram, ListenerMetrics, RequestMetrics, TopicMetrics

__all__ = ["BrokerMetrics", "Histogram", "ListenerMetrics", "RequestMetrics", "TopicMetrics"]
