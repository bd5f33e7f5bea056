"""The coordinators of groups and of transactions, made when somebody first needs them.

Most brokers that are started answer a producer or a consumer without a group first, and the coordinators' modules are a
good part of what a start would load. So they are loaded behind the start, a few a turn of the event loop
(`modules`, then `groups` and `transactions`), or by the first request that asks. Whoever asks while their topics are
still being read is told COORDINATOR_LOAD_IN_PROGRESS, as after any start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.broker.producer_ids import ProducerIds
from tailrace.broker.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from tailrace.broker.groups.group_coordinator import GroupCoordinator
    from tailrace.broker.transactions.transaction_coordinator import TransactionCoordinator

MODULES = (
    "tailrace.protocol.coordinator.record_codec",
    "tailrace.broker.coordinator_topic",
    "tailrace.broker.groups.classic_requests",
    "tailrace.broker.groups.hosted_classic",
    "tailrace.broker.groups.consumer_requests",
    "tailrace.broker.groups.hosted_consumer",
    "tailrace.broker.groups.group_coordinator",
    "tailrace.broker.transactions.transaction_coordinator",
)
"""What to load behind the start, in pieces that take about as long as each other."""


class Coordinators:
    """See the module's docstring."""

    __slots__ = ("_groups", "_is_stopped", "_producer_ids", "_replica_manager", "_transactions")

    def __init__(self, replica_manager: ReplicaManager, producer_ids: ProducerIds) -> None:
        self._replica_manager = replica_manager
        self._producer_ids = producer_ids
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._is_stopped = False

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator; the first call begins to load what it knows."""
        if self._groups is None:
            from tailrace.broker.groups.group_coordinator import GroupCoordinator

            self._groups = GroupCoordinator(self._replica_manager)
            if not self._is_stopped:
                self._groups.start()
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator; the first call begins to load what it knows."""
        if self._transactions is None:
            from tailrace.broker.transactions.transaction_coordinator import TransactionCoordinator

            self._transactions = TransactionCoordinator(self._replica_manager, self._producer_ids, self.groups)
            if not self._is_stopped:
                self._transactions.start()
        return self._transactions

    def start(self) -> None:
        """Load both now."""
        assert self.groups is not None
        assert self.transactions is not None

    async def stop_groups(self) -> None:
        """Answer all members who wait; the others are stopped by `stop`."""
        if self._groups is not None:
            await self._groups.stop()

    async def stop(self) -> None:
        """Answer all who wait; nothing is coordinated here any more."""
        self._is_stopped = True
        if self._transactions is not None:
            await self._transactions.stop()
        await self.stop_groups()
