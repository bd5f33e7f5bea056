"""Records go in by one client and come out by another, in every codec, whole and in order."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.compat.clients import CLIENTS, Client, Received, Sent

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW_MS = int(time.time() * 1000)


def sample(count: int, seed: int) -> list[Sent]:
    chance = random.Random(seed)
    return [
        Sent(
            value=None
            if number % 17 == 5
            else chance.randbytes(chance.randrange(300)) + b"tail" * chance.randrange(50),
            key=None if number % 3 == 0 and number % 17 != 5 else b"key-%d" % number,
            headers=(("n", b"%d" % number), ("empty", b"")) if number % 4 == 0 else (),
            timestamp_ms=NOW_MS + number,
        )
        for number in range(count)
    ]


def expected(records: list[Sent], first: int = 0) -> list[Received]:
    return [Received(first + at, record.value, record.key, record.headers) for at, record in enumerate(records)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_reads_back_what_it_wrote(
    servers: str, make_topic: Callable[..., str], client: Client, codec: str
) -> None:
    topic = make_topic()
    records = sample(500, seed=1)
    offsets = client.produce(servers, topic, records, **{"compression.type": codec})
    assert sorted(offsets) == list(range(500))
    received = client.consume(servers, topic, 500)
    assert received == expected(records)
    assert [r.timestamp_ms for r in received] == [r.timestamp_ms for r in records]


@pytest.mark.parametrize("writer", CLIENTS, ids=lambda client: f"from-{client.name}")
@pytest.mark.parametrize("reader", CLIENTS, ids=lambda client: f"to-{client.name}")
def test_clients_read_each_other(servers: str, make_topic: Callable[..., str], writer: Client, reader: Client) -> None:
    topic = make_topic(partitions=2)
    records = [Sent(r.value, r.key, r.headers, r.timestamp_ms, partition=1) for r in sample(200, seed=2)]
    writer.produce(servers, topic, records, **{"compression.type": "zstd"})
    assert reader.consume(servers, topic, 200, partition=1) == expected(records)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_reading_from_the_middle_of_a_batch_begins_at_the_offset(
    servers: str, make_topic: Callable[..., str], client: Client
) -> None:
    topic = make_topic()
    records = sample(300, seed=3)
    client.produce(servers, topic, records, **{"compression.type": "lz4"})
    assert client.consume(servers, topic, 50, offset=250) == expected(records)[250:]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_broker_recompresses_to_the_codec_of_the_topic(
    servers: str, make_topic: Callable[..., str], client: Client, codec: str
) -> None:
    topic = make_topic(compression_type={"none": "uncompressed"}.get(codec, codec))
    records = sample(200, seed=4)
    client.produce(servers, topic, records, **{"compression.type": "gzip"})
    assert client.consume(servers, topic, 200) == expected(records)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_log_append_time_is_the_brokers(servers: str, make_topic: Callable[..., str], client: Client) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    client.produce(servers, topic, [Sent(b"old", timestamp_ms=1_000_000), Sent(b"older", timestamp_ms=1)])
    received = client.consume(servers, topic, 2)
    assert [r.value for r in received] == [b"old", b"older"]
    assert all(before <= r.timestamp_ms <= time.time() * 1000 for r in received)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_kind_of_acknowledgement(servers: str, make_topic: Callable[..., str], client: Client, acks: str) -> None:
    topic = make_topic()
    records = sample(100, seed=5)
    options = {"acks": acks if client.name == "confluent-kafka" or acks == "all" else int(acks)}
    if client.name != "aiokafka":
        options["enable.idempotence"] = acks == "all"
    try:
        client.produce(servers, topic, records, **options)
    except (AttributeError, ValueError):  # aiokafka gives no metadata for acks=0
        assert acks == "0"
    assert client.consume(servers, topic, 100) == expected(records)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_large_messages(servers: str, make_topic: Callable[..., str], client: Client) -> None:
    topic = make_topic(max_message_bytes="10000000")
    chance = random.Random(6)
    records = [Sent(chance.randbytes(size)) for size in (900_000, 5_000_000, 1, 8_000_000)]
    limit = {
        "confluent-kafka": {"message.max.bytes": 10_000_000},
        "kafka-python": {"max.request.size": 10_000_000},
        "aiokafka": {"max.request.size": 10_000_000},
    }[client.name]
    client.produce(servers, topic, records, **limit)
    assert client.consume(servers, topic, 4) == expected(records)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_message_over_the_topics_limit_is_refused_by_name(
    servers: str, make_topic: Callable[..., str], client: Client
) -> None:
    topic = make_topic(max_message_bytes="2000")
    with pytest.raises(Exception, match=r"(?i)(size|large)"):
        client.produce(servers, topic, [Sent(random.Random(7).randbytes(4000))])
    client.produce(servers, topic, [Sent(b"small")])
    assert [r.value for r in client.consume(servers, topic, 1)] == [b"small"]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_an_idempotent_producer_writes_each_record_once(
    servers: str, make_topic: Callable[..., str], client: Client
) -> None:
    topic = make_topic()
    records = [Sent(b"%d" % number) for number in range(3000)]
    client.produce(servers, topic, records, **{"enable.idempotence": True, "acks": "all"})
    assert [r.value for r in client.consume(servers, topic, 3000)] == [r.value for r in records]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_topic_is_made_by_writing_to_it(servers: str, client: Client) -> None:
    topic = f"auto-{client.name}-{NOW_MS}"
    client.produce(servers, topic, [Sent(b"first")])
    assert [r.value for r in client.consume(servers, topic, 1)] == [b"first"]
