"""`__consumer_offsets` as a file: Kafka's tool reads what Tailrace wrote, and Tailrace what Kafka wrote."""

from __future__ import annotations

import re
import time
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.testing.apache_kafka import ApacheKafka, run_tool, unavailable
from tailrace.testing.broker_process import BrokerProcess
from tests.compat.test_groups import COUNT, PARTITIONS, SETTINGS, Member, expect_while_polling, produce

pytestmark = [pytest.mark.slow, pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))]

TOPIC = "read-by-a-group"


def consume_and_commit(servers: str) -> str:
    """Let a group read a topic and commit; a simple consumer commits, too. Give the group's member id."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    produce(servers, TOPIC, COUNT)
    with closing(Member(servers, "static-group", TOPIC, group_instance_id="one", session_timeout_ms=300000)) as member:
        expect_while_polling([member], lambda: len(member.values) == COUNT)
        member.consumer.commit(asynchronous=False)
        member_id: str = member.consumer.memberid()
    offset = confluent_kafka.TopicPartition(TOPIC, 1, 7, metadata="by hand")
    request = confluent_kafka.ConsumerGroupTopicPartitions("simple", [offset])
    admin.alter_consumer_group_offsets([request])["simple"].result(30)
    return member_id


def test_kafkas_decoder_reads_offsets_and_groups(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        member_id = consume_and_commit(broker.bootstrap_servers)
        assert broker.stop() == 0
        logs = [log for log in sorted(broker.data_dir.glob("__consumer_offsets-*/*.log")) if log.stat().st_size]
        assert len(logs) == 2
        dumped = run_tool(
            "kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", ",".join(map(str, logs))
        ).stdout
    assert '"generation":1' in dumped
    assert f'"memberId":"{member_id}","groupInstanceId":"one"' in dumped
    assert f'"group":"static-group","topic":"{TOPIC}","partition":3' in dumped
    assert '"offset":7,"leaderEpoch":-1,"metadata":"by hand' in dumped
    assert not re.search(r"isvalid: false|Unknown|Exception", dumped)


def test_a_group_of_kafkas_goes_on_here(tmp_path: Path) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", SETTINGS)
    kafka.start()
    member_id = consume_and_commit(kafka.bootstrap_servers)
    kafka.stop()
    broker = BrokerProcess(tmp_path / "tailrace", SETTINGS)
    broker.data_dir = kafka.data_dir
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        deadline = time.monotonic() + 30
        described = admin.describe_consumer_groups(["static-group"])["static-group"].result(30)
        assert time.monotonic() < deadline
        assert described.state.name == "STABLE"
        assert [m.member_id for m in described.members] == [member_id]
        with closing(Member(broker.bootstrap_servers, "static-group", TOPIC, group_instance_id="one")) as member:
            produce(broker.bootstrap_servers, TOPIC, 8)
            expect_while_polling([member], lambda: len(member.values) == 8)
            assert member.consumer.memberid() != member_id
        request = confluent_kafka.ConsumerGroupTopicPartitions("simple")
        (offset,) = admin.list_consumer_group_offsets([request])["simple"].result(30).topic_partitions
        assert (offset.partition, offset.offset, offset.metadata.rstrip("\0")) == (1, 7, "by hand")
