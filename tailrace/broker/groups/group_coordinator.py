"""The group coordinator: finds the partition and the group that a request is about, and puts the request to it.

What can be said without a group is said here: an invalid group id or session timeout, NOT_COORDINATOR,
COORDINATOR_LOAD_IN_PROGRESS. Errors are raised as ApiError; answers that may have to wait go to a reply, a function
that takes the response. Two things happen unasked: expired offsets go, and those of deleted topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from tailrace.broker.coordinator_log import CoordinatorLog, OnDone, TransactionalProducer
from tailrace.broker.coordinator_topic import CoordinatorTopic
from tailrace.broker.groups import offset_requests
from tailrace.broker.groups.classic_requests import Joining
from tailrace.broker.groups.consumer_requests import Heartbeat, check_heartbeat
from tailrace.broker.groups.consumer_services import ConsumerServices, offered_assignors
from tailrace.broker.groups.group import Group
from tailrace.broker.groups.group_expiry import expire
from tailrace.broker.groups.group_shard import GroupShard
from tailrace.broker.groups.hosted_classic import HostedClassicGroup, RebalanceCounts
from tailrace.broker.groups.hosted_consumer import HeartbeatReply, HostedConsumerGroup, TopicFilter
from tailrace.broker.groups.offset_requests import AskedTopic, Committer, OffsetToCommit, OnFetched, PartitionResult
from tailrace.broker.metadata_store import MetadataDelta
from tailrace.broker.replica_manager import ReplicaManager
from tailrace.broker.topic_names import GROUP_OFFSETS_TOPIC
from tailrace.clock import TimerHandle
from tailrace.protocol.coordinator.record_codec import GROUP_RECORDS
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroupDescription
from tailrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tailrace.protocol.messages.describe_groups import DescribedGroup
from tailrace.protocol.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.protocol.messages.leave_group import MemberIdentity
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tailrace.protocol.records.compression import Compression
from tailrace.protocol.records.control import EndTxnMarker
from tailrace.protocol.uuid import random_uuid, uuid_text

LOGGER = logging.getLogger(__name__)

KNOWN_ID_VERSION_FIRST = 4
"""From this JoinGroup on a member is told its id before it is in (KIP-394)."""
SKIP_ASSIGNMENT_VERSION_FIRST = 9
"""From this JoinGroup on a leader can be told not to assign (KIP-814)."""

JoinReply: TypeAlias = Callable[[JoinGroupResponse], object]
SyncReply: TypeAlias = Callable[[SyncGroupResponse], object]


class GroupCoordinator:
    """See the module's docstring. `topic` says which partitions are coordinated here."""

    def __init__(self, replica_manager: ReplicaManager) -> None:
        self._manager = replica_manager
        self._clock = replica_manager.clock
        config = replica_manager.config
        self.counts = RebalanceCounts()
        self.committed_offsets = 0
        self.expired_offsets = 0
        self.services = ConsumerServices(replica_manager)
        self.topic: CoordinatorTopic[GroupShard] = CoordinatorTopic(
            GROUP_OFFSETS_TOPIC,
            table=GROUP_RECORDS,
            replica_manager=replica_manager,
            make_shard=self._make_shard,
            default_partitions=config.offsets_topic_num_partitions,
            timeout_ms=config.offsets_commit_timeout_ms,
            compression=Compression(config.offsets_topic_compression_codec),
        )
        self._expiry_timer: TimerHandle | None = None
        self._expiring: asyncio.Task[None] | None = None

    # Life

    def start(self) -> None:
        """Load what is coordinated here; call it when the replica manager has started."""
        self.topic.start()
        self._manager.metadata.subscribe(self._on_metadata)
        self._schedule_expiry()

    async def stop(self) -> None:
        """Tell all who wait that somebody else has to answer."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        if self._expiring is not None:
            self._expiring.cancel()
            await asyncio.wait([self._expiring])
        await self.topic.stop()

    def _make_shard(self, log: CoordinatorLog) -> GroupShard:
        return GroupShard(
            log, clock=self._clock, config=lambda: self._manager.config, counts=self.counts, services=self.services
        )

    # Membership in the classic protocol

    def join(
        self, request: JoinGroupRequest, *, version: int, client_id: str, client_host: str, reply: JoinReply
    ) -> None:
        """JoinGroup."""
        shard = self._shard_of_members(request.group_id)
        config = self._manager.config
        shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        event = Joining(
            reply=reply,
            request=request,
            client_id=client_id,
            client_host=client_host,
            new_member_id=f"{request.group_instance_id or client_id}-{random_uuid_text()}",
            needs_known_id=version >= KNOWN_ID_VERSION_FIRST,
            can_skip_assignment=version >= SKIP_ASSIGNMENT_VERSION_FIRST,
        )
        found = shard.groups.get(request.group_id)
        if isinstance(found, HostedConsumerGroup):
            if not found.is_empty:
                found.join(replace(event, new_member_id=uuid_text(random_uuid())))
                return
            if not found.end():
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        group, is_new = self._group_to_join(shard, request)
        group.join(event)
        if is_new and not group.writes:
            group.write_new()

    @staticmethod
    def _group_to_join(shard: GroupShard, request: JoinGroupRequest) -> tuple[HostedClassicGroup, bool]:
        found = shard.groups.get(request.group_id)
        if found is None and request.member_id:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if found is None:
            return shard.new_classic_group(request.group_id), True
        return shard.classic_group(request.group_id, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL), False

    def sync(self, request: SyncGroupRequest, *, reply: SyncReply) -> None:
        """SyncGroup."""
        shard = self._shard_of_members(request.group_id)
        found = shard.groups.get(request.group_id)
        if isinstance(found, HostedConsumerGroup):
            found.sync(reply, request)
        else:
            shard.classic_group(request.group_id).sync(reply, request)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Heartbeat; while groups are being loaded every heartbeat is taken for good, as Kafka takes it."""
        try:
            shard = self._shard_of_members(request.group_id)
        except ApiError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return ErrorCode.NONE
            raise
        found = shard.groups.get(request.group_id)
        if isinstance(found, HostedConsumerGroup):
            return found.classic_heartbeat(request)
        return shard.classic_group(request.group_id).heartbeat(request)

    def leave(self, group_id: str, identities: list[MemberIdentity]) -> list[ErrorCode]:
        """LeaveGroup; give each member's code."""
        shard = self._shard_of_members(group_id)
        if group_id not in shard.groups:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(identities)
        found = shard.groups[group_id]
        if isinstance(found, HostedConsumerGroup):
            return found.leave(identities)
        return shard.classic_group(group_id).leave(identities)

    # Membership in the consumer protocol

    def consumer_heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        version: int,
        client_id: str,
        client_host: str,
        visible: TopicFilter,
        reply: HeartbeatReply,
    ) -> None:
        """ConsumerGroupHeartbeat."""
        check_heartbeat(request, version, offered_assignors(self._manager.config))
        member_id = request.member_id or uuid_text(random_uuid())
        event = Heartbeat(request, member_id, client_id, client_host)
        self.topic.shard(request.group_id).consumers.heartbeat(event, visible=visible, reply=reply)

    def describe_consumer_group(self, group_id: str) -> ConsumerGroupDescription:
        """ConsumerGroupDescribe, of one group."""
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self.topic.shard(group_id).consumers.group(group_id).describe()

    # Groups

    def describe(self, group_id: str) -> DescribedGroup:
        """Describe a classic group; GROUP_ID_NOT_FOUND where there is none of that name."""
        shard = self.topic.shard(group_id)
        shard.group(group_id)
        return shard.classic_group(group_id, error=ErrorCode.GROUP_ID_NOT_FOUND).describe()

    def list(self) -> list[Group]:
        """Give every group that is coordinated here; COORDINATOR_LOAD_IN_PROGRESS until all are known."""
        if self.topic.is_loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [group for shard in self.topic.shards() for group in shard.groups.values()]

    def delete(self, group_id: str, *, on_done: OnDone) -> None:
        """DeleteGroups, one of them; the empty name is one that offsets may be kept under."""
        offset_requests.delete_group(self.topic.shard(group_id), group_id, on_done=on_done)

    # Offsets

    def commit_offsets(
        self,
        committer: Committer,
        offsets: Sequence[OffsetToCommit],
        *,
        version: int,
        retention_time_ms: int,
        on_done: OnDone,
    ) -> None:
        """OffsetCommit."""
        self.committed_offsets += len(offsets)
        offset_requests.commit_offsets(
            self.topic.shard(committer.group_id),
            committer,
            offsets,
            version=version,
            now_ms=self._clock.time_ms(),
            retention_time_ms=retention_time_ms,
            metadata_max=self._manager.config.offset_metadata_max_bytes,
            on_done=on_done,
        )

    def commit_transactional_offsets(
        self,
        committer: Committer,
        offsets: Sequence[OffsetToCommit],
        *,
        producer: TransactionalProducer,
        version: int,
        on_done: OnDone,
    ) -> None:
        """TxnOffsetCommit, once the offsets partition belongs to the producer's transaction."""
        self.committed_offsets += len(offsets)
        offset_requests.commit_transactional_offsets(
            self.topic.shard(committer.group_id),
            committer,
            offsets,
            producer=producer,
            version=version,
            now_ms=self._clock.time_ms(),
            metadata_max=self._manager.config.offset_metadata_max_bytes,
            on_done=on_done,
        )

    def complete_transaction(
        self, number: int, *, marker: EndTxnMarker, producer: TransactionalProducer, on_done: OnDone
    ) -> None:
        """Append a marker to a partition of the offsets topic; its pending offsets count or are forgotten."""
        try:
            shard = self.topic.shard_of_partition(number)
        except ApiError as error:
            on_done(error.code)
            return
        shard.complete_transaction(marker=marker, producer=producer, on_done=on_done)

    def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[AskedTopic] | None,
        *,
        member_id: str | None = None,
        member_epoch: int = -1,
        require_stable: bool = False,
        on_done: OnFetched,
    ) -> None:
        """OffsetFetch of one group; of all topics for None."""
        offset_requests.fetch_offsets(
            self.topic.shard(group_id),
            group_id,
            topics,
            member_id=member_id,
            member_epoch=member_epoch,
            require_stable=require_stable,
            on_done=on_done,
        )

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int, PartitionResult]], *, on_done: OnDone
    ) -> None:
        """OffsetDelete."""
        shard = self._shard_of_members(group_id)
        offset_requests.delete_offsets(shard, group_id, partitions, on_done=on_done)

    # What happens unasked

    def _on_metadata(self, delta: MetadataDelta) -> None:
        changed_topics = self.services.take_in(delta)
        if changed_topics:
            for shard in self.topic.shards():
                shard.consumers.topics_changed(changed_topics)
        if delta.deleted_topics:
            for shard in self.topic.shards():
                offset_requests.delete_topics(shard, [topic.name for topic in delta.deleted_topics])

    def _schedule_expiry(self) -> None:
        delay_ms = self._manager.config.offsets_retention_check_interval_ms
        self._expiry_timer = self._clock.call_later(delay_ms, self._start_expiry)

    def _start_expiry(self) -> None:
        self._expiring = asyncio.get_running_loop().create_task(self._expire())

    async def _expire(self) -> None:
        """Look for what has expired, a shard a turn of the loop."""
        try:
            for shard in list(self.topic.shards()):
                retention_ms = self._manager.config.offsets_retention_minutes * 60_000
                count = expire(shard, now_ms=self._clock.time_ms(), retention_ms=retention_ms)
                self.expired_offsets += count
                if count:
                    LOGGER.info("%d offsets of %s have expired", count, shard.log.partition.topic_partition)
                await asyncio.sleep(0)
        except Exception:
            LOGGER.exception("looking for expired offsets failed")
        self._schedule_expiry()

    def _shard_of_members(self, group_id: str) -> GroupShard:
        """Find the shard of a group that somebody belongs to, which has to have a name."""
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        return self.topic.shard(group_id)


def random_uuid_text() -> str:
    """Give a random id in the form Java prints: 8-4-4-4-12 hexadecimal digits."""
    digits = random_uuid().hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
