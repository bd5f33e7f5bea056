"""The numbers a broker counts, as plain attributes that the hot path adds to.

`metrics.topic(name).bytes_in += size` costs some 100 ns and needs no lock, because the event loop owns all of it; the
collector takes its snapshot on the loop. A total over all topics is not kept but summed at the scrape: the topics that
are there, plus `any_topic`, which holds what deleted topics had counted and what could not be laid to a topic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from tailrace.protocol.error_codes import ErrorCode

LATENCY_BOUNDS_MS: tuple[float, ...] = (
    0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0,
)  # fmt: skip
"""Upper bounds of latency buckets: fine where a local broker answers, coarse where a long poll waits."""


class Histogram:
    """Counts of observations by upper bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = LATENCY_BOUNDS_MS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value; a value equal to a bound belongs below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self.counts)

    def copy(self) -> Histogram:
        """Give one with the same numbers, which stays as it is."""
        copy = Histogram(self.bounds)
        copy.counts = list(self.counts)
        copy.total = self.total
        return copy

    def cumulative(self) -> list[tuple[str, float]]:
        """Give the buckets as Prometheus wants them: bound as text, count of all values up to it."""
        buckets: list[tuple[str, float]] = []
        running = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            buckets.append((bound, float(running)))
        return buckets


class TopicMetrics:
    """What Kafka's BrokerTopicMetrics counts for one topic."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_message_conversions",
        "invalid_message_crc_records",
        "invalid_offset_or_sequence_records",
        "messages_in",
        "no_key_compacted_topic_records",
        "produce_message_conversions",
        "total_fetch_requests",
        "total_produce_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.total_produce_requests = 0
        self.failed_produce_requests = 0
        self.total_fetch_requests = 0
        self.failed_fetch_requests = 0
        self.produce_message_conversions = 0
        self.fetch_message_conversions = 0
        self.no_key_compacted_topic_records = 0
        self.invalid_message_crc_records = 0
        self.invalid_offset_or_sequence_records = 0

    def add(self, other: TopicMetrics) -> None:
        """Add another's numbers to these."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class RequestMetrics:
    """What Kafka's RequestMetrics counts for one API; times in milliseconds.

    Queue: from the arrival of the bytes to the handler's start. Local: in the handler. Remote: parked, waiting for
    others; only of requests that were. Total: from arrival to the answer.
    """

    __slots__ = ("counts_by_version", "local_time", "name", "queue_time", "remote_time", "total_time")

    def __init__(self, name: str, version_last: int) -> None:
        self.name = name
        self.counts_by_version = [0] * (version_last + 1)
        self.queue_time = Histogram()
        self.local_time = Histogram()
        self.remote_time = Histogram()
        self.total_time = Histogram()

    def record(
        self, version: int, *, received_at: float, started_at: float, returned_at: float, answered_at: float
    ) -> None:
        """Count a request that has its answer, and its times: seconds of one clock."""
        self.counts_by_version[version] += 1
        # Histogram.observe written out: each request comes here, and a call costs as much as what it does.
        bounds = LATENCY_BOUNDS_MS
        queue, local, total = self.queue_time, self.local_time, self.total_time
        queue_ms, local_ms = (started_at - received_at) * 1000, (returned_at - started_at) * 1000
        queue.counts[bisect_left(bounds, queue_ms)] += 1
        queue.total += queue_ms
        local.counts[bisect_left(bounds, local_ms)] += 1
        local.total += local_ms
        total_ms = (answered_at - received_at) * 1000
        total.counts[bisect_left(bounds, total_ms)] += 1
        total.total += total_ms
        if answered_at > returned_at:
            self.remote_time.observe((answered_at - returned_at) * 1000)


class ListenerMetrics:
    """Connections of one listener."""

    __slots__ = ("closed", "created", "malformed", "open", "rejected")

    def __init__(self) -> None:
        self.open = 0
        self.created = 0
        self.closed = 0
        self.rejected = 0
        self.malformed = 0

    def copy(self) -> ListenerMetrics:
        """Give one with the same numbers, which stays as it is."""
        copy = ListenerMetrics()
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        return copy


class BrokerMetrics:
    """Everything a broker counts; gauges that live elsewhere are read by the collector."""

    def __init__(self) -> None:
        self.any_topic = TopicMetrics()
        self.topics: dict[str, TopicMetrics] = {}
        self.requests: dict[str, RequestMetrics] = {}
        self.listeners: dict[str, ListenerMetrics] = {}
        self.client_software: dict[tuple[str, str], int] = {}
        self.known_errors: dict[tuple[str, str], int] = {}
        self.unexpected_errors: dict[str, int] = {}
        self.log_flush_time = Histogram()

    def topic(self, name: str) -> TopicMetrics:
        """Give the numbers of a topic that exists; ask with no other name, because each stays in memory."""
        metrics = self.topics.get(name)
        if metrics is None:
            metrics = self.topics[name] = TopicMetrics()
        return metrics

    def remove_topic(self, name: str) -> None:
        """Let go a deleted topic; what it counted stays in the totals."""
        metrics = self.topics.pop(name, None)
        if metrics is not None:
            self.any_topic.add(metrics)

    def all_topics(self) -> TopicMetrics:
        """Sum over the topics, those that are gone included."""
        total = TopicMetrics()
        total.add(self.any_topic)
        for metrics in self.topics.values():
            total.add(metrics)
        return total

    def request(self, name: str, version_last: int) -> RequestMetrics:
        """Give the numbers of an API by its name."""
        metrics = self.requests.get(name)
        if metrics is None:
            metrics = self.requests[name] = RequestMetrics(name, version_last)
        return metrics

    def listener(self, name: str) -> ListenerMetrics:
        """Give the numbers of a listener by its name."""
        metrics = self.listeners.get(name)
        if metrics is None:
            metrics = self.listeners[name] = ListenerMetrics()
        return metrics

    def record_error(self, request_name: str, code: ErrorCode) -> None:
        """Count an answer that was an error we know how to name."""
        key = (request_name, code.name)
        self.known_errors[key] = self.known_errors.get(key, 0) + 1

    def record_unexpected_error(self, request_name: str) -> None:
        """Count an exception nobody foresaw: our own fault, and logged whole by whoever caught it."""
        self.unexpected_errors[request_name] = self.unexpected_errors.get(request_name, 0) + 1

    def client_connected(self, software: tuple[str, str]) -> None:
        """Count a connection that told its client software's name and version."""
        self.client_software[software] = self.client_software.get(software, 0) + 1

    def client_disconnected(self, software: tuple[str, str]) -> None:
        """Take back what `client_connected` counted."""
        left = self.client_software.get(software, 0) - 1
        if left > 0:
            self.client_software[software] = left
        else:
            self.client_software.pop(software, None)

    def nonempty_requests(self) -> Iterator[RequestMetrics]:
        """Give the APIs that were asked for at least once, by name."""
        for name in sorted(self.requests):
            if any(self.requests[name].counts_by_version):
                yield self.requests[name]
