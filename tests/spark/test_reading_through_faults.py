"""A broker that is killed and comes back in the middle of a range: the task reads on, and each record comes once."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.client_config import ConsumerConfig
from tailrace.spark.cluster_client import ClusterClient
from tailrace.spark.offset_ranges import OffsetRange
from tailrace.spark.range_reader import RangeSettings, read_range
from tailrace.testing.broker_process import BrokerProcess
from tests.spark.topics import Topics

COUNT = 3_000


def test_a_range_is_read_whole_although_its_broker_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        topics = Topics(broker.bootstrap_servers)
        topic = topics.create(1)
        topics.send(topic, [f"{n:04}" for n in range(COUNT)], batch_size=2_000)
        client = ClusterClient(
            ConsumerConfig({"bootstrap.servers": broker.bootstrap_servers, "max.partition.fetch.bytes": "4000"})
        )
        spans: list[tuple[int, int]] = []
        try:
            pieces = read_range(client, OffsetRange(TopicPartition(topic, 0), 0, COUNT), RangeSettings(60_000, True))
            for number, piece in enumerate(pieces):
                spans.append((piece.first, piece.walked.next_offset))
                if number == 3:
                    broker.kill()
                    broker.start()
        finally:
            client.close()
        assert len(spans) > 10
        assert spans[0][0] == 0
        assert spans[-1][1] == COUNT
        assert all(before[1] == after[0] for before, after in pairwise(spans))


def test_an_iterator_that_is_given_up_stops_fetching(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, [f"{n:04}" for n in range(COUNT)], batch_size=2_000)
    client = ClusterClient(
        ConsumerConfig({"bootstrap.servers": topics.bootstrap_servers, "max.partition.fetch.bytes": "4000"})
    )
    pieces = read_range(client, OffsetRange(TopicPartition(topic, 0), 0, COUNT), RangeSettings(60_000, True))
    assert next(pieces).first == 0
    pieces.close()
    again = list(read_range(client, OffsetRange(TopicPartition(topic, 0), 0, COUNT), RangeSettings(60_000, True)))
    assert sum(piece.walked.records_count for piece in again) == COUNT
    client.close()
    assert not client.is_alive
