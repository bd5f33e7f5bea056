"""One collector of prometheus-client for all clients of a kind that a registry has.

Two producers in one registry are two values of a family's label, not two families: so the registry gets one collector,
which asks each client that is open for its values. Nothing is counted where there is no registry, and prometheus-client
is imported only where there is one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

M = TypeVar("M")

Label = str | int


class Histogram:
    """Counts values by upper bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Families:
    """The families of one scrape, made as they are named."""

    def __init__(self) -> None:
        self._families: dict[str, Any] = {}

    def count(self, name: str, text: str, labels: dict[str, Label], value: float) -> None:
        """Add a value that only ever grows."""
        self._of(CounterMetricFamily, name, text, labels).add_metric(_texts(labels), value)

    def gauge(self, name: str, text: str, labels: dict[str, Label], value: float) -> None:
        """Add a value that goes up and down."""
        self._of(GaugeMetricFamily, name, text, labels).add_metric(_texts(labels), value)

    def histogram(self, name: str, text: str, labels: dict[str, Label], histogram: Histogram) -> None:
        """Add a histogram."""
        buckets: list[tuple[str, float]] = []
        so_far = 0
        for bound, count in zip([*map(str, histogram.bounds), "+Inf"], histogram.counts, strict=True):
            so_far += count
            buckets.append((bound, so_far))
        self._of(HistogramMetricFamily, name, text, labels).add_metric(_texts(labels), buckets, histogram.total)

    def all(self) -> list[Metric]:
        """Give them."""
        return list(self._families.values())

    def _of(self, kind: Callable[..., Any], name: str, text: str, labels: dict[str, Label]) -> Any:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = kind(name, text, labels=list(labels))
        return family


class ClientCollector(Collector, Generic[M]):
    """Asks the metrics of all open clients of one kind for their values, by `tell`."""

    def __init__(self, tell: Callable[[M, Families], None]) -> None:
        self._tell = tell
        self._members: list[M] = []

    def add(self, member: M) -> None:
        """Ask this one, too, from now on."""
        self._members.append(member)

    def remove(self, member: M) -> None:
        """Ask this one no more: its client is closed."""
        if member in self._members:
            self._members.remove(member)

    def collect(self) -> Iterable[Metric]:
        """Give the families of all."""
        families = Families()
        for member in list(self._members):
            self._tell(member, families)
        return families.all()


_collectors: WeakKeyDictionary[CollectorRegistry, dict[str, ClientCollector[Any]]] = WeakKeyDictionary()


def collector_in(registry: CollectorRegistry, kind: str, tell: Callable[[M, Families], None]) -> ClientCollector[M]:
    """Give the registry's collector for a kind of client, registering one where there is none."""
    known = _collectors.setdefault(registry, {})
    if kind not in known:
        known[kind] = ClientCollector(tell)
        registry.register(known[kind])
    return known[kind]


def _texts(labels: dict[str, Label]) -> list[str]:
    return [str(value) for value in labels.values()]
