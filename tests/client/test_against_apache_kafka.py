"""The client and the record formats against Apache Kafka itself, which is the judge of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tailrace.client.admin import Admin, AlterOperation, ConfigChange, NewTopic, ResourceType
from tailrace.client.cluster import Cluster
from tailrace.client.consumer import LATEST, Consumer
from tailrace.client.offsets import MAX_TIMESTAMP, list_offsets
from tailrace.client.producer import Producer
from tailrace.protocol.errors import ApiError
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import AdminConfig
from tailrace.testing.apache_kafka import ApacheKafka, unavailable

pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]

COUNT = 5_000


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    with ApacheKafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
async def cluster(kafka: ApacheKafka) -> AsyncIterator[Cluster]:
    async with Cluster(AdminConfig({"bootstrap_servers": kafka.bootstrap_servers})) as connected:
        yield connected


@pytest.mark.parametrize("stored", ["producer", "uncompressed"])
@pytest.mark.parametrize("codec", Compression)
async def test_every_codec_is_stored_and_decompressed_by_kafka(
    cluster: Cluster, codec: Compression, stored: str
) -> None:
    topic = f"{codec.label}-{stored}"
    created = await Admin(cluster).create_topics([NewTopic(topic, 2, 1, {"compression.type": stored})])
    assert created == {topic: None}
    async with Producer(cluster=cluster, compression_type=codec.label) as producer:
        deliveries = [
            await producer.send(topic, b"value %d " % n * 10, key=b"%d" % n, headers=[("h", b"x")])
            for n in range(COUNT)
        ]
    assert all(delivery.result().offset >= 0 for delivery in deliveries)
    keys = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    ends = await list_offsets(cluster, dict.fromkeys(keys, LATEST))
    assert sum(end.offset for end in ends.values()) == COUNT
    assert all(
        found.timestamp > 0 for found in (await list_offsets(cluster, dict.fromkeys(keys, MAX_TIMESTAMP))).values()
    )
    seen: set[bytes | None] = set()
    async with Consumer(cluster=cluster, auto_offset_reset="earliest") as consumer:
        consumer.assign(keys)
        while len(seen) < COUNT:
            records = await consumer.poll(timeout_ms=10_000)
            assert records, "nothing came for ten seconds"
            seen.update(record.value for record in records)
    assert seen == {b"value %d " % n * 10 for n in range(COUNT)}


async def test_topics_are_administered(cluster: Cluster) -> None:
    admin = Admin(cluster)
    await admin.create_topics([NewTopic("administered", 1, 1)])
    await admin.alter_configs(
        ResourceType.TOPIC, "administered", [ConfigChange("cleanup.policy", "compact", AlterOperation.APPEND)]
    )
    entries = (await admin.describe_configs(ResourceType.TOPIC, ["administered"], keys=["cleanup.policy"]))[
        "administered"
    ]
    assert not isinstance(entries, ApiError)
    assert [entry.value for entry in entries] == ["delete,compact"]
    assert await admin.create_partitions({"administered": 3}) == {"administered": None}
    (directory,) = await admin.describe_log_dirs(1)
    assert directory.error is None
    assert {replica.topic_partition for replica in directory.replicas} >= {TopicPartition("administered", 0)}
    assert await admin.delete_topics(["administered"]) == {"administered": None}
