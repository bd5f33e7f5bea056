"""What a consumer expects of whatever makes it a member of its group, and what a member may do with the consumer.

Two kinds of members share this: `classic_group`, where the members assign the partitions, and `server_group`, where the
coordinator does (KIP-848). Both act for the partitions only inside of `poll` and `close`, in the consumer's own task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from tailrace.client.group_metadata import ConsumerGroupMetadata
from tailrace.client.rebalance_listener import RebalanceListener, tell
from tailrace.client.subscription_state import SubscriptionState
from tailrace.protocol.topic_partition import TopicPartition


class GroupMember(Protocol):
    """A consumer's place in its group."""

    def metadata(self) -> ConsumerGroupMetadata:
        """Say who this is to the coordinator."""
        ...

    async def poll(self) -> None:
        """Do what is due: give up partitions, begin to join, take new partitions; raise what went wrong."""
        ...

    def subscription_changed(self) -> None:
        """Take notice that other topics are wanted."""
        ...

    def commit_refused(self, code: int) -> None:
        """Take notice that the coordinator does not know this member any more."""
        ...

    async def leave(self, reason: str) -> None:
        """Give up all partitions, and leave the group unless the member is static."""
        ...

    async def close(self) -> None:
        """End what runs in the background."""
        ...


@dataclass(slots=True)
class PartitionOwner:
    """Takes partitions from a consumer and gives it others, and tells its listener."""

    subscription: SubscriptionState
    commit: Callable[[], Awaitable[None]]
    """Commits what was read before partitions go, where the consumer commits by itself."""
    removed: Callable[[Collection[TopicPartition]], None]
    """Drops what was handed out to an iteration, and not yet given to the user."""
    listener: RebalanceListener | None = None

    @property
    def owned(self) -> list[TopicPartition]:
        """What is read now."""
        return list(self.subscription.partitions)

    async def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Commit, tell the listener, and read these no more."""
        if not partitions:
            return
        for key in partitions:
            self.subscription.partitions[key].is_revoked = True
        self.removed(partitions)
        await self.commit()
        try:
            if self.listener is not None:
                await tell(self.listener.on_partitions_revoked, partitions)
        finally:
            self._drop(partitions)

    async def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Tell the listener that these are gone; a commit would not be taken."""
        if not partitions:
            return
        for key in partitions:
            self.subscription.partitions[key].is_revoked = True
        self.removed(partitions)
        try:
            if self.listener is not None:
                await tell(self.listener.on_partitions_lost, partitions)
        finally:
            self._drop(partitions)

    async def add(self, partitions: Collection[TopicPartition]) -> None:
        """Read these, too, and tell the listener; it is told of an assignment without news, too, as Kafka does."""
        self.subscription.take_assignment([*self.owned, *partitions])
        if self.listener is not None:
            await tell(self.listener.on_partitions_assigned, partitions)

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        gone = set(partitions)
        self.subscription.take_assignment([key for key in self.owned if key not in gone])
