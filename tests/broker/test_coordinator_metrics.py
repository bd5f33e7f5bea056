"""What /metrics of a running broker tells of groups, transactions and compaction, while clients use them."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tailrace.testing.broker_process import BrokerProcess
from tests.waiting import wait_for

pytestmark = pytest.mark.xdist_group("coordinator_metrics")

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.backoff.ms": "50",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), SETTINGS) as process:
        yield process


def sample(broker: BrokerProcess, name: str, **labels: str) -> float | None:
    """One number of a scrape; None where it is not told."""
    with urllib.request.urlopen(broker.metrics_url, timeout=10) as response:
        text = response.read().decode()
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.name == name and one.labels == labels:
                return one.value
    return None


def create(broker: BrokerProcess, name: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2, 1, config=config)])[name].result(30)


def produce(broker: BrokerProcess, topic: str, count: int, *, value: bytes = b"v") -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, value, key=b"k", partition=number % 2)
    assert producer.flush(30) == 0


def test_a_groups_members_offsets_lag_and_rebalances_are_told(broker: BrokerProcess) -> None:
    create(broker, "read")
    produce(broker, "read", 20)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.subscribe(["read"])
    wait_for(lambda: [consumer.poll(0.1), len(consumer.assignment())][1] == 2, "two partitions")
    consumer.commit(offsets=[confluent_kafka.TopicPartition("read", 1, 4)], asynchronous=False)
    group, partition = {"consumergroup": "readers"}, {"consumergroup": "readers", "topic": "read", "partition": "1"}
    assert sample(broker, "kafka_consumergroup_members", **group) == 1
    assert sample(broker, "kafka_consumergroup_current_offset", **partition) == 4
    assert sample(broker, "kafka_consumergroup_lag", **partition) == 6
    assert sample(broker, "kafka_consumergroup_current_offset_sum", **group, topic="read") == 4
    assert sample(broker, "kafka_consumergroup_lag_sum", **group, topic="read") == 6
    coordinator = "kafka_server_group_coordinator_metrics"
    assert sample(broker, f"{coordinator}_group_count", protocol="classic", state="Stable") == 1
    assert sample(broker, "kafka_coordinator_group_groupmetadatamanager_numgroupsstable") == 1
    assert sample(broker, f"{coordinator}_group_completed_rebalance_total") == 1
    consumer.close()
    wait_for(lambda: sample(broker, f"{coordinator}_group_count", protocol="classic", state="Empty") == 1)
    assert sample(broker, "kafka_consumergroup_members", **group) == 0


def test_transactions_are_told_by_state(broker: BrokerProcess) -> None:
    create(broker, "written")
    states = "tailrace_transactional_ids"
    assert sample(broker, states, state="Ongoing") == 0
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "id"})
    producer.init_transactions(30)
    assert sample(broker, states, state="Empty") == 1
    producer.begin_transaction()
    producer.produce("written", b"v")
    assert producer.flush(30) == 0
    assert sample(broker, states, state="Ongoing") == 1
    producer.commit_transaction(30)
    wait_for(lambda: sample(broker, states, state="CompleteCommit") == 1)


def test_compaction_is_told_while_it_goes_on(broker: BrokerProcess) -> None:
    create(broker, "compacted", **{"cleanup.policy": "compact", "segment.bytes": "1048576"})
    produce(broker, "compacted", 300, value=bytes(10_000))
    wait_for(lambda: (sample(broker, "tailrace_log_cleaner_cleanings_total") or 0) > 0, "a log was cleaned")
    read, written = (sample(broker, f"tailrace_log_cleaner_{what}_bytes_total") for what in ("read", "written"))
    assert read is not None
    assert written is not None
    assert read > written
    assert sample(broker, "kafka_log_logcleanermanager_max_dirty_percent") is not None
    assert sample(broker, "kafka_log_logcleaner_cleaner_recopy_percent") is not None
