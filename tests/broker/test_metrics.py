"""What is counted, and what Prometheus reads of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tailrace.broker.metrics import BrokerMetrics, Histogram, TopicMetrics
from tailrace.broker.metrics.collector import BrokerCollector
from tailrace.broker.metrics.snapshot import take_snapshot
from tailrace.protocol.error_codes import ErrorCode
from tests.broker.parts import make_parts, stop_parts
from tests.broker.test_server import ask_for_records, create_topic, produce, records_of, running
from tests.broker.wire import connected, eventually

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples_of(families: Iterable[Metric]) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def scrape(address: tuple[str, int]) -> Samples:
    with urllib.request.urlopen(f"http://{address[0]}:{address[1]}/metrics", timeout=10) as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        return samples_of(text_string_to_metric_families(response.read().decode()))


async def test_a_scrape_tells_what_clients_did(tmp_path: Path) -> None:
    async with (
        running(tmp_path, tailrace_metrics_port="0") as server,
        connected(server.ports["PLAINTEXT"]) as wire,
        connected(server.ports["PLAINTEXT"]) as other,
    ):
        await create_topic(wire, "flights")
        await produce(wire, "flights", b"one", b"two")
        ask_for_records(wire, "flights", 0)
        size = len(await records_of(wire))
        ask_for_records(other, "flights", 2, max_wait_ms=60_000)
        await eventually(lambda: server.broker.replica_manager.fetch_purgatory.delayed_count == 1)
        assert server.metrics_address is not None
        samples = await asyncio.to_thread(scrape, server.metrics_address)

    of_topic, of_partition = (("topic", "flights"),), (("partition", "0"), ("topic", "flights"))
    for labels in (of_topic, ()):
        assert samples["kafka_server_brokertopicmetrics_messagesin_total", labels] == 2
        assert samples["kafka_server_brokertopicmetrics_bytesin_total", labels] == size
        assert samples["kafka_server_brokertopicmetrics_bytesout_total", labels] == size
        assert samples["kafka_server_brokertopicmetrics_totalproducerequests_total", labels] == 1
        assert samples["kafka_server_brokertopicmetrics_failedproducerequests_total", labels] == 0
    assert samples["kafka_topic_partition_current_offset", of_partition] == 2
    assert samples["kafka_topic_partition_oldest_offset", of_partition] == 0
    assert samples["kafka_topic_partition_leader_is_preferred", of_partition] == 1
    assert samples["kafka_topic_partition_in_sync_replica", of_partition] == 1
    assert samples["kafka_topic_partition_replicas", of_partition] == 1
    assert samples["kafka_topic_partition_under_replicated_partition", of_partition] == 0
    assert samples["kafka_topic_partition_leader", of_partition] == server.broker.node_id
    assert samples["kafka_topic_partitions", of_topic] == 1
    assert samples["kafka_brokers", ()] == 1
    assert samples["kafka_log_log_size", of_partition] == size
    assert samples["kafka_log_log_logendoffset", of_partition] == 2
    assert samples["kafka_network_requestmetrics_requests_total", (("request", "Produce"), ("version", "9"))] == 1
    assert samples["kafka_network_requestmetrics_totaltimems_count", (("request", "Produce"),)] == 1
    # As in Kafka, the fetch that waits counts when it has its answer.
    assert samples["kafka_network_requestmetrics_localtimems_count", (("request", "Fetch"),)] == 1
    assert samples["kafka_server_delayedoperationpurgatory_numdelayedoperations", (("delayedoperation", "Fetch"),)] == 1
    assert samples["kafka_server_socket_server_metrics_connection_count", (("listener", "PLAINTEXT"),)] == 2
    assert samples["process_resident_memory_bytes", ()] > 0


async def test_a_scrape_that_hangs_keeps_neither_clients_nor_the_stop(tmp_path: Path) -> None:
    async with (
        running(tmp_path, tailrace_metrics_port="0") as server,
        connected(server.ports["PLAINTEXT"]) as wire,
    ):
        assert server.metrics_address is not None
        _, half_open = await asyncio.open_connection(*server.metrics_address)
        half_open.write(b"GET /metrics HTTP/1.1\r\n")
        await create_topic(wire, "flights")
        samples = await asyncio.to_thread(scrape, server.metrics_address)
        assert samples["kafka_topic_partitions", (("topic", "flights"),)] == 1
    half_open.close()


async def test_the_port_of_metrics_can_be_turned_off(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        assert server.metrics_address is None


async def test_a_deleted_topic_leaves_the_labels_and_stays_in_the_sum(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    metrics = parts.broker.metrics
    topic = await parts.create_topic("flights")
    metrics.topic("flights").bytes_in += 100
    await parts.metadata.delete_topics([topic.topic_id])
    samples = samples_of(BrokerCollector(lambda: take_snapshot(parts.broker)).collect())
    assert samples["kafka_server_brokertopicmetrics_bytesin_total", ()] == 100
    assert ("kafka_server_brokertopicmetrics_bytesin_total", (("topic", "flights"),)) not in samples
    assert samples["kafka_controller_kafkacontroller_globaltopiccount", ()] == 0
    await stop_parts(parts)


async def test_partitions_that_are_elsewhere_or_behind_are_told_so(tmp_path: Path) -> None:
    parts = await make_parts(tmp_path)
    await parts.create_topic("elsewhere", replicas=(5,))
    await parts.create_topic("behind", replicas=(0, 5), isr=(0,), min_insync_replicas="2")
    samples = samples_of(BrokerCollector(lambda: take_snapshot(parts.broker)).collect())
    elsewhere, behind = ((("partition", "0"), ("topic", name)) for name in ("elsewhere", "behind"))
    assert samples["kafka_topic_partition_leader", elsewhere] == 5
    assert ("kafka_topic_partition_current_offset", elsewhere) not in samples
    assert samples["kafka_topic_partition_under_replicated_partition", behind] == 1
    assert samples["kafka_server_replicamanager_underreplicatedpartitions", ()] == 1
    assert samples["kafka_server_replicamanager_underminisrpartitioncount", ()] == 1
    assert samples["kafka_server_replicamanager_partitioncount", ()] == 1
    assert samples["kafka_controller_kafkacontroller_globalpartitioncount", ()] == 2
    await stop_parts(parts)


def test_errors_are_told_by_kind() -> None:
    metrics = BrokerMetrics()
    metrics.record_error("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    metrics.record_error("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    metrics.record_unexpected_error("Fetch")
    assert metrics.known_errors == {("Produce", "NOT_LEADER_OR_FOLLOWER"): 2}
    assert metrics.unexpected_errors == {"Fetch": 1}


@pytest.mark.parametrize(("value", "bucket"), [(0.0, 0), (1.0, 0), (1.1, 1), (10.0, 1), (10.1, 2), (1e9, 2)])
def test_a_value_falls_into_the_bucket_whose_bound_it_does_not_pass(value: float, bucket: int) -> None:
    histogram = Histogram((1.0, 10.0))
    histogram.observe(value)
    assert histogram.counts.index(1) == bucket
    assert histogram.cumulative()[-1] == ("+Inf", 1.0)
    assert (histogram.count, histogram.total) == (1, value)


def test_a_copy_stays_as_it_was() -> None:
    metrics = BrokerMetrics()
    request = metrics.request("Fetch", 18)
    assert list(metrics.nonempty_requests()) == []
    request.record(11, received_at=1.0, started_at=1.1, returned_at=1.3, answered_at=1.3)
    copy = request.local_time.copy()
    request.record(11, received_at=1.0, started_at=1.1, returned_at=1.3, answered_at=1.3)
    assert (copy.count, request.local_time.count) == (1, 2)
    assert request.counts_by_version[11] == 2
    assert list(metrics.nonempty_requests()) == [request]


def test_the_times_of_a_request_add_up_and_only_one_that_waited_has_a_remote_time() -> None:
    request = BrokerMetrics().request("Fetch", 18)
    request.record(11, received_at=1.0, started_at=1.25, returned_at=1.5, answered_at=1.5)
    assert (request.queue_time.total, request.local_time.total, request.total_time.total) == (250, 250, 500)
    assert request.remote_time.count == 0
    request.record(11, received_at=1.0, started_at=1.25, returned_at=1.5, answered_at=3.0)
    assert (request.remote_time.total, request.total_time.total) == (1500, 2500)
    assert request.total_time.count == request.local_time.count == request.queue_time.count == 2


def test_the_sum_over_topics_has_every_number() -> None:
    metrics = BrokerMetrics()
    for weight, topic in enumerate((metrics.any_topic, metrics.topic("a"), metrics.topic("b")), 1):
        for name in TopicMetrics.__slots__:
            setattr(topic, name, weight)
    total = metrics.all_topics()
    assert {getattr(total, name) for name in TopicMetrics.__slots__} == {6}


def test_counting_software_goes_back_to_nothing() -> None:
    metrics = BrokerMetrics()
    metrics.client_connected(("soft", "1"))
    metrics.client_disconnected(("soft", "1"))
    metrics.client_disconnected(("soft", "1"))
    assert metrics.client_software == {}


def test_a_start_does_not_import_what_only_a_scrape_needs() -> None:
    code = (
        "import sys, tailrace.broker.server; print([m for m in sys.modules if m.startswith(('prometheus', 'wsgiref'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
