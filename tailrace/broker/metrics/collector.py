"""A broker's numbers as Prometheus's metric families.

Names are those that dashboards have: `kafka_server_...`, `kafka_network_...` and `kafka_log_...` as the JMX exporter
makes them of Kafka's beans, and `kafka_topic_partition_...` as kafka_exporter does. What Kafka has no name for begins
with `tailrace_`. Where Kafka gives quantiles of a latency, this gives a histogram under the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tailrace.broker.metrics.cleaner_families import cleaner_families
from tailrace.broker.metrics.group_families import group_families
from tailrace.broker.metrics.registry import Histogram, RequestMetrics, TopicMetrics
from tailrace.broker.metrics.snapshot import PartitionNumbers, Snapshot
from tailrace.broker.metrics.transaction_families import transaction_families

_TOPIC_COUNTERS = (
    ("messages_in", "messagesin", "Records appended."),
    ("bytes_in", "bytesin", "Bytes of record batches appended."),
    ("bytes_out", "bytesout", "Bytes of record batches fetched by consumers."),
    ("bytes_rejected", "bytesrejected", "Bytes of record batches refused for their size."),
    ("total_produce_requests", "totalproducerequests", "Produce requests, once for each partition named."),
    ("failed_produce_requests", "failedproducerequests", "Produce requests that failed for reasons of the broker."),
    ("total_fetch_requests", "totalfetchrequests", "Fetch requests, once for each partition named."),
    ("failed_fetch_requests", "failedfetchrequests", "Fetch requests that failed for reasons of the broker."),
    ("produce_message_conversions", "producemessageconversions", "Records rewritten before the append."),
    ("fetch_message_conversions", "fetchmessageconversions", "Records rewritten for a fetch."),
    ("no_key_compacted_topic_records", "nokeycompactedtopicrecords", "Records refused for want of a key."),
    ("invalid_message_crc_records", "invalidmessagecrcrecords", "Batches refused for a wrong checksum."),
    (
        "invalid_offset_or_sequence_records",
        "invalidoffsetorsequencerecords",
        "Records refused for their offset or sequence.",
    ),
)

_REQUEST_TIMES: tuple[tuple[str, str, Callable[[RequestMetrics], Histogram]], ...] = (
    ("requestqueuetimems", "From the arrival of a request's bytes to its handler.", lambda api: api.queue_time),
    ("localtimems", "In the handler.", lambda api: api.local_time),
    ("remotetimems", "Parked, until what was waited for came.", lambda api: api.remote_time),
    ("totaltimems", "From the arrival of a request's bytes to its response.", lambda api: api.total_time),
)

_LOG_GAUGES: tuple[tuple[str, str, Callable[[PartitionNumbers], float]], ...] = (
    ("kafka_log_log_size", "Bytes of a log's segments.", lambda one: one.size_bytes),
    ("kafka_log_log_logstartoffset", "The first offset that can be read.", lambda one: one.log_start_offset),
    ("kafka_log_log_logendoffset", "The offset the next record gets.", lambda one: one.log_end_offset),
    (
        "kafka_topic_partition_current_offset",
        "The offset up to which consumers read: the high watermark.",
        lambda one: one.high_watermark,
    ),
    ("kafka_topic_partition_oldest_offset", "The first offset that can be read.", lambda one: one.log_start_offset),
)

_CLUSTER_GAUGES: tuple[tuple[str, str, Callable[[PartitionNumbers], float]], ...] = (
    ("kafka_topic_partition_leader", "The leader's node id.", lambda one: one.leader),
    (
        "kafka_topic_partition_leader_is_preferred",
        "1 where the first replica leads.",
        lambda one: one.leader == one.preferred_leader,
    ),
    ("kafka_topic_partition_replicas", "How many replicas a partition has.", lambda one: one.replica_count),
    ("kafka_topic_partition_in_sync_replica", "How many replicas are in sync.", lambda one: one.isr_count),
    (
        "kafka_topic_partition_under_replicated_partition",
        "1 where a replica is out of sync.",
        lambda one: one.isr_count < one.replica_count,
    ),
)


class BrokerCollector(Collector):
    """Gives the families of a snapshot that it has taken for each scrape."""

    def __init__(self, take: Callable[[], Snapshot]) -> None:
        self._take = take

    def describe(self) -> Iterable[Metric]:
        """Name nothing beforehand: which topics there are changes."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Take a snapshot and turn it into families."""
        snapshot = self._take()
        yield from _topics(snapshot)
        yield from _requests(snapshot)
        yield from _connections(snapshot)
        yield from _replicas(snapshot)
        yield from _partitions(snapshot.partitions)
        yield from _waiting(snapshot)
        yield from cleaner_families(snapshot.cleaner)
        yield from group_families(snapshot.groups)
        yield from transaction_families(snapshot.transactions)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _topics(snapshot: Snapshot) -> Iterator[Metric]:
    """Give the topics' counters; the sum over all has no topic label, as in Kafka's beans."""
    every: list[tuple[dict[str, str], TopicMetrics]] = [({}, snapshot.all_topics)]
    every += [({"topic": name}, topic) for name, topic in snapshot.topics.items()]
    for attribute, name, text in _TOPIC_COUNTERS:
        full_name = f"kafka_server_brokertopicmetrics_{name}"
        family = CounterMetricFamily(full_name, text)
        for labels, topic in every:
            family.add_sample(f"{full_name}_total", labels, getattr(topic, attribute))
        yield family


def _requests(snapshot: Snapshot) -> Iterator[Metric]:
    counts = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests, by API and version.", labels=["request", "version"]
    )
    for api in snapshot.requests:
        for version, count in enumerate(api.counts_by_version):
            if count:
                counts.add_metric([api.name, str(version)], count)
    yield counts
    for name, text, histogram_of in _REQUEST_TIMES:
        family = HistogramMetricFamily(
            f"kafka_network_requestmetrics_{name}", f"{text} Milliseconds.", labels=["request"]
        )
        for api in snapshot.requests:
            histogram = histogram_of(api)
            family.add_metric([api.name], histogram.cumulative(), histogram.total)
        yield family
    known = CounterMetricFamily(
        "kafka_network_requestmetrics_errors", "Answers with an error, by API and code.", labels=["request", "error"]
    )
    for (request, error), count in snapshot.known_errors.items():
        known.add_metric([request, error], count)
    yield known
    unexpected = CounterMetricFamily(
        "tailrace_unexpected_errors", "Requests that met an exception nobody foresaw.", labels=["request"]
    )
    for request, count in snapshot.unexpected_errors.items():
        unexpected.add_metric([request], count)
    yield unexpected


def _connections(snapshot: Snapshot) -> Iterator[Metric]:
    prefix = "kafka_server_socket_server_metrics_connection"
    current = GaugeMetricFamily(f"{prefix}_count", "Open connections.", labels=["listener"])
    created = CounterMetricFamily(f"{prefix}_creation", "Connections accepted.", labels=["listener"])
    closed = CounterMetricFamily(f"{prefix}_close", "Connections closed.", labels=["listener"])
    rejected = CounterMetricFamily(
        "tailrace_connections_rejected", "Connections refused for a limit by address.", labels=["listener"]
    )
    malformed = CounterMetricFamily(
        "tailrace_malformed_requests", "Connections closed for bytes that are no request.", labels=["listener"]
    )
    for name, listener in snapshot.listeners.items():
        current.add_metric([name], listener.open)
        created.add_metric([name], listener.created)
        closed.add_metric([name], listener.closed)
        rejected.add_metric([name], listener.rejected)
        malformed.add_metric([name], listener.malformed)
    yield from (current, created, closed, rejected, malformed)
    software = GaugeMetricFamily(
        "kafka_server_socket_server_metrics_connections",
        "Open connections by the client's software.",
        labels=["clientSoftwareName", "clientSoftwareVersion"],
    )
    for names, count in snapshot.client_software.items():
        software.add_metric(list(names), count)
    yield software
    yield _gauge("tailrace_queued_request_bytes", "Bytes of requests that wait.", snapshot.queued_request_bytes)


def _replicas(snapshot: Snapshot) -> Iterator[Metric]:
    partitions = snapshot.partitions
    here = [one for one in partitions if one.log_end_offset >= 0 or one.is_offline]
    prefix = "kafka_server_replicamanager"
    yield _gauge(f"{prefix}_partitioncount", "Partitions of this broker.", len(here))
    yield _gauge(f"{prefix}_leadercount", "Partitions led from here.", sum(one.is_leader for one in here))
    yield _gauge(
        f"{prefix}_underreplicatedpartitions",
        "Partitions led from here that lack a replica.",
        sum(one.is_leader and one.isr_count < one.replica_count for one in here),
    )
    yield _gauge(
        f"{prefix}_underminisrpartitioncount",
        "Partitions led from here with fewer replicas in sync than min.insync.replicas.",
        sum(one.is_leader and one.is_under_min_isr for one in here),
    )
    yield _gauge(f"{prefix}_offlinereplicacount", "Logs that don't serve.", sum(one.is_offline for one in here))
    yield _gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Data directories that don't serve.",
        snapshot.offline_directory_count,
    )
    prefix = "kafka_controller_kafkacontroller"
    yield _gauge(f"{prefix}_activecontrollercount", "1 on the controller.", snapshot.is_controller)
    yield _gauge(f"{prefix}_globaltopiccount", "Topics of the cluster.", len({one.topic for one in partitions}))
    yield _gauge(f"{prefix}_globalpartitioncount", "Partitions of the cluster.", len(partitions))
    yield _gauge(
        f"{prefix}_offlinepartitionscount",
        "Partitions without a leader, or whose log does not serve.",
        sum(one.leader < 0 or one.is_offline for one in partitions),
    )
    yield _gauge("kafka_brokers", "Brokers of the cluster.", snapshot.broker_count)


def _partitions(partitions: list[PartitionNumbers]) -> Iterator[Metric]:
    counts: dict[str, int] = {}
    for one in partitions:
        counts[one.topic] = counts.get(one.topic, 0) + 1
    family = GaugeMetricFamily("kafka_topic_partitions", "Partitions of a topic.", labels=["topic"])
    for topic, count in counts.items():
        family.add_metric([topic], count)
    yield family
    with_log = [one for one in partitions if one.log_end_offset >= 0]
    for table, rows in ((_LOG_GAUGES, with_log), (_CLUSTER_GAUGES, partitions)):
        for name, text, value_of in table:
            family = GaugeMetricFamily(name, text, labels=["topic", "partition"])
            for one in rows:
                family.add_metric([one.topic, str(one.number)], value_of(one))
            yield family


def _waiting(snapshot: Snapshot) -> Iterator[Metric]:
    """Give what waits and what was remembered: purgatories, fetch sessions, syncs of logs."""
    prefix = "kafka_server_delayedoperationpurgatory"
    label = ["delayedoperation"]
    sizes = GaugeMetricFamily(f"{prefix}_purgatorysize", "Entries of the watch lists.", labels=label)
    delayed = GaugeMetricFamily(f"{prefix}_numdelayedoperations", "Operations that wait.", labels=label)
    for name, watched_count, delayed_count in snapshot.purgatories:
        sizes.add_metric([name], watched_count)
        delayed.add_metric([name], delayed_count)
    yield from (sizes, delayed)
    expired = CounterMetricFamily(
        "kafka_server_delayedfetchmetrics_expires", "Fetches whose time ran out.", labels=["fetchertype"]
    )
    for fetcher, count in snapshot.expired_fetches.items():
        expired.add_metric([fetcher], count)
    yield expired
    prefix = "kafka_server_fetchsessioncache"
    sessions, partitions, evictions = snapshot.fetch_sessions
    yield _gauge(f"{prefix}_numincrementalfetchsessions", "Fetch sessions.", sessions)
    yield _gauge(f"{prefix}_numincrementalfetchpartitionscached", "Partitions in fetch sessions.", partitions)
    yield CounterMetricFamily(
        f"{prefix}_incrementalfetchsessionevictions", "Fetch sessions that gave up their slot.", value=evictions
    )
    flushes = snapshot.log_flush_time
    yield HistogramMetricFamily(
        "kafka_log_logflushstats_logflushrateandtimems",
        "Syncs of a log to disk. Milliseconds.",
        buckets=flushes.cumulative(),
        sum_value=flushes.total,
    )
