"""Topics: described, created, deleted, and given more partitions; records deleted from their beginning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tailrace.client.admin.session import UNKNOWN, AdminSession, Results
from tailrace.client.errors import error_of, raise_for_code
from tailrace.client.metadata import ClusterMetadata
from tailrace.protocol.error_codes import ErrorCode
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
from tailrace.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 asks for the broker's default. `assignments` names the brokers of each partition."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict[str, str])
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])


class TopicAdmin(AdminSession):
    """Administration of topics."""

    async def describe_topics(self, names: Iterable[str] | None = None) -> ClusterMetadata:
        """Give the metadata of some topics, or of all; each topic has its own error code."""
        wanted = None if names is None else list(names)
        return await self._cluster.retrying("describing topics", lambda: self._cluster.metadata(wanted))

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> Results:
        """Create topics, or only check whether they could be."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics], timeout_ms=self._timeout_ms, validate_only=validate_only
        )

        async def attempt() -> Results:
            connection = await self._cluster.controller()
            response = await connection.request(request, CreateTopicsResponse)
            return _checked({topic.name: error_of(topic.error_code, topic.error_message) for topic in response.topics})

        return await self._cluster.retrying("creating topics", attempt)

    async def delete_topics(self, names: Sequence[str]) -> Results:
        """Delete topics with all their records."""

        async def attempt() -> Results:
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

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> Results:
        """Raise topics' numbers of partitions to `counts`."""
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=self._timeout_ms, validate_only=validate_only)

        async def attempt() -> Results:
            connection = await self._cluster.controller()
            response = await connection.request(request, CreatePartitionsResponse)
            self._cluster.expire_metadata()
            return _checked(
                {result.name: error_of(result.error_code, result.error_message) for result in response.results}
            )

        return await self._cluster.retrying("adding partitions", attempt)

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

        return await self._cluster.retrying(f"deleting records of {topic_partition}", attempt, final=UNKNOWN)


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


def _checked(results: Results) -> Results:
    """Raise the error that is about the request and not about a topic: another broker is the controller now."""
    for error in results.values():
        if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
            raise error
    return results
