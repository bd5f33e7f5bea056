"""Administration: topics, their configurations, their offsets and what they take on disk.

Each call is one request with its retries. Where a call is for several topics, what went wrong with one of them is in
the result, beside the others: `dict[name, ApiError | None]`. What is about a partition goes to its leader, the rest to
the controller or to any broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from tailrace.client.cluster import Cluster
from tailrace.client.connection import Connection
from tailrace.client.errors import error_of, raise_for_code
from tailrace.client.metadata import ClusterMetadata
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tailrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tailrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tailrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tailrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tailrace.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tailrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tailrace.protocol.topic_partition import TopicPartition

TopicResults = dict[str, ApiError | None]

_BROKER_TIMEOUT_SHARE = 0.8
"""How much of the client's patience a broker is told to have, so that its answer still comes in time."""


class ResourceType(IntEnum):
    """What has a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class AlterOperation(IntEnum):
    """What is done to a setting: APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 asks for the broker's default. `assignments` names the brokers of each partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict[str, str])
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting; the value of a sensitive one is never told."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source is ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one setting."""

    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


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


class Admin:
    """Administration of the cluster that `cluster` is connected to."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timeout_ms = int(cluster.config.request_timeout_ms * _BROKER_TIMEOUT_SHARE)

    async def describe_topics(self, names: Iterable[str] | None = None) -> ClusterMetadata:
        """Give the metadata of some topics, or of all; each topic has its own error code."""
        wanted = None if names is None else list(names)
        return await self._cluster.retrying("describing topics", lambda: self._cluster.metadata(wanted))

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> TopicResults:
        """Create topics, or only check whether they could be."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics], timeout_ms=self._timeout_ms, validate_only=validate_only
        )

        async def attempt() -> TopicResults:
            connection = await self._cluster.controller()
            response = await connection.request(request, CreateTopicsResponse)
            return _checked({topic.name: error_of(topic.error_code, topic.error_message) for topic in response.topics})

        return await self._cluster.retrying("creating topics", attempt)

    async def delete_topics(self, names: Sequence[str]) -> TopicResults:
        """Delete topics with all their records."""

        async def attempt() -> TopicResults:
            connection = await self._cluster.controller()
            request = DeleteTopicsRequest(timeout_ms=self._timeout_ms)
            if connection.version_for(DeleteTopicsRequest) < 6:
                request.topic_names = list(names)
            else:
                request.topics = [DeleteTopicState(name=name) for name in names]
            response = await connection.request(request, DeleteTopicsResponse)
            self._cluster.expire_metadata()
            return _checked({t.name or "": error_of(t.error_code, t.error_message) for t in response.responses})

        return await self._cluster.retrying("deleting topics", attempt)

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> TopicResults:
        """Raise topics' numbers of partitions to `counts`."""
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=self._timeout_ms, validate_only=validate_only)

        async def attempt() -> TopicResults:
            connection = await self._cluster.controller()
            response = await connection.request(request, CreatePartitionsResponse)
            self._cluster.expire_metadata()
            return _checked(
                {result.name: error_of(result.error_code, result.error_message) for result in response.results}
            )

        return await self._cluster.retrying("adding partitions", attempt)

    async def describe_configs(
        self,
        resource_type: ResourceType,
        names: Sequence[str],
        *,
        keys: Sequence[str] | None = None,
        with_documentation: bool = False,
    ) -> dict[str, list[ConfigEntry] | ApiError]:
        """Give the settings of topics or brokers."""
        resources = [
            DescribeConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
            for name in names
        ]
        request = DescribeConfigsRequest(resources=resources, include_documentation=with_documentation)
        node_id = _node_of(resource_type, names)

        async def attempt() -> dict[str, list[ConfigEntry] | ApiError]:
            connection = await self._connection_for(node_id)
            response = await connection.request(request, DescribeConfigsResponse)
            return {result.resource_name: _read_configs(result) for result in response.results}

        return await self._cluster.retrying("describing configurations", attempt)

    async def alter_configs(
        self, resource_type: ResourceType, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change some settings of a topic or broker and leave the others; ApiError where one is refused."""
        configs = [
            AlterableConfig(name=change.name, config_operation=change.operation, value=change.value)
            for change in changes
        ]
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        node_id = _node_of(resource_type, [name])

        async def attempt() -> None:
            connection = await self._connection_for(node_id)
            response = await connection.request(request, IncrementalAlterConfigsResponse)
            for result in response.responses:
                raise_for_code(result.error_code, result.error_message)

        await self._cluster.retrying("altering configurations", attempt, final=_UNKNOWN)

    async def delete_records(self, topic_partition: TopicPartition, before_offset: int) -> int:
        """Delete what is before an offset, -1 for everything; give the new log start offset."""
        partition = DeleteRecordsPartition(partition_index=topic_partition.partition, offset=before_offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic_partition.topic, partitions=[partition])], timeout_ms=self._timeout_ms
        )

        async def attempt() -> int:
            leader = await self._cluster.leader_of(topic_partition)
            connection = await self._cluster.connection_to(leader.node_id)
            response = await connection.request(request, DeleteRecordsResponse)
            result = response.topics[0].partitions[0]
            raise_for_code(result.error_code, f"partition {topic_partition}, offset {before_offset}")
            return result.low_watermark

        return await self._cluster.retrying(f"deleting records of {topic_partition}", attempt, final=_UNKNOWN)

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

    async def _connection_for(self, node_id: int | None) -> Connection:
        """Connect to a certain broker, or to any."""
        if node_id is None:
            return await self._cluster.any_connection()
        await self._cluster.controller()
        return await self._cluster.connection_to(node_id)


def _creatable(topic: NewTopic) -> CreatableTopic:
    has_assignments = bool(topic.assignments)
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if has_assignments else topic.partitions,
        replication_factor=-1 if has_assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in topic.assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _checked(results: TopicResults) -> TopicResults:
    """Raise the error that is about the request and not about a topic: another broker is the controller now."""
    for error in results.values():
        if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
            raise error
    return results


def _node_of(resource_type: ResourceType, names: Sequence[str]) -> int | None:
    """Give the broker that has to be asked: the settings of a broker are its own, those of topics everybody's."""
    if resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and len(names) == 1 and names[0].isdecimal():
        return int(names[0])
    return None


def _read_configs(result: DescribeConfigsResult) -> list[ConfigEntry] | ApiError:
    error = error_of(result.error_code, result.error_message or result.resource_name)
    if error is not None:
        return error
    return [
        ConfigEntry(
            entry.name,
            entry.value,
            ConfigSource(entry.config_source) if entry.config_source in _CONFIG_SOURCES else ConfigSource.UNKNOWN,
            entry.read_only,
            entry.is_sensitive,
            entry.documentation or None,
        )
        for entry in result.configs
    ]


_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
_CONFIG_SOURCES = frozenset(ConfigSource)
