"""A consumer when leaders change: followed, named by answers, truncated; and when a replica nearby is named."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.client.consumer import Consumer
from tailrace.client.errors import LogTruncated
from tailrace.protocol.api_keys import ApiKey
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tailrace.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tailrace.protocol.records.record import Record
from tailrace.protocol.records.writer import write_batch
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.testing.virtual_clock import VirtualClock
from tests.client.scripted_cluster import ScriptedCluster, drive, make_cluster

KEY = TopicPartition("flights", 0)


def batch(first: int, last: int, epoch: int = 1) -> bytes:
    records = [Record(offset, offset, None, b"%d" % offset) for offset in range(first, last + 1)]
    return bytes(write_batch(records, base_offset=first, leader_epoch=epoch))


class Replicas:
    """Two brokers that have one partition; who leads it, and what each answers, a test decides."""

    def __init__(self, **options: Any) -> None:
        self.scripted = ScriptedCluster(brokers=2, topics={"flights": 1})
        self.clock = VirtualClock()
        self.leader, self.epoch = 0, 1
        self.batches: list[tuple[int, bytes]] = [(4, batch(0, 4))]
        self.preferred = -1
        self.errors: dict[int, list[ErrorCode]] = {0: [], 1: []}
        self.names_leader = False
        self.ends: EpochEndOffset = EpochEndOffset(partition=0, leader_epoch=1, end_offset=5)
        self.fetched_from: list[int] = []
        self.scripted.scripts[ApiKey.METADATA] = self.metadata
        self.scripted.scripts[ApiKey.FETCH] = self.fetch
        self.scripted.scripts[ApiKey.OFFSET_FOR_LEADER_EPOCH] = self.offset_for_leader_epoch
        self.consumer: Consumer[bytes, bytes] = Consumer(
            cluster=make_cluster(self.scripted, self.clock, metadata_max_age_ms=5_000), **options
        )
        self.consumer.assign([KEY])
        self.consumer.seek(KEY, 0)

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        self.scripted.leaders[KEY] = self.leader
        response = self.scripted.answer_metadata(request)
        for topic in response.topics:
            for partition in topic.partitions:
                partition.leader_epoch = self.epoch
        return response

    def fetch(self, request: FetchRequest) -> FetchResponse:
        node_id = self.scripted.requests[-1][0]
        if not request.topics:
            return FetchResponse()
        (wanted,) = request.topics[0].partitions
        self.fetched_from.append(node_id)
        answer = PartitionData(partition_index=0, high_watermark=99, log_start_offset=0)
        nodes = []
        if self.errors[node_id]:
            answer.error_code = self.errors[node_id].pop(0)
        elif node_id != self.leader and self.preferred != node_id:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if self.names_leader:
                answer.current_leader = LeaderIdAndEpoch(leader_id=self.leader, leader_epoch=self.epoch)
                address = self.scripted.addresses[self.leader]
                nodes = [NodeEndpoint(node_id=self.leader, host=address.host, port=address.port)]
        elif self.preferred not in (-1, node_id) and request.rack_id:
            answer.preferred_read_replica = self.preferred
        else:
            answer.records = b"".join(data for last, data in self.batches if last >= wanted.fetch_offset)
        topic = request.topics[0]
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[answer])],
            node_endpoints=nodes,
        )

    def offset_for_leader_epoch(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="flights", partitions=[self.ends])]
        )

    async def poll(self, timeout_ms: int = 20_000) -> list[int]:
        return [record.offset for record in await drive(self.clock, self.consumer.poll(timeout_ms))]


async def test_a_leader_that_the_answer_names_is_asked_at_once() -> None:
    replicas = Replicas()
    assert await replicas.poll() == [0, 1, 2, 3, 4]
    asked = len(replicas.scripted.requests_of(MetadataRequest))
    replicas.batches.append((9, batch(5, 9, 2)))
    replicas.leader, replicas.epoch, replicas.names_leader = 1, 2, True
    started = replicas.clock.monotonic()
    assert await replicas.poll() == [5, 6, 7, 8, 9]
    assert replicas.fetched_from[-1] == 1
    assert replicas.clock.monotonic() - started < 1
    assert len(replicas.scripted.requests_of(MetadataRequest)) == asked
    validated = replicas.scripted.requests_of(OffsetForLeaderEpochRequest)
    assert [p.leader_epoch for r in validated for t in r.topics for p in t.partitions] == [1]
    await replicas.consumer.close()


async def test_a_leader_that_nobody_names_is_found_by_metadata() -> None:
    replicas = Replicas()
    assert await replicas.poll() == [0, 1, 2, 3, 4]
    replicas.batches.append((9, batch(5, 9, 2)))
    replicas.leader, replicas.epoch = 1, 2
    assert await replicas.poll() == [5, 6, 7, 8, 9]
    await replicas.consumer.close()


async def test_what_was_truncated_is_read_from_where_the_logs_part() -> None:
    replicas = Replicas(auto_offset_reset="earliest")
    assert await replicas.poll() == [0, 1, 2, 3, 4]
    replicas.ends = EpochEndOffset(partition=0, leader_epoch=1, end_offset=3)
    replicas.batches = [(2, batch(0, 2)), (6, batch(3, 6, 2))]
    replicas.leader, replicas.epoch = 1, 2
    assert await replicas.poll() == [3, 4, 5, 6]
    await replicas.consumer.close()


async def test_truncation_is_an_error_where_nothing_says_how_to_go_on() -> None:
    replicas = Replicas(auto_offset_reset="none")
    assert await replicas.poll() == [0, 1, 2, 3, 4]
    replicas.ends = EpochEndOffset(partition=0, leader_epoch=1, end_offset=3)
    replicas.leader, replicas.epoch = 1, 2
    with pytest.raises(LogTruncated, match="flights-0, offset 5 of leader epoch 1: the new leader's log parts from it"):
        await replicas.poll()
    await replicas.consumer.close()


async def test_a_replica_nearby_is_read_and_the_leader_again_when_it_fails() -> None:
    replicas = Replicas(client_rack="here")
    replicas.preferred = 1
    assert await replicas.poll() == [0, 1, 2, 3, 4]
    assert replicas.fetched_from[:2] == [0, 1]
    replicas.batches.append((9, batch(5, 9)))
    assert await replicas.poll() == [5, 6, 7, 8, 9]
    assert set(replicas.fetched_from[1:]) == {1}
    replicas.errors[1] = [ErrorCode.OFFSET_OUT_OF_RANGE]
    replicas.preferred = -1
    replicas.batches.append((12, batch(10, 12)))
    assert await replicas.poll() == [10, 11, 12]
    assert replicas.fetched_from[-1] == 0
    await replicas.consumer.close()
