"""The offsets of one partition of `__consumer_offsets`: committed ones, and those of transactions that are open.

It holds what is committed in the log and nothing else: `OffsetStore` is told of every record, in the log's order, both
when it is written and when the log is replayed, and comes to the same state. An offset of an open transaction is
pending until the transaction's marker comes; of a transactional and a plain commit of the same partition the one that
is later in the log wins, whichever way they were interleaved, because compaction keeps no other order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tailrace.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from tailrace.protocol.coordinator.record_codec import CoordinatorRecord
from tailrace.protocol.uuid import ZERO_UUID

NO_TIMESTAMP = -1
NO_TRANSACTION = -1


@dataclass(slots=True)
class CommittedOffset:
    """An offset as it was committed; `record_offset` is where in `__consumer_offsets`."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = NO_TIMESTAMP
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_UUID
    record_offset: int = -1

    @classmethod
    def from_value(cls, value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
        """Take it from its record."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )


PartitionOffsets: TypeAlias = dict[int, CommittedOffset]
GroupOffsets: TypeAlias = dict[str, PartitionOffsets]
TopicPartitionKey: TypeAlias = tuple[str, int]
Commit: TypeAlias = tuple[str, int, CommittedOffset]
"""Topic, partition, and what is committed for it."""


@dataclass(slots=True)
class OffsetStore:
    """See the module's docstring. `groups` is group id → topic → partition."""

    groups: dict[str, GroupOffsets] = field(default_factory=dict[str, GroupOffsets])
    pending: dict[int, dict[str, dict[TopicPartitionKey, CommittedOffset]]] = field(
        default_factory=dict[int, dict[str, dict[TopicPartitionKey, CommittedOffset]]]
    )
    """Producer id → group id → what its open transaction has committed there."""
    _producers: dict[str, dict[TopicPartitionKey, set[int]]] = field(
        default_factory=dict[str, dict[TopicPartitionKey, set[int]]]
    )

    # Changing

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None, *, offset: int, producer_id: int) -> None:
        """Take up one record of the log."""
        if value is None:
            self.remove(key.group, key.topic, key.partition)
            return
        committed = CommittedOffset.from_value(value, offset)
        if producer_id == NO_TRANSACTION:
            self.put(key.group, key.topic, key.partition, committed)
        else:
            self.put_pending(producer_id, key.group, key.topic, key.partition, committed)

    def put(self, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Take up a commit."""
        topics = self.groups.get(group)
        if topics is None:
            topics = self.groups[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = committed

    def put_all(self, group: str, commits: Iterable[Commit], *, base_offset: int) -> None:
        """Take up commits whose records follow one another from `base_offset` on."""
        topics = self.groups.setdefault(group, {})
        last_topic: str | None = None
        partitions: PartitionOffsets = {}
        for record_offset, (topic, partition, committed) in enumerate(commits, base_offset):
            if topic != last_topic:
                last_topic, partitions = topic, topics.setdefault(topic, {})
            committed.record_offset = record_offset
            partitions[partition] = committed

    def put_pending(self, producer_id: int, group: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Take up a commit that counts when the producer's transaction does."""
        self.pending.setdefault(producer_id, {}).setdefault(group, {})[topic, partition] = committed
        self._producers.setdefault(group, {}).setdefault((topic, partition), set()).add(producer_id)

    def remove(self, group: str, topic: str, partition: int) -> None:
        """Forget a partition's offset, and what open transactions have committed for it."""
        topics = self.groups.get(group, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is not None and not partitions:
            del topics[topic]
            if not topics:
                del self.groups[group]
        for producer_id in list(self._producers.get(group, {}).get((topic, partition), ())):
            self._remove_pending(producer_id, group, (topic, partition))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Let a producer's pending offsets count, or forget them."""
        for group, offsets in self.pending.get(producer_id, {}).copy().items():
            for key, committed in offsets.copy().items():
                self._remove_pending(producer_id, group, key)
                topic, partition = key
                known = self.get(group, topic, partition)
                if is_commit and (known is None or known.record_offset < committed.record_offset):
                    self.put(group, topic, partition, committed)

    def _remove_pending(self, producer_id: int, group: str, key: TopicPartitionKey) -> None:
        groups = self.pending[producer_id]
        del groups[group][key]
        if not groups[group]:
            del groups[group]
        if not groups:
            del self.pending[producer_id]
        partitions = self._producers[group]
        partitions[key].discard(producer_id)
        if not partitions[key]:
            del partitions[key]
        if not partitions:
            del self._producers[group]

    # Looking

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """Give what is committed for a partition."""
        topics = self.groups.get(group)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group: str) -> GroupOffsets:
        """Give what is committed for a group, by topic and partition."""
        return self.groups.get(group, {})

    def has_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has committed an offset for the partition."""
        partitions = self._producers.get(group)
        return partitions is not None and (topic, partition) in partitions

    def has_open_transactions(self, group: str) -> bool:
        """Whether some open transaction has committed an offset in the group."""
        return group in self._producers

    def partitions_of_group(self, group: str) -> list[TopicPartitionKey]:
        """Name every partition with an offset, committed or pending."""
        known = {(topic, partition): None for topic, offsets in self.of_group(group).items() for partition in offsets}
        return list(known | dict.fromkeys(self._producers.get(group, ())))

    def groups_of_topic(self, topic: str) -> Iterator[tuple[str, int]]:
        """Name every group and partition with an offset, committed or pending, in a topic."""
        for group in self.groups.keys() | self._producers.keys():
            for known_topic, partition in self.partitions_of_group(group):
                if known_topic == topic:
                    yield group, partition

    def counts(self) -> tuple[int, int]:
        """Count the offsets, and the producers with open transactions."""
        offsets = sum(len(partitions) for topics in self.groups.values() for partitions in topics.values())
        return offsets, len(self.pending)


def offset_tombstone(group: str, topic: str, partition: int) -> CoordinatorRecord:
    """Make the record that removes an offset."""
    return CoordinatorRecord(OffsetCommitKey(group=group, topic=topic, partition=partition), None)
