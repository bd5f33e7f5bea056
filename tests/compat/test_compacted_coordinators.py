"""Groups and transactions whose internal topics are compacted while they are used: nothing of them is forgotten."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.protocol.topic_partition import TopicPartition
from tailrace.storage.checkpoint_file import CLEANER_CHECKPOINT, OffsetCheckpointFile
from tailrace.storage.disk import Disk
from tailrace.testing.broker_process import BrokerProcess
from tests.storage.compaction_workshop import every_record
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

SETTINGS = {
    "log.roll.ms": "200",
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
OFFSETS, TRANSACTIONS = TopicPartition("__consumer_offsets", 0), TopicPartition("__transaction_state", 0)
ROUNDS = 40


def clean_until(broker: BrokerProcess, partition: TopicPartition) -> int:
    path = broker.data_dir / CLEANER_CHECKPOINT
    return OffsetCheckpointFile(Disk(), path).read().get(partition, 0) if path.exists() else 0


def offsets_of(servers: str, group: str, partitions: int) -> list[int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": group})
    asked = [confluent_kafka.TopicPartition("flights", number) for number in range(partitions)]
    found = [one.offset for one in consumer.committed(asked, 30)]
    consumer.close()
    return found


def test_offsets_and_transactions_are_there_after_compaction_and_kill(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers})
        admin.create_topics([NewTopic("flights", 3, 1)])["flights"].result(30)
        producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "copier"})
        producer.init_transactions(30)
        copier = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "copying"})
        plain = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "plain"})
        for number in range(1, ROUNDS + 1):
            for partition in range(3):
                position = confluent_kafka.TopicPartition("flights", partition, 10 * number + partition)
                plain.commit(offsets=[position], asynchronous=False)
            producer.begin_transaction()
            producer.produce("flights", b"%d" % number, b"key", partition=0)
            is_aborted = number % 5 == 0
            position = confluent_kafka.TopicPartition("flights", 1, 1_000_000 if is_aborted else number)
            producer.send_offsets_to_transaction([position], copier.consumer_group_metadata(), 30)
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(30)
            plain.poll(0.05)  # Time goes by, so that segments roll.
        # The newest segments stay as they are: only what lies before them is clean.
        wait_for(lambda: clean_until(broker, OFFSETS) > 3 * ROUNDS and clean_until(broker, TRANSACTIONS) > ROUNDS)
        broker.kill()
        directory = broker.data_dir / str(OFFSETS)
        assert len(every_record(directory)) < 3 * ROUNDS  # of 5 * ROUNDS, of which the last 2 may not be clean yet

        broker.start()
        assert offsets_of(servers, "plain", 3) == [10 * ROUNDS, 10 * ROUNDS + 1, 10 * ROUNDS + 2]
        assert offsets_of(servers, "copying", 3)[1] == ROUNDS - 1
        described = admin.list_consumer_groups().result(30)
        assert {one.group_id for one in described.valid} >= {"plain", "copying"}
        again = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "copier"})
        again.init_transactions(30)
        producer.begin_transaction()
        producer.produce("flights", b"late", b"key")
        with pytest.raises(confluent_kafka.KafkaException, match=r"fenced|epoch|INVALID"):
            producer.commit_transaction(30)
        again.begin_transaction()
        again.produce("flights", b"last", b"key", partition=0)
        again.commit_transaction(30)
        reader = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "reader"})
        reader.assign([confluent_kafka.TopicPartition("flights", 0, 0)])
        values: list[bytes | None] = []
        wait_for(lambda: values.extend(one.value() for one in reader.consume(50, 1)) or b"last" in values)
        assert values == [b"%d" % number for number in range(1, ROUNDS + 1) if number % 5] + [b"last"]
        for consumer in (copier, plain, reader):
            consumer.close()
