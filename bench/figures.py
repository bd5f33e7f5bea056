"""The figures of the table in DESIGN: each function measures one broker once, with librdkafka as the client."""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from bench.process_figures import cpu_seconds
from tailrace.testing.apache_kafka import ApacheKafka
from tailrace.testing.broker_process import BrokerProcess

Server = BrokerProcess | ApacheKafka
DEADLINE_S = 60

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Scale:
    """How much one measurement does."""

    requests: int = 60_000
    synchronous: int = 500
    end_to_end: int = 250
    megabytes: int = 300
    commits: int = 100


def make_topic(server: Server) -> str:
    """Create a topic of one partition and wait until it has a leader."""
    name = f"bench-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    # A broker that is busy may not know of the partition yet, let alone of its leader.
    while (partition := admin.list_topics(name).topics[name].partitions.get(0)) is None or partition.leader < 0:
        assert time.monotonic() < deadline, f"{name} has no leader"
    return name


def producer(server: Server, **options: Any) -> confluent_kafka.Producer:
    """A librdkafka producer without idempotence, acks=all."""
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "acks": "all",
            "linger.ms": 0,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            **options,
        }
    )


def one_record_requests(server: Server, scale: Scale) -> dict[str, float]:
    """Pipelined produce requests of one record of 100 B each: requests/s and the broker's CPU µs a request."""
    topic = make_topic(server)
    client = producer(server, **{"batch.num.messages": 1, "max.in.flight": 50})
    value = b"x" * 100
    client.produce(topic, value, partition=0)
    client.flush(DEADLINE_S)
    cpu, started = cpu_seconds(server.pid), time.perf_counter()
    for number in range(scale.requests):
        client.produce(topic, value, partition=0)
        if number % 1000 == 0:
            client.poll(0)
    assert client.flush(DEADLINE_S) == 0
    elapsed = time.perf_counter() - started
    cpu = cpu_seconds(server.pid) - cpu
    return {"requests_s": scale.requests / elapsed, "cpu_us_a_request": cpu / scale.requests * 1e6}


def synchronous_produce(server: Server, scale: Scale) -> dict[str, float]:
    """One record at a time, waiting for each: the median latency in ms."""
    topic = make_topic(server)
    client = producer(server)
    latencies = []
    for _ in range(scale.synchronous):
        started = time.perf_counter()
        client.produce(topic, b"x" * 100, partition=0)
        client.flush(DEADLINE_S)
        latencies.append(time.perf_counter() - started)
    return {"synchronous_p50_ms": statistics.median(latencies) * 1000}


def end_to_end(server: Server, scale: Scale) -> dict[str, float]:
    """From `produce` in one client to `poll` in another: the median latency in ms."""
    topic = make_topic(server)
    client = producer(server)
    reader = consumer(server, topic)
    latencies = []
    for number in range(scale.end_to_end + 100):
        started = time.perf_counter()
        client.produce(topic, b"%d" % number, partition=0)
        message = reader.poll(DEADLINE_S)
        elapsed = time.perf_counter() - started
        assert message is not None
        assert message.value() == b"%d" % number
        client.poll(0)
        if number >= 100:
            latencies.append(elapsed)
    reader.close()
    return {"end_to_end_p50_ms": statistics.median(latencies) * 1000}


def consumer(server: Server, topic: str) -> confluent_kafka.Consumer:
    """A librdkafka consumer assigned to the topic's one partition, from its start."""
    reader = confluent_kafka.Consumer(
        {
            "bootstrap.servers": server.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            "queued.max.messages.kbytes": 200_000,
            "queued.min.messages": 1_000_000,
        }
    )
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    return reader


def bulk(server: Server, scale: Scale) -> dict[str, float]:
    """Produce and then consume records of 1 KB: MB/s, and the broker's CPU s/GB, each way."""
    topic = make_topic(server)
    count = scale.megabytes * 1000
    client = producer(server, **{"linger.ms": 5, "batch.size": 1_000_000})
    value = bytes(range(250)) * 4
    gigabytes = count * len(value) / 1e9
    cpu, started = cpu_seconds(server.pid), time.perf_counter()
    for number in range(count):
        client.produce(topic, value, partition=0)
        if number % 5000 == 0:
            client.poll(0)
    assert client.flush(DEADLINE_S) == 0
    figures = {
        "produce_mb_s": gigabytes * 1000 / (time.perf_counter() - started),
        "produce_cpu_s_a_gb": (cpu_seconds(server.pid) - cpu) / gigabytes,
    }
    reader = consumer(server, topic)
    cpu, started, received = cpu_seconds(server.pid), time.perf_counter(), 0
    while received < count:
        messages = reader.consume(10_000, timeout=DEADLINE_S)
        assert messages, f"{received} of {count} records came"
        received += len(messages)
    figures["consume_mb_s"] = gigabytes * 1000 / (time.perf_counter() - started)
    figures["consume_cpu_s_a_gb"] = (cpu_seconds(server.pid) - cpu) / gigabytes
    reader.close()
    return figures


MEASUREMENTS = (one_record_requests, synchronous_produce, end_to_end, bulk)
