"""What a scrape sees: every number of a broker at one moment.

`take_snapshot` runs on the event loop, so nothing moves while it looks; it copies plain numbers and makes no text,
since a thousand partitions should cost the clients no more than two milliseconds. The collector works on the copy, on
the thread of the HTTP server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tailrace.broker.broker import Broker
from tailrace.broker.groups.group_numbers import GroupNumbers, take_group_numbers
from tailrace.broker.metrics.registry import Histogram, ListenerMetrics, RequestMetrics, TopicMetrics
from tailrace.storage.cleaner_numbers import CleanerNumbers


class PartitionNumbers(NamedTuple):
    """One partition: what the cluster decided about it, and what the log here holds (-1 where there is none)."""

    topic: str
    number: int
    leader: int
    preferred_leader: int
    replica_count: int
    isr_count: int
    is_leader: bool
    is_offline: bool
    is_under_min_isr: bool
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int


@dataclass(slots=True)
class Snapshot:
    """The numbers; see the module's docstring."""

    node_id: int
    broker_count: int
    is_controller: bool
    topics: dict[str, TopicMetrics]
    all_topics: TopicMetrics
    partitions: list[PartitionNumbers]
    requests: list[RequestMetrics]
    listeners: dict[str, ListenerMetrics]
    client_software: dict[tuple[str, str], int]
    known_errors: dict[tuple[str, str], int]
    unexpected_errors: dict[str, int]
    purgatories: list[tuple[str, int, int]]
    expired_fetches: dict[str, int]
    fetch_sessions: tuple[int, int, int]
    log_flush_time: Histogram
    queued_request_bytes: int
    offline_directory_count: int
    cleaner: CleanerNumbers
    groups: GroupNumbers
    transactions: dict[str, int]
    """How many transactional ids are in which state."""


def take_snapshot(broker: Broker, queued_request_bytes: int = 0) -> Snapshot:
    """Copy the numbers of a broker; to be called on its event loop."""
    metrics = broker.metrics
    replicas = broker.replica_manager
    sessions = broker.fetch_sessions
    return Snapshot(
        node_id=broker.node_id,
        broker_count=len(broker.metadata.brokers),
        is_controller=broker.metadata.controller_id == broker.node_id,
        topics={name: _sum(topic) for name, topic in metrics.topics.items()},
        all_topics=metrics.all_topics(),
        partitions=_partitions(broker),
        requests=[_copy_requests(request) for request in metrics.nonempty_requests()],
        listeners={name: listener.copy() for name, listener in metrics.listeners.items()},
        client_software=dict(metrics.client_software),
        known_errors=dict(metrics.known_errors),
        unexpected_errors=dict(metrics.unexpected_errors),
        purgatories=[
            (purgatory.name, purgatory.watched_count, purgatory.delayed_count)
            for purgatory in (replicas.produce_purgatory, replicas.fetch_purgatory, replicas.delete_records_purgatory)
        ],
        expired_fetches=dict(replicas.expired_fetches),
        fetch_sessions=(len(sessions), sessions.partition_count, sessions.eviction_count),
        log_flush_time=metrics.log_flush_time.copy(),
        queued_request_bytes=queued_request_bytes,
        offline_directory_count=len(broker.log_manager.offline_directories),
        cleaner=broker.log_manager.cleaner.take_numbers(),
        groups=take_group_numbers(broker.groups, replicas),
        transactions={status.label: count for status, count in broker.transactions.count_by_status().items()},
    )


def _sum(topic: TopicMetrics) -> TopicMetrics:
    copy = TopicMetrics()
    copy.add(topic)
    return copy


def _copy_requests(request: RequestMetrics) -> RequestMetrics:
    copy = RequestMetrics(request.name, 0)
    copy.counts_by_version = list(request.counts_by_version)
    copy.queue_time = request.queue_time.copy()
    copy.local_time = request.local_time.copy()
    copy.remote_time = request.remote_time.copy()
    copy.total_time = request.total_time.copy()
    return copy


def _partitions(broker: Broker) -> list[PartitionNumbers]:
    here = broker.replica_manager.partitions
    numbers: list[PartitionNumbers] = []
    for topic in broker.metadata.topics.values():
        for number, registration in enumerate(topic.partitions):
            partition = here.get((topic.name, number))
            log = None if partition is None else partition.log
            is_assigned_here = broker.node_id in registration.replicas
            min_isr = 0 if partition is None else partition.effective_min_isr
            numbers.append(
                PartitionNumbers(
                    topic.name,
                    number,
                    registration.leader,
                    registration.replicas[0] if registration.replicas else -1,
                    len(registration.replicas),
                    len(registration.isr),
                    partition is not None and partition.is_leader,
                    is_assigned_here and (log is None or log.is_offline),
                    len(registration.isr) < min_isr,
                    -1 if log is None else log.high_watermark,
                    -1 if log is None else log.log_start_offset,
                    -1 if log is None else log.log_end_offset,
                    -1 if log is None else log.size_bytes,
                )
            )
    return numbers
