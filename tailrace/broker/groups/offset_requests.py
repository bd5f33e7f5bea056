"""Committing, fetching and deleting offsets: what a group allows, and which records that makes.

Every function decides about one group in one shard. Topics and partitions that do not exist, or that the client may not
read, were sorted out by the handler; what is refused here for one partition is written into that partition's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from tailrace.broker.coordinator_log import EncodedRecord, OnDone, TransactionalProducer
from tailrace.broker.groups.group import NO_GENERATION
from tailrace.broker.groups.group_shard import GroupShard
from tailrace.broker.groups.offset_store import Commit, CommittedOffset, offset_tombstone
from tailrace.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.coordinator.offset_commit_bytes import key_prefix, pack_partition, plain_value
from tailrace.protocol.coordinator.record_codec import NO_EXPIRE_TIMESTAMP, CoordinatorRecord, encode_record
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.uuid import ZERO_UUID

DEFAULT_RETENTION = -1
GROUP_ERRORS_VERSION_FIRST = 9
"""From this OffsetCommit on a member is told GROUP_ID_NOT_FOUND; before, ILLEGAL_GENERATION (KIP-848)."""


class PartitionResult(Protocol):
    """The part of an answer that is about one partition."""

    error_code: int


class OffsetToCommit(NamedTuple):
    """One partition's part of a commit, and where its answer goes."""

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None
    answer: PartitionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Who commits, as whom; `generation` is the member epoch in the consumer protocol."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = NO_GENERATION


def commit_offsets(
    shard: GroupShard,
    committer: Committer,
    offsets: Sequence[OffsetToCommit],
    *,
    version: int,
    now_ms: int,
    retention_time_ms: int,
    metadata_max: int,
    on_done: OnDone,
) -> None:
    """Commit offsets; ApiError where the group does not let the committer."""
    unknown = ErrorCode.GROUP_ID_NOT_FOUND if version >= GROUP_ERRORS_VERSION_FIRST else ErrorCode.ILLEGAL_GENERATION
    group = shard.committing_group(committer.group_id, has_generation=committer.generation >= 0, unknown=unknown)
    if group is not None:
        group.check_offset_commit(
            member_id=committer.member_id,
            instance_id=committer.instance_id,
            generation=committer.generation,
            is_transactional=False,
            version=version,
        )
        group.committed(committer.member_id)
    expire_timestamp = NO_EXPIRE_TIMESTAMP if retention_time_ms == DEFAULT_RETENTION else now_ms + retention_time_ms
    _commit(shard, committer.group_id, offsets, now_ms, expire_timestamp, metadata_max, on_done, None)


def commit_transactional_offsets(
    shard: GroupShard,
    committer: Committer,
    offsets: Sequence[OffsetToCommit],
    *,
    producer: TransactionalProducer,
    version: int,
    now_ms: int,
    metadata_max: int,
    on_done: OnDone,
) -> None:
    """Commit offsets that count when the producer's transaction does; ApiError where the group does not let it.

    The caller has made sure that the offsets partition belongs to the transaction.
    """
    group = shard.committing_group(
        committer.group_id, has_generation=committer.generation >= 0, unknown=ErrorCode.ILLEGAL_GENERATION
    )
    try:
        if group is not None:
            group.check_offset_commit(
                member_id=committer.member_id,
                instance_id=committer.instance_id,
                generation=committer.generation,
                is_transactional=True,
                version=version,
            )
    except ApiError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH:  # no answer to TxnOffsetCommit knows member epochs
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, error.message or "") from error
        raise
    _commit(shard, committer.group_id, offsets, now_ms, NO_EXPIRE_TIMESTAMP, metadata_max, on_done, producer)


def _commit(
    shard: GroupShard,
    group_id: str,
    offsets: Iterable[OffsetToCommit],
    now_ms: int,
    expire_timestamp: int,
    metadata_max: int,
    on_done: OnDone,
    producer: TransactionalProducer | None,
) -> None:
    """Write what may be committed, and say of the rest why not."""
    commits: list[Commit] = []
    encoded: list[EncodedRecord] = []
    prefix, prefix_topic = b"", None
    for topic, topic_id, partition, offset, leader_epoch, metadata, answer in offsets:
        if metadata and utf16_length(metadata) > metadata_max:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        commits.append(
            (
                topic,
                partition,
                CommittedOffset(offset, leader_epoch, metadata or "", now_ms, expire_timestamp, topic_id),
            )
        )
        if metadata or topic_id != ZERO_UUID or expire_timestamp != NO_EXPIRE_TIMESTAMP:
            encoded.append(_encode(group_id, *commits[-1]))
            continue
        if topic != prefix_topic:
            prefix, prefix_topic = key_prefix(group_id, topic), topic
        encoded.append((prefix + pack_partition(partition), plain_value(offset, leader_epoch, now_ms)))
    if commits:
        shard.write_commits(group_id, commits, encoded, on_done=on_done, producer=producer)
    else:
        on_done(ErrorCode.NONE)


def _encode(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> EncodedRecord:
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp,
        expire_timestamp=committed.expire_timestamp,
        topic_id=committed.topic_id,
    )
    return encode_record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value)


def utf16_length(text: str) -> int:
    """Give the length as Java counts it, by which offset.metadata.max.bytes is meant."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


# Fetching

AskedTopic: TypeAlias = tuple[str, Sequence[int]]


class FetchedOffset(NamedTuple):
    """What is known of one partition; offset -1 where nothing is."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


FetchedTopics: TypeAlias = list[tuple[str, list[FetchedOffset]]]
OnFetched: TypeAlias = Callable[[FetchedTopics, ErrorCode], object]


def fetch_offsets(
    shard: GroupShard,
    group_id: str,
    topics: Sequence[AskedTopic] | None,
    *,
    member_id: str | None,
    member_epoch: int,
    require_stable: bool,
    on_done: OnFetched,
) -> None:
    """Fetch offsets, of all topics for None; ApiError where the group does not answer.

    With `require_stable` (KIP-447) what was committed before is waited for, and a partition in an open transaction
    answers UNSTABLE_OFFSET_COMMIT: its client asks again.
    """
    group = shard.groups.get(group_id)
    if group is not None:
        group.check_offset_fetch(member_id=member_id, member_epoch=member_epoch)

    def answer(code: ErrorCode) -> None:
        on_done([] if code else _fetched(shard, group_id, topics, require_stable), code)

    if require_stable and shard.log.has_uncommitted:
        shard.log.after_commits(answer)
    else:
        answer(ErrorCode.NONE)


def _fetched(
    shard: GroupShard, group_id: str, topics: Sequence[AskedTopic] | None, require_stable: bool
) -> FetchedTopics:
    known = shard.offsets.of_group(group_id)
    if topics is None:
        topics = [(topic, list(partitions)) for topic, partitions in known.items()]
    look_for_pending = require_stable and shard.offsets.has_open_transactions(group_id)
    fetched: FetchedTopics = []
    for topic, partitions in topics:
        offsets = known.get(topic, {})
        answers: list[FetchedOffset] = []
        for partition in partitions:
            if look_for_pending and shard.offsets.has_pending(group_id, topic, partition):
                answers.append(FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                answers.append(_of(partition, offsets.get(partition)))
        fetched.append((topic, answers))
    return fetched


def _of(partition: int, committed: CommittedOffset | None) -> FetchedOffset:
    if committed is None:
        return FetchedOffset(partition)
    return FetchedOffset(partition, committed.offset, committed.leader_epoch, committed.metadata)


# Deleting


def delete_offsets(
    shard: GroupShard, group_id: str, partitions: Iterable[tuple[str, int, PartitionResult]], *, on_done: OnDone
) -> None:
    """Delete the offsets of partitions that the group's members do not read; ApiError where none may go."""
    group = shard.group(group_id)
    group.check_offset_delete()
    _check_settled(shard, group_id)
    records: list[CoordinatorRecord] = []
    for topic, partition, answer in partitions:
        if group.is_subscribed_to(topic):
            answer.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif shard.offsets.get(group_id, topic, partition) or shard.offsets.has_pending(group_id, topic, partition):
            records.append(offset_tombstone(group_id, topic, partition))
    if records:
        shard.write_offsets(group_id, records, on_done=on_done)
    else:
        on_done(ErrorCode.NONE)


def delete_group(shard: GroupShard, group_id: str, *, on_done: OnDone) -> None:
    """Delete a group without members, and its offsets; ApiError where it may not go."""
    group = shard.group(group_id)
    group.check_delete()
    _check_settled(shard, group_id)
    records = [offset_tombstone(group_id, *key) for key in shard.offsets.partitions_of_group(group_id)]
    shard.delete(group, [*records, *group.tombstones()], on_done=on_done)


def _check_settled(shard: GroupShard, group_id: str) -> None:
    """A commit on its way to the replicas would outlive the tombstones; the client is to try again."""
    if shard.is_committing(group_id):
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"Offsets of group {group_id} are being committed.")


def delete_topics(shard: GroupShard, topics: Iterable[str]) -> None:
    """Forget the offsets of topics that were deleted."""
    records: dict[str, list[CoordinatorRecord]] = {}
    for topic in topics:
        for group_id, partition in shard.offsets.groups_of_topic(topic):
            records.setdefault(group_id, []).append(offset_tombstone(group_id, topic, partition))
    for group_id, tombstones in records.items():
        shard.write_offsets(group_id, tombstones, on_done=lambda code: None, is_atomic=False)
