"""Topics, configurations and records, administered by unmodified admin clients."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import confluent_kafka
import kafka.admin
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.compat.clients import ConfluentKafka, Sent
from tests.waiting import wait_for

TOPIC = ConfigResource.Type.TOPIC
BROKER = ConfigResource.Type.BROKER


def only(futures: dict[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    return future.result(30)


def fails_with(futures: dict[Any, Future[Any]]) -> int:
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        only(futures)
    return int(caught.value.args[0].code())


def config_of(admin: AdminClient, topic: str) -> dict[str, str]:
    entries = only(admin.describe_configs([ConfigResource(TOPIC, topic)]))
    return {name: entry.value for name, entry in entries.items()}


def alter(admin: AdminClient, topic: str, name: str, value: str | None, how: AlterConfigOpType) -> None:
    entry = ConfigEntry(name, value, incremental_operation=how)
    only(admin.incremental_alter_configs([ConfigResource(TOPIC, topic, incremental_configs=[entry])]))


def test_a_topic_is_created_described_and_deleted(admin: AdminClient, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=3, retention_ms="3600000")
    (described,) = (
        future.result(30) for future in admin.describe_topics(confluent_kafka.TopicCollection([topic])).values()
    )
    assert [p.id for p in described.partitions] == [0, 1, 2]
    assert all(len(p.isr) == 1 and p.leader is not None for p in described.partitions)
    assert str(described.topic_id) != ""
    assert config_of(admin, topic)["retention.ms"] == "3600000"
    only(admin.delete_topics([topic]))
    wait_for(lambda: topic not in admin.list_topics().topics)


def test_a_topic_that_is_there_is_not_created_again(admin: AdminClient, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    code = fails_with(admin.create_topics([NewTopic(topic, 1, 1)]))
    assert code == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("bad name!", 1, 1), confluent_kafka.KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), confluent_kafka.KafkaError.TOPIC_EXCEPTION),
        (NewTopic("none", 0, 1), confluent_kafka.KafkaError.INVALID_PARTITIONS),
        (NewTopic("many", 1, 3), confluent_kafka.KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("odd", 1, 1, config={"retention.ms": "soon"}), confluent_kafka.KafkaError.INVALID_CONFIG),
        (NewTopic("odder", 1, 1, config={"no.such.key": "1"}), confluent_kafka.KafkaError.INVALID_CONFIG),
    ],
    ids=lambda value: value.topic[:10] if isinstance(value, NewTopic) else "",
)
def test_a_topic_that_cannot_be_is_refused(admin: AdminClient, topic: NewTopic, code: int) -> None:
    if topic.num_partitions == 0:
        with pytest.raises(Exception, match=r"(?i)partition"):
            only(admin.create_topics([topic]))
        return
    assert fails_with(admin.create_topics([topic])) == code
    assert topic.topic not in admin.list_topics().topics


def test_validate_only_creates_nothing(admin: AdminClient) -> None:
    only(admin.create_topics([NewTopic("only-validated", 1, 1)], validate_only=True))
    assert "only-validated" not in admin.list_topics().topics


def test_partitions_are_added(admin: AdminClient, make_topic: Callable[..., str], servers: str) -> None:
    topic = make_topic(partitions=1)
    only(admin.create_partitions([NewPartitions(topic, 4)]))
    wait_for(lambda: len(admin.list_topics(topic).topics[topic].partitions) == 4)
    assert ConfluentKafka().produce(servers, topic, [Sent(b"new", partition=3)]) == [0]
    assert fails_with(admin.create_partitions([NewPartitions(topic, 2)])) == 37


def test_the_four_operations_on_a_configuration(admin: AdminClient, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    alter(admin, topic, "retention.ms", "7200000", AlterConfigOpType.SET)
    assert config_of(admin, topic)["retention.ms"] == "7200000"
    alter(admin, topic, "cleanup.policy", "compact", AlterConfigOpType.APPEND)
    assert set(config_of(admin, topic)["cleanup.policy"].split(",")) == {"delete", "compact"}
    alter(admin, topic, "cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    assert config_of(admin, topic)["cleanup.policy"] == "compact"
    alter(admin, topic, "retention.ms", None, AlterConfigOpType.DELETE)
    assert config_of(admin, topic)["retention.ms"] == "604800000"


def test_a_configuration_out_of_range_is_refused_and_nothing_changes(
    admin: AdminClient, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        alter(admin, topic, "min.insync.replicas", "0", AlterConfigOpType.SET)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.INVALID_CONFIG
    assert "min.insync.replicas" in caught.value.args[0].str()
    assert config_of(admin, topic)["min.insync.replicas"] == "1"


def test_every_topic_setting_is_listed_with_its_default(admin: AdminClient, make_topic: Callable[..., str]) -> None:
    config = config_of(admin, make_topic())
    assert len(config) >= 30
    assert config["cleanup.policy"] == "delete"
    assert config["max.message.bytes"] == "1048588"
    assert config["segment.bytes"] == "1073741824"
    assert config["compression.type"] == "producer"


def test_the_brokers_settings_are_listed(admin: AdminClient) -> None:
    node = min(admin.list_topics().brokers)
    entries = only(admin.describe_configs([ConfigResource(BROKER, str(node))]))
    assert len(entries) > 200
    assert entries["num.partitions"].value == "1"
    assert entries["log.segment.bytes"].value == "1073741824"


def test_the_cluster_is_described(admin: AdminClient, server: Any) -> None:
    cluster = admin.describe_cluster().result(30)
    assert len(cluster.cluster_id) == 22
    assert [(node.host, node.port) for node in cluster.nodes] == [("127.0.0.1", server.port)]
    assert cluster.controller.id == cluster.nodes[0].id


def test_records_are_deleted_up_to_an_offset(admin: AdminClient, make_topic: Callable[..., str], servers: str) -> None:
    topic = make_topic()
    ConfluentKafka().produce(servers, topic, [Sent(b"%d" % n) for n in range(50)])
    deleted = only(admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 30)]))
    assert deleted.low_watermark == 30
    assert [r.offset for r in ConfluentKafka().consume(servers, topic, 20, offset=30)] == list(range(30, 50))
    earliest = only(admin.list_offsets({confluent_kafka.TopicPartition(topic, 0): OffsetSpec.earliest()}))
    assert earliest.offset == 30


def test_offsets_for_times_find_the_first_record_at_or_after(
    admin: AdminClient, make_topic: Callable[..., str], servers: str
) -> None:
    topic = make_topic()
    now = int(time.time() * 1000)
    first = now - 1_000_000
    ConfluentKafka().produce(servers, topic, [Sent(b"%d" % n, timestamp_ms=first + 1000 * n) for n in range(100)])
    consumer = kafka.KafkaConsumer(bootstrap_servers=servers)
    try:
        partition = kafka.TopicPartition(topic, 0)
        for asked, offset in [(first, 0), (first + 1, 1), (first + 50_000, 50), (first + 99_000, 99)]:
            found = consumer.offsets_for_times({partition: asked})[partition]
            assert (found.offset, found.timestamp) == (offset, first + 1000 * offset)
        assert consumer.offsets_for_times({partition: now})[partition] is None
    finally:
        consumer.close()
    largest = only(admin.list_offsets({confluent_kafka.TopicPartition(topic, 0): OffsetSpec.max_timestamp()}))
    assert (largest.offset, largest.timestamp) == (99, first + 99_000)


def test_fifty_topics_of_twenty_partitions(admin: AdminClient, servers: str) -> None:
    names = [f"wide-{number}" for number in range(50)]
    for future in admin.create_topics([NewTopic(name, 20, 1) for name in names]).values():
        future.result(60)
    wait_for(lambda: set(names) <= set(admin.list_topics().topics))
    records = [Sent(b"%d" % n, partition=n % 20) for n in range(200)]
    for name in names[::10]:
        assert len(ConfluentKafka().produce(servers, name, records)) == 200
        assert [r.value for r in ConfluentKafka().consume(servers, name, 10, partition=7)] == [
            b"%d" % n for n in range(7, 200, 20)
        ]
    for future in admin.delete_topics(names).values():
        future.result(60)
    wait_for(lambda: not set(names) & set(admin.list_topics().topics))


def test_kafka_python_administers_too(servers: str) -> None:
    client = kafka.admin.KafkaAdminClient(bootstrap_servers=servers)
    try:
        client.create_topics([kafka.admin.NewTopic("by-kafka-python", 2, 1)])
        wait_for(lambda: "by-kafka-python" in client.list_topics())
        client.delete_topics(["by-kafka-python"])
        wait_for(lambda: "by-kafka-python" not in client.list_topics())
        assert client.describe_cluster()["brokers"]
    finally:
        client.close()
