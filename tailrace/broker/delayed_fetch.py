"""A fetch that waits until there is enough to answer.

It is tried whenever one of its partitions got records, moved its high watermark, or changed its leader. The cases in
which it answers are Kafka's:

    A/B  this broker does not lead (or, for a consumer that may read from followers, replicate) a partition any more
    C    a partition is not known any more
    D    a partition's log went offline
    E    the leader epoch the client named is not the present one
    F    the fetch offset lies behind the reader's bound: the log was truncated
    G    the fetch offset is on an older segment than the reader's bound: reading can't gather more than that segment
    H    the records of all partitions together reach min.bytes
    I    the leader's epochs diverge from the follower's

Then the partitions are read anew, for the log may have moved on since the try.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.broker.fetch_session import Found, SessionPartition
from tailrace.broker.partition import Partition
from tailrace.broker.partition_fetch import NO_DIVERGING_EPOCH, FetchParams, diverging_epoch, upper_offset
from tailrace.broker.purgatory import DelayedOperation
from tailrace.broker.request import Answer, Parked
from tailrace.protocol.errors import ApiError

if TYPE_CHECKING:
    from tailrace.broker.replica_manager import ReplicaManager


class DelayedFetch(DelayedOperation):
    """Waits for `params.min_bytes`, at most `params.max_wait_ms`."""

    __slots__ = ("_asked", "_make_answer", "_params", "_replica_manager", "is_from_follower", "parked")

    def __init__(
        self,
        params: FetchParams,
        asked: list[SessionPartition],
        replica_manager: ReplicaManager,
        make_answer: Callable[[list[Found]], Answer],
    ) -> None:
        super().__init__(params.max_wait_ms)
        self._params = params
        self._asked = asked
        self._replica_manager = replica_manager
        self._make_answer = make_answer
        self.is_from_follower = params.replica_id >= 0
        self.parked = Parked()

    def try_complete(self) -> bool:
        """Complete in one of the cases above."""
        try:
            readable = 0
            for asked in self._asked:
                partition = self._replica_manager.fetched_partition(asked)
                partition.check_leader_epoch(asked.current_leader_epoch, leader_only=self._params.leader_only)
                size = self._readable_bytes(partition, asked)
                if size is None:
                    return self.force_complete()
                readable += size
        except ApiError:
            return self.force_complete()  # cases A to E: reading again tells the client which
        return self.force_complete() if readable >= self._params.min_bytes else False

    def _readable_bytes(self, partition: Partition, asked: SessionPartition) -> int | None:
        """Count what could be read from one partition; None where that alone is a reason to answer."""
        if asked.last_fetched_epoch >= 0 and diverging_epoch(partition, asked) is not NO_DIVERGING_EPOCH:
            return None
        bound = upper_offset(partition, self._params.isolation)
        if asked.fetch_offset == bound:
            return 0
        if asked.fetch_offset > bound:
            return None
        if self._params.min_bytes <= 1:
            return 1
        log = partition.log
        if log.segment_slot(asked.fetch_offset) < log.segment_slot(bound):
            return None
        read = log.read(asked.fetch_offset, max_bytes=asked.max_bytes, upper_offset=bound, min_one_message=False)
        return len(read.records)

    def on_complete(self) -> None:
        """Read and answer."""
        found, _, _ = self._replica_manager.read(self._params, self._asked, update_follower=False)
        self.parked.complete(self._make_answer(found))

    def on_expiration(self) -> None:
        """Count it, followers and consumers apart as Kafka does."""
        self._replica_manager.fetch_expired(is_from_follower=self.is_from_follower)

    def on_failure(self, error: Exception) -> None:
        """Pass on that reading or answering broke."""
        self.parked.fail(error)
