"""A group's committed offsets, as its member asks for them and commits them.

Commits are sent one after the other, so that a later one is never overtaken. A coordinator that moves or loads is tried
again within the time of one operation; a member that the group has given up gets CommitFailed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tailrace.client.cluster import Cluster
from tailrace.client.consumer_record import OffsetAndMetadata
from tailrace.client.errors import BrokerError, CommitFailed, FatalError, broker_error, known_code, raise_for_code
from tailrace.client.group_coordinator import GroupCoordinator
from tailrace.client.group_metadata import ConsumerGroupMetadata
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from tailrace.protocol.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

_VERSION_MAX: Final = 9
"""Later versions of both requests name topics by their ids, and are not stable."""
_GROUPS_VERSION_FIRST: Final = 8

_GIVEN_UP: Final = frozenset(
    {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS}
)


class CommittedOffsets:
    """The offsets of one group. `member` says who asks; `refused` is told when the group does not know the member."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: GroupCoordinator,
        member: Callable[[], ConsumerGroupMetadata],
        refused: Callable[[int], None],
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._member = member
        self._refused = refused
        self._turn = asyncio.Lock()

    async def commit(self, offsets: Offsets, *, timeout_ms: int | None = None) -> None:
        """Commit offsets; CommitFailed where the group has given the member up."""
        if not offsets:
            return
        async with self._turn:
            await self._cluster.retrying(
                "committing offsets", lambda: self._commit_once(offsets), timeout_ms=timeout_ms
            )

    async def fetch(
        self, partitions: Sequence[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Give the committed offsets, None where there is none; waits for transactions that commit some."""
        return await self._cluster.retrying(
            "asking for committed offsets", lambda: self._fetch_once(partitions), timeout_ms=timeout_ms
        )

    async def _commit_once(self, offsets: Offsets) -> None:
        member = self._member()
        topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for (topic, partition), committed in offsets.items():
            topics[topic].append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=member.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
        )
        response = await self._coordinator.request(request, OffsetCommitResponse, version_max=_VERSION_MAX, lane="")
        for answered in response.topics:
            for answer in answered.partitions:
                if answer.error_code:
                    self._raise(answer.error_code, TopicPartition(answered.name, answer.partition_index), member)

    def _raise(self, code: int, key: TopicPartition, member: ConsumerGroupMetadata) -> None:
        self._coordinator.heed(code)
        what = f"committing the offset of {key} in group {member.group_id}"
        if code in _GIVEN_UP:
            self._refused(code)
            raise CommitFailed(
                f"{what}: {known_code(code).name}: the group has rebalanced, and other members may have the partitions"
            )
        if code == ErrorCode.STALE_MEMBER_EPOCH:
            if self._member().generation_id != member.generation_id:
                raise broker_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{what}: with an old epoch")
            raise CommitFailed(f"{what}: STALE_MEMBER_EPOCH")
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise FatalError(f"{what}: another member has the same group.instance.id")
        raise_for_code(code, what)

    async def _fetch_once(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        member = self._member()
        topics: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            topics[topic].append(partition)
        connection = await self._coordinator.connection("")
        version = connection.version_for(OffsetFetchRequest, _VERSION_MAX)
        if version >= _GROUPS_VERSION_FIRST:
            entries = [OffsetFetchRequestTopics(name=name, partition_indexes=n) for name, n in topics.items()]
            group = OffsetFetchRequestGroup(group_id=member.group_id, topics=entries)
            if version >= _VERSION_MAX and member.member_id:
                group.member_id, group.member_epoch = member.member_id, member.generation_id
            request = OffsetFetchRequest(groups=[group], require_stable=True)
        else:
            request = OffsetFetchRequest(
                group_id=member.group_id,
                topics=[OffsetFetchRequestTopic(name=name, partition_indexes=n) for name, n in topics.items()],
                require_stable=version >= _STABLE_VERSION_FIRST,
            )
        response = await self._coordinator.request(request, OffsetFetchResponse, version_max=version, lane="")
        return self._read(response, member)

    def _read(
        self, response: OffsetFetchResponse, member: ConsumerGroupMetadata
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        group = response.groups[0] if response.groups else None
        code = response.error_code if group is None else group.error_code
        self._coordinator.heed(code)
        if code == ErrorCode.STALE_MEMBER_EPOCH and self._member().generation_id != member.generation_id:
            raise broker_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "asking for offsets with an old epoch")
        raise_for_code(code, f"asking for the offsets of group {member.group_id}")
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        failed: BrokerError | None = None
        for topic in response.topics if group is None else group.topics:
            entries: Sequence[OffsetFetchResponsePartition | OffsetFetchResponsePartitions] = topic.partitions
            for entry in entries:
                key = TopicPartition(topic.name, entry.partition_index)
                if entry.error_code:
                    failed = failed or broker_error(known_code(entry.error_code), f"the committed offset of {key}")
                elif entry.committed_offset < 0:
                    found[key] = None
                else:
                    found[key] = OffsetAndMetadata(
                        entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch
                    )
        if failed is not None:
            raise failed
        return found


_STABLE_VERSION_FIRST: Final = 7
"""From here on a broker can wait for transactions that commit offsets (KIP-447)."""
