"""What a leader knows of one follower: how far it has fetched, and when it was last level with the leader.

Pure: the partition tells it of every fetch and asks whether the follower is caught up. The rules are Kafka's
(`replica.lag.time.max.ms`): a follower is caught up while its log ends where the leader's does, or did so no longer ago
than the limit. Times are milliseconds of the monotonic clock.
"""

from __future__ import annotations

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -1


class FollowerReplica:
    """The fetch state of one follower."""

    __slots__ = (
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
        "node_id",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = 0.0
        self.last_caught_up_ms = 0.0
        self.broker_epoch = UNKNOWN_BROKER_EPOCH

    def reset(self, *, now_ms: float, leader_end_offset: int, is_new_leader: bool, is_in_sync: bool) -> None:
        """Begin a new leader epoch: an in-sync follower has from now on the full time to catch up."""
        self.last_caught_up_ms = now_ms if is_in_sync else 0.0
        if is_new_leader:
            self.log_start_offset = UNKNOWN_OFFSET
            self.log_end_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms = 0.0
            self.broker_epoch = UNKNOWN_BROKER_EPOCH
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_ms = self.last_caught_up_ms

    def fetched(
        self, *, fetch_offset: int, log_start_offset: int, now_ms: float, leader_end_offset: int, broker_epoch: int
    ) -> bool:
        """Note a fetch, which says that the follower has everything before `fetch_offset`.

        A follower that fetches from where the leader ended at its previous fetch was caught up at that earlier time:
        otherwise one that keeps pace with a busy leader would never count as caught up. Gives False, and notes nothing,
        where the fetch comes from an earlier life of that broker.
        """
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < self.broker_epoch:
            return False
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = max(broker_epoch, self.broker_epoch)
        return True

    def is_caught_up(self, *, leader_end_offset: int, now_ms: float, lag_max_ms: float) -> bool:
        """Say whether the follower is level with the leader, or was within the last `lag_max_ms`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms
