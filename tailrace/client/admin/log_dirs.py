"""What brokers have on disk: their log directories, and each replica in them."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.client.admin.session import AdminSession
from tailrace.client.errors import error_of, raise_for_code
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tailrace.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class ReplicaOnDisk:
    """What one replica takes in a log directory."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A log directory of a broker."""

    path: str
    error: ApiError | None
    replicas: tuple[ReplicaOnDisk, ...]
    total_bytes: int
    usable_bytes: int


class LogDirAdmin(AdminSession):
    """Administration of log directories."""

    async def describe_log_dirs(self, node_id: int) -> list[LogDirectory]:
        """Give a broker's log directories with every replica in them."""

        async def attempt() -> list[LogDirectory]:
            await self._cluster.controller()
            connection = await self._cluster.connection_to(node_id)
            response = await connection.request(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
            raise_for_code(response.error_code, f"log directories of broker {node_id}")
            return [
                LogDirectory(
                    result.log_dir,
                    error_of(result.error_code),
                    tuple(
                        ReplicaOnDisk(
                            TopicPartition(topic.name, partition.partition_index),
                            partition.partition_size,
                            partition.offset_lag,
                            partition.is_future_key,
                        )
                        for topic in result.topics
                        for partition in topic.partitions
                    ),
                    result.total_bytes,
                    result.usable_bytes,
                )
                for result in response.results
            ]

        return await self._cluster.retrying(f"describing log directories of broker {node_id}", attempt)
