"""Offsets of partitions by what they mean: the earliest, the latest, the first at or after a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tailrace.client.cluster import Cluster
from tailrace.client.errors import raise_for_code
from tailrace.client.metadata import Leader
from tailrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tailrace.protocol.topic_partition import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3


class IsolationLevel(IntEnum):
    """Which records of transactions a reader sees."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """An offset, with the timestamp of its record where it was looked for by time; offset -1 means there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster,
    targets: Mapping[TopicPartition, int],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
) -> dict[TopicPartition, FoundOffset]:
    """Find an offset in each partition: EARLIEST, LATEST, MAX_TIMESTAMP, or the first at or after a timestamp."""
    found: dict[TopicPartition, FoundOffset] = {}

    async def attempt() -> None:
        missing = {key: target for key, target in targets.items() if key not in found}
        leaders = {key: await cluster.leader_of(key) for key in missing}
        by_node: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for key, target in missing.items():
            by_node[leaders[key].node_id][key] = target
        failed: dict[TopicPartition, int] = {}
        for node_id, asked in by_node.items():
            failed |= await ask_for_offsets(cluster, node_id, asked, leaders, isolation, found)
        for key, code in failed.items():
            raise_for_code(code, f"partition {key}")

    await cluster.retrying("listing offsets", attempt)
    return found


async def ask_for_offsets(
    cluster: Cluster,
    node_id: int,
    targets: Mapping[TopicPartition, int],
    leaders: Mapping[TopicPartition, Leader],
    isolation: IsolationLevel,
    found: dict[TopicPartition, FoundOffset],
) -> dict[TopicPartition, int]:
    """Ask one leader for the offsets of its partitions; add what it knows to `found`, and give the errors' codes."""
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for key, target in targets.items():
        topics[key.topic].append(
            ListOffsetsPartition(
                partition_index=key.partition, current_leader_epoch=leaders[key].leader_epoch, timestamp=target
            )
        )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=cluster.config.request_timeout_ms,
    )
    connection = await cluster.connection_to(node_id)
    response = await connection.request(request, ListOffsetsResponse)
    failed: dict[TopicPartition, int] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                failed[key] = partition.error_code
            else:
                found[key] = FoundOffset(partition.offset, partition.timestamp, partition.leader_epoch)
    return failed
