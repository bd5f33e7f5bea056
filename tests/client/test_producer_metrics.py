"""What a producer counts, as a scrape of the user's registry shows it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from tailrace.client.producer import Producer
from tailrace.protocol.error_codes import ErrorCode
from tests.client.scripted_cluster import drive
from tests.client.scripted_coordinator import TransactionalSetup
from tests.client.scripted_log import Setup


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"tailrace_producer_{name}", {"client_id": "tailrace", **labels})


async def test_records_batches_and_requests_are_counted() -> None:
    registry = CollectorRegistry()
    setup = Setup(partitions=1, metrics=registry)
    for number in range(10):
        await setup.producer.send("flights", b"%d" % number)
    await drive(setup.clock, setup.producer.flush())
    assert value(registry, "records_total", topic="flights") == 10
    assert value(registry, "batches_total", topic="flights") == 1
    assert value(registry, "bytes_total", topic="flights") == setup.log.headers[0][1].size
    assert value(registry, "record_errors_total", topic="flights") == 0
    assert value(registry, "queue_seconds_count") == 1
    assert value(registry, "request_seconds_count", broker="0") == 1
    assert value(registry, "requests_in_flight", broker="0") == 0
    assert value(registry, "buffer_available_bytes") == value(registry, "buffer_bytes") == 33_554_432
    await drive(setup.clock, setup.producer.close())
    assert value(registry, "records_total", topic="flights") is None, "a closed producer has no values"


async def test_retries_and_errors_are_counted_by_records() -> None:
    registry = CollectorRegistry()
    setup = Setup(partitions=1, metrics=registry)
    setup.log.errors = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_RECORD]
    await setup.producer.send_batch("flights", [b"1", b"2", b"3"])
    await drive(setup.clock, setup.producer.flush())
    assert value(registry, "record_retries_total", topic="flights") == 3
    assert value(registry, "record_errors_total", topic="flights") == 3
    assert value(registry, "records_total", topic="flights") == 0
    await drive(setup.clock, setup.producer.close())


async def test_time_is_the_clients_clock() -> None:
    registry = CollectorRegistry()
    setup = Setup(partitions=1, metrics=registry, linger_ms=40)
    await setup.producer.send("flights", b"v")
    await setup.clock.advance_async(30)
    assert value(registry, "queue_seconds_count") == 0
    await setup.clock.advance_async(20)
    assert value(registry, "queue_seconds_bucket", le="0.05") == 1
    assert value(registry, "queue_seconds_bucket", le="0.025") == 0
    await drive(setup.clock, setup.producer.close())


async def test_several_producers_share_a_registry() -> None:
    registry = CollectorRegistry()
    first, second = Setup(metrics=registry), Setup(metrics=registry)
    second.cluster.client_id = first.cluster.client_id = "tailrace"
    third: Producer[bytes, bytes] = Producer(bootstrap_servers="nowhere:1", client_id="third", metrics=registry)
    text = generate_latest(registry).decode()
    assert text.count("# TYPE tailrace_producer_buffer_bytes gauge") == 1
    assert 'tailrace_producer_buffer_bytes{client_id="third"}' in text
    await third.close()
    assert 'client_id="third"' not in generate_latest(registry).decode()
    for setup in (first, second):
        await drive(setup.clock, setup.producer.close())


async def test_transactions_are_counted_by_outcome() -> None:
    registry = CollectorRegistry()
    setup = TransactionalSetup(metrics=registry)
    await drive(setup.clock, setup.producer.init_transactions())
    for outcome in ("commit", "commit", "abort"):
        await setup.producer.begin_transaction()
        await setup.producer.send("flights", b"v")
        ended = setup.producer.commit_transaction if outcome == "commit" else setup.producer.abort_transaction
        await drive(setup.clock, ended())
    assert value(registry, "transactions_total", outcome="committed") == 2
    assert value(registry, "transactions_total", outcome="aborted") == 1
    await drive(setup.clock, setup.producer.close())


async def test_nothing_is_counted_without_a_registry() -> None:
    setup = Setup()
    assert setup.producer._sender._metrics is None
    await drive(setup.clock, setup.producer.close())
