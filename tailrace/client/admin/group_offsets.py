"""The offsets that groups have committed: listed, altered, deleted.

A group with members commits its own offsets; altering or deleting them from outside is refused while members read the
topic (UNKNOWN_MEMBER_ID, GROUP_SUBSCRIBED_TO_TOPIC).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.client.admin.session import UNKNOWN, AdminSession
from tailrace.client.connection import Connection
from tailrace.client.coordinators import Ask, CoordinatorType, ask_coordinators
from tailrace.client.errors import BrokerError, error_of, is_retriable
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tailrace.protocol.topic_partition import TopicPartition

_GROUPS_VERSION_FIRST: Final = 8
"""From here on one OffsetFetch is for several groups (KIP-709)."""
_COMMIT_VERSION_MAX: Final = 9
_FETCH_VERSION_MAX: Final = 9
"""Later ones name topics by their ids, which an administrator need not know."""

PartitionResults = dict[TopicPartition, BrokerError | None]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset that a group has committed, or is to commit: of the record that it reads next."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


GroupOffsets = dict[TopicPartition, GroupOffset]


class GroupOffsetAdmin(AdminSession):
    """Administration of groups' offsets."""

    async def list_group_offsets(
        self, groups: Mapping[str, Iterable[TopicPartition] | None], *, require_stable: bool = False
    ) -> dict[str, GroupOffsets | BrokerError]:
        """Give the committed offsets of groups: of some partitions, or of all (None) for which there are any.

        `require_stable` waits for transactions that are about to commit offsets.
        """
        wanted = {group: None if keys is None else _by_topic(keys) for group, keys in groups.items()}

        async def ask(connection: Connection, keys: list[str]) -> dict[str, GroupOffsets | BrokerError]:
            if connection.version_for(OffsetFetchRequest, _FETCH_VERSION_MAX) >= _GROUPS_VERSION_FIRST:
                return await _fetch_together(connection, {key: wanted[key] for key in keys}, require_stable)
            return {key: await _fetch_one(connection, key, wanted[key], require_stable) for key in keys}

        what = f"listing the offsets of {', '.join(groups)}"
        return await ask_coordinators(self._cluster, CoordinatorType.GROUP, list(groups), ask, what=what)

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> PartitionResults:
        """Commit offsets for a group that has no members, and say for each partition what went wrong."""
        done: PartitionResults = {}

        async def ask(connection: Connection, keys: list[str]) -> dict[str, bool | BrokerError]:
            missing = {key: offset for key, offset in offsets.items() if key not in done}
            request = OffsetCommitRequest(group_id=group_id, topics=_committed_topics(missing))
            response = await connection.request(request, OffsetCommitResponse, version_max=_COMMIT_VERSION_MAX)
            return {group_id: _sort_out(done, _partition_errors(response.topics))}

        await self._ask_coordinator(group_id, ask, f"altering the offsets of {group_id}")
        return done

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> PartitionResults:
        """Forget the committed offsets of partitions, and say for each what went wrong."""
        wanted = list(partitions)
        done: PartitionResults = {}

        async def ask(connection: Connection, keys: list[str]) -> dict[str, bool | BrokerError]:
            topics = [
                OffsetDeleteRequestTopic(
                    name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
                )
                for name, numbers in _by_topic(key for key in wanted if key not in done).items()
            ]
            request = OffsetDeleteRequest(group_id=group_id, topics=topics)
            response = await connection.request(request, OffsetDeleteResponse)
            error = error_of(response.error_code, f"group {group_id}")
            return {group_id: error or _sort_out(done, _partition_errors(response.topics))}

        await self._ask_coordinator(group_id, ask, f"deleting offsets of {group_id}")
        return done

    async def _ask_coordinator(self, group_id: str, ask: Ask[bool], what: str) -> None:
        answer = (await ask_coordinators(self._cluster, CoordinatorType.GROUP, [group_id], ask, what=what))[group_id]
        if isinstance(answer, BrokerError):
            raise answer


async def _fetch_together(
    connection: Connection, wanted: Mapping[str, Mapping[str, list[int]] | None], require_stable: bool
) -> dict[str, GroupOffsets | BrokerError]:
    groups = [
        OffsetFetchRequestGroup(
            group_id=group,
            topics=None
            if topics is None
            else [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in topics.items()],
        )
        for group, topics in wanted.items()
    ]
    request = OffsetFetchRequest(groups=groups, require_stable=require_stable)
    response = await connection.request(request, OffsetFetchResponse, version_max=_FETCH_VERSION_MAX)
    return {group.group_id: _read_group(group) for group in response.groups}


async def _fetch_one(
    connection: Connection, group_id: str, topics: Mapping[str, list[int]] | None, require_stable: bool
) -> GroupOffsets | BrokerError:
    listed = (
        None
        if topics is None
        else [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in topics.items()]
    )
    request = OffsetFetchRequest(group_id=group_id, topics=listed, require_stable=require_stable)
    response = await connection.request(request, OffsetFetchResponse, version_max=_GROUPS_VERSION_FIRST - 1)
    return error_of(response.error_code, f"group {group_id}") or _read_offsets(response.topics)


def _read_group(group: OffsetFetchResponseGroup) -> GroupOffsets | BrokerError:
    return error_of(group.error_code, f"group {group.group_id}") or _read_offsets(group.topics)


def _read_offsets(
    topics: Iterable[OffsetFetchResponseTopics] | Iterable[OffsetFetchResponseTopic],
) -> GroupOffsets | BrokerError:
    """Read the offsets; what is not committed has none. An error of one partition is the whole answer's."""
    offsets: GroupOffsets = {}
    for topic in topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            error = error_of(partition.error_code, f"the committed offset of {key}")
            if error is not None:
                return error
            if partition.committed_offset >= 0:
                metadata, leader_epoch = partition.metadata or "", partition.committed_leader_epoch
                offsets[key] = GroupOffset(partition.committed_offset, metadata, leader_epoch)
    return offsets


def _committed_topics(offsets: Mapping[TopicPartition, GroupOffset]) -> list[OffsetCommitRequestTopic]:
    topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for key, offset in offsets.items():
        topics[key.topic].append(
            OffsetCommitRequestPartition(
                partition_index=key.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return [OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()]


def _partition_errors(
    topics: Iterable[OffsetCommitResponseTopic] | Iterable[OffsetDeleteResponseTopic],
) -> PartitionResults:
    results: PartitionResults = {}
    for topic in topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            results[key] = error_of(partition.error_code, f"partition {key}")
    return results


def _sort_out(done: PartitionResults, answered: PartitionResults) -> bool | BrokerError:
    """Keep what stays; give an error that passes, where there is one, so that its partitions are asked for again."""
    passing: BrokerError | None = None
    for key, error in answered.items():
        if error is not None and is_retriable(error) and error.code not in UNKNOWN:
            passing = error
        else:
            done[key] = error
    return passing or True


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for key in partitions:
        topics[key.topic].append(key.partition)
    return topics
