"""What a producer counts: records, bytes, batches, requests, and how long they took. By batch, so it costs little.

    tailrace_producer_records_total                topic         acknowledged (acks=0: written to the connection)
    tailrace_producer_record_errors_total          topic         given up
    tailrace_producer_record_retries_total         topic         sent again
    tailrace_producer_batches_total                topic         acknowledged
    tailrace_producer_bytes_total                  topic         of acknowledged batches, as they were sent
    tailrace_producer_queue_seconds                              from a batch's beginning until it is sent first
    tailrace_producer_request_seconds              broker        from a produce request to its answer
    tailrace_producer_requests_in_flight           broker
    tailrace_producer_buffer_bytes                               buffer.memory
    tailrace_producer_buffer_available_bytes                     what of it is free
    tailrace_producer_buffer_waiters                             how many calls of send wait for some
    tailrace_producer_transactions_total           outcome       committed or aborted

All have the label client_id, too. A producer that is closed has no values any more.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from tailrace.client.buffer_memory import BufferMemory
from tailrace.client.metric_collector import Families, Histogram, Label
from tailrace.client.producer_batch import ProducerBatch

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class TopicCounts:
    """What is counted of one topic."""

    __slots__ = ("batches", "bytes", "errors", "records", "retries")

    def __init__(self) -> None:
        self.records = self.errors = self.retries = self.batches = self.bytes = 0


class ProducerMetrics:
    """The counts of one producer."""

    def __init__(self, client_id: str, memory: BufferMemory) -> None:
        self.client_id = client_id
        self.memory = memory
        self.topics: dict[str, TopicCounts] = defaultdict(TopicCounts)
        self.queue_seconds = Histogram(_SECONDS)
        self.request_seconds: dict[int, Histogram] = defaultdict(lambda: Histogram(_SECONDS))
        self.in_flight: dict[int, int] = {}
        """The sender's own count."""
        self.transactions: dict[str, int] = {"committed": 0, "aborted": 0}

    def sent(self, batch: ProducerBatch, now: float) -> None:
        """Count a batch that goes on its way."""
        if batch.attempts_count == 1:
            self.queue_seconds.observe(now - batch.created_at)
        else:
            self.topics[batch.topic_partition.topic].retries += batch.records_count

    def written(self, batch: ProducerBatch) -> None:
        """Count a batch that is acknowledged, while it still has its bytes."""
        counts = self.topics[batch.topic_partition.topic]
        counts.records += batch.records_count
        counts.batches += 1
        counts.bytes += batch.size

    def given_up(self, batch: ProducerBatch) -> None:
        """Count a batch that is given up; it may be open still."""
        count = batch.records_count if batch.builder is None else batch.builder.records_count
        self.topics[batch.topic_partition.topic].errors += count

    def tell(self, families: Families) -> None:
        """Give the values as they are now."""
        own: dict[str, Label] = {"client_id": self.client_id}
        for topic, counts in list(self.topics.items()):
            labels: dict[str, Label] = {**own, "topic": topic}
            count = families.count
            count("tailrace_producer_records", "Records that were acknowledged.", labels, counts.records)
            count("tailrace_producer_record_errors", "Records that were given up.", labels, counts.errors)
            count("tailrace_producer_record_retries", "Records that were sent again.", labels, counts.retries)
            count("tailrace_producer_batches", "Batches that were acknowledged.", labels, counts.batches)
            count("tailrace_producer_bytes", "Bytes of batches that were acknowledged.", labels, counts.bytes)
        families.histogram(
            "tailrace_producer_queue_seconds", "From a batch's beginning until it is sent.", own, self.queue_seconds
        )
        for broker, seconds in list(self.request_seconds.items()):
            labels = {**own, "broker": broker}
            families.histogram("tailrace_producer_request_seconds", "From a request to its answer.", labels, seconds)
        for broker, in_flight in list(self.in_flight.items()):
            labels = {**own, "broker": broker}
            families.gauge(
                "tailrace_producer_requests_in_flight", "Requests that wait for an answer.", labels, in_flight
            )
        memory, gauge = self.memory, families.gauge
        gauge("tailrace_producer_buffer_bytes", "Bytes that batches may take.", own, memory.total_bytes)
        gauge("tailrace_producer_buffer_available_bytes", "Bytes of it that are free.", own, memory.available_bytes)
        gauge("tailrace_producer_buffer_waiters", "Calls of send that wait for some.", own, memory.waiters_count)
        for outcome, ended in self.transactions.items():
            labels = {**own, "outcome": outcome}
            families.count("tailrace_producer_transactions", "Transactions by how they ended.", labels, ended)
