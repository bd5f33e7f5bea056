"""One partition as its leader sees it: the log, the followers, and how far everybody agrees.

Lives here: leadership and its epochs, the in-sync replicas, the rule that moves the high watermark, and what an
acknowledgement waits for. Promises: records below the high watermark are on every in-sync replica (and on this disk,
where `flush.messages` asks for that). What a fetch is answered is in `partition_fetch.py`; ISR changes are written by
the metadata store, and who is waiting for the high watermark is the replica manager's business.

With one replica the ISR is the leader itself and the high watermark follows every append at once; the rules are the
same. They are Kafka's: KIP-497 (ISR changes through the controller, with a "maximal" ISR while a change is under way)
and KIP-966 (the high watermark rests while the ISR is below the effective minimum).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from tailrace.broker.follower_replica import FollowerReplica
from tailrace.broker.metrics.registry import TopicMetrics
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.clock import Clock
from tailrace.protocol.buffers import Buffer
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.settings.log_config import LogConfig
from tailrace.storage.append_origin import AppendOrigin
from tailrace.storage.disk import DiskError
from tailrace.storage.log import AppendResult, Log

ACKS_ALL = -1
NO_ERROR = ErrorCode.NONE
"""By its own name: finding a member in its Enum takes 50 ns."""
NEVER_HELD = 2**63 - 1
LATEST_HIGH_WATERMARK = -1
"""The offset by which DeleteRecords means "up to the high watermark"."""


class PartitionSurroundings(Protocol):
    """What a partition asks of its broker."""

    node_id: int
    clock: Clock

    @property
    def replica_lag_time_max_ms(self) -> float:
        """How long a follower may lag before it is out of sync."""
        ...

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        ...

    def change_isr(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Ask the metadata store for another ISR; the answer comes as a new registration, or as `isr_refused`."""
        ...

    def high_watermark_moved(self, partition: Partition) -> None:
        """Try whoever waits for this partition."""
        ...


class Partition:
    """A partition that this broker replicates."""

    __slots__ = (
        "_flush_task",
        "_flushed_to",
        "_surroundings",
        "effective_min_isr",
        "flushes_by_count",
        "followers",
        "is_leader",
        "is_removed",
        "isr",
        "leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "log",
        "may_convert",
        "partition_epoch",
        "pending_isr",
        "replicas",
        "topic_id",
        "topic_metrics",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        *,
        log: Log,
        topic_metrics: TopicMetrics,
        surroundings: PartitionSurroundings,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.topic_metrics = topic_metrics
        self._surroundings = surroundings
        self.is_removed = False
        self.is_leader = False
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.leader_epoch_start_offset: int | None = None
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.pending_isr: tuple[int, ...] | None = None
        self.followers: dict[int, FollowerReplica] = {}
        self._flushed_to = NEVER_HELD
        self._flush_task: asyncio.Task[None] | None = None
        self.set_config(log.config)

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else "follower"
        return f"<Partition {self.topic_partition} {role}, epoch {self.leader_epoch}, isr {self.isr}>"

    # Leadership

    def apply(self, registration: PartitionRegistration) -> None:
        """Obey what the metadata store says; an older word than the last one is ignored."""
        if registration.partition_epoch < self.partition_epoch:
            return
        node_id = self._surroundings.node_id
        is_new_epoch = registration.leader_epoch > self.leader_epoch
        was_leader = self.is_leader
        self.leader = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.replicas = registration.replicas
        self.isr = registration.isr
        self.pending_isr = None
        self.is_leader = registration.leader == node_id
        if self.is_leader:
            self._lead(is_new_epoch=is_new_epoch or not was_leader, is_new_leader=not was_leader)
        else:
            self.leader_epoch_start_offset = None
            self.followers.clear()
        self._count_min_isr()

    def _lead(self, *, is_new_epoch: bool, is_new_leader: bool) -> None:
        node_id = self._surroundings.node_id
        others = [replica for replica in self.replicas if replica != node_id]
        for gone in self.followers.keys() - set(others):
            del self.followers[gone]
        for replica in others:
            if replica not in self.followers:
                self.followers[replica] = FollowerReplica(replica)
        self._count_min_isr()
        if is_new_epoch:
            leader_end_offset = self.log.log_end_offset
            self.leader_epoch_start_offset = leader_end_offset
            self._begin_epoch(leader_end_offset)
            now_ms = self._now_ms()
            for follower in self.followers.values():
                follower.reset(
                    now_ms=now_ms,
                    leader_end_offset=leader_end_offset,
                    is_new_leader=is_new_leader,
                    is_in_sync=follower.node_id in self.isr,
                )
        self.advance_high_watermark()

    def _begin_epoch(self, start_offset: int) -> None:
        """Note in the log where this leader's records begin; a follower asks for it before it truncates."""
        log = self.log
        latest_epoch = log.latest_epoch
        if log.is_offline or (latest_epoch is not None and latest_epoch >= self.leader_epoch):
            return
        try:
            log.leader_epochs.assign(self.leader_epoch, start_offset)
        except DiskError as error:
            log.disk_failed(error)

    def set_config(self, config: LogConfig) -> None:
        """Go by another configuration of the topic from now on."""
        self.log.reconfigure(config)
        self.flushes_by_count = config.flush_messages != NEVER_HELD
        self.may_convert = config.compression_type != "producer"
        self._count_min_isr()

    def _count_min_isr(self) -> None:
        """A topic with fewer replicas than min.insync.replicas needs all it has (KIP-966)."""
        self.effective_min_isr = min(self.log.config.min_insync_replicas, len(self.followers) + 1)

    def remove(self) -> None:
        """Say that the partition is no longer here: its topic was deleted, or it moved."""
        self.is_removed = True
        self.is_leader = False
        if self._flush_task is not None:
            self._flush_task.cancel()

    def availability(self) -> ErrorCode:
        """Say why the partition can't be led from here, or NONE."""
        if self.is_removed:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.log.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE if self.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def check_leader_epoch(self, current_leader_epoch: int, *, leader_only: bool) -> None:
        """Raise where the client knows of another leader epoch, or wants a leader and this broker is none (KIP-320)."""
        if self.log.failure is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {self.topic_partition} is offline")
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            is_fenced = current_leader_epoch < self.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_fenced else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise ApiError(code, f"{self.topic_partition} is in leader epoch {self.leader_epoch}")
        if leader_only and not self.is_leader:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by broker {self.leader}, not here"
            )

    # Appending

    def append_as_leader(
        self, records: Buffer, *, acks: int, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendResult:
        """Append a batch; the high watermark moves as far as it may at once.

        Whoever waits for that is told by the caller (`ReplicaManager.appended`), when its whole request is appended.
        Raises ApiError; NOT_ENOUGH_REPLICAS before anything is written where acks=all and the ISR is too small.
        """
        if not self.is_leader:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by broker {self.leader}, not here"
            )
        if acks == ACKS_ALL and len(self.isr) < self.effective_min_isr:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self.isr)} in-sync replicas, acks=all needs {self.effective_min_isr}",
            )
        result = self.log.append_as_leader(records, leader_epoch=self.leader_epoch, origin=origin)
        metrics = self.topic_metrics
        metrics.bytes_in += len(records)
        metrics.messages_in += result.record_count
        if self.flushes_by_count and (self._flush_task is not None or self.log.flush_is_due):
            self._hold_for_flush(result.first_offset)
        result.high_watermark_moved = self.advance_high_watermark()
        return result

    def acknowledgement(self, required_offset: int, acks: int) -> ErrorCode | None:
        """Say whether records before `required_offset` may be acknowledged: NONE, an error, or None for "not yet"."""
        log = self.log
        if not self.is_leader or log.failure is not None:
            return self.availability()
        if acks != ACKS_ALL:
            return NO_ERROR if required_offset <= self._flushed_to else None
        if log.high_watermark < required_offset:
            return None
        if len(self.isr) < self.effective_min_isr and len(self.maximal_isr) < self.effective_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return NO_ERROR

    def _hold_for_flush(self, first_offset: int) -> None:
        """Hold the high watermark before `first_offset` until a group commit has put the records on disk.

        One task serves all appends of a burst: while it waits for the disk, further appends gather for its next round.
        """
        if self._flush_task is None:
            self._flushed_to = min(first_offset, self.log.log_end_offset)
            self._flush_task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        log = self.log
        try:
            while True:
                target = log.log_end_offset
                await log.flush(target)
                self._flushed_to = target
                if not log.flush_is_due:
                    break
                self._tell_if_moved()
            self._flushed_to = NEVER_HELD
        except ApiError:
            # The log went offline, logged by whoever took it there: those who wait are told KAFKA_STORAGE_ERROR.
            assert log.is_offline, f"the flush of {self.topic_partition} failed, yet its log is not offline"
        finally:
            self._flush_task = None
        self.advance_high_watermark()
        self._surroundings.high_watermark_moved(self)

    def _tell_if_moved(self) -> None:
        if self.advance_high_watermark():
            self._surroundings.high_watermark_moved(self)

    # The high watermark and the in-sync replicas

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The ISR, together with the one that was asked for and not refused yet.

        The high watermark has to respect both: it is not known which of them the controller goes by.
        """
        if self.pending_isr is None:
            return self.isr
        return tuple(dict.fromkeys((*self.isr, *self.pending_isr)))

    def advance_high_watermark(self) -> bool:
        """Move the high watermark to the lowest end among the in-sync replicas; say whether it moved."""
        log = self.log
        offset = log.log_end_offset
        if self._flushed_to < offset:
            offset = self._flushed_to
        if self.followers:
            if len(self.isr) < self.effective_min_isr:
                return False
            offset = self._lowest_in_sync(offset)
        if offset <= log.high_watermark:
            return False
        log.update_high_watermark(offset)
        return True

    def _lowest_in_sync(self, offset: int) -> int:
        """A follower that is caught up but not in the ISR yet counts too, or it could never join a busy leader."""
        leader_end_offset = self.log.log_end_offset
        maximal_isr = self.maximal_isr
        now_ms = self._now_ms()
        lag_max_ms = self._surroundings.replica_lag_time_max_ms
        for follower in self.followers.values():
            if follower.log_end_offset < offset and (
                follower.node_id in maximal_isr
                or (
                    follower.is_caught_up(leader_end_offset=leader_end_offset, now_ms=now_ms, lag_max_ms=lag_max_ms)
                    and self._surroundings.is_alive(follower.node_id)
                )
            ):
                offset = follower.log_end_offset
        return offset

    def follower_fetched(
        self, follower: FollowerReplica, *, fetch_offset: int, log_start_offset: int, broker_epoch: int, leader_end: int
    ) -> None:
        """Note a follower's fetch: it may join the ISR, and the high and the low watermark may move."""
        low_watermark = self.low_watermark()
        previous_end = follower.log_end_offset
        is_current = follower.fetched(
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            now_ms=self._now_ms(),
            leader_end_offset=leader_end,
            broker_epoch=broker_epoch,
        )
        if not is_current:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker epoch {broker_epoch} of replica {follower.node_id} is older than {follower.broker_epoch}",
            )
        self._maybe_expand_isr(follower)
        moved = follower.log_end_offset != previous_end and self.advance_high_watermark()
        if moved or self.low_watermark() > low_watermark:
            self._surroundings.high_watermark_moved(self)

    def _maybe_expand_isr(self, follower: FollowerReplica) -> None:
        if self.pending_isr is not None or follower.node_id in self.isr:
            return
        is_level = (
            follower.log_end_offset >= self.log.high_watermark
            and self.leader_epoch_start_offset is not None
            and follower.log_end_offset >= self.leader_epoch_start_offset
        )
        if is_level and self._surroundings.is_alive(follower.node_id):
            self._propose_isr((*self.isr, follower.node_id))

    def maybe_shrink_isr(self) -> None:
        """Propose an ISR without the followers that lag; called every half of replica.lag.time.max.ms."""
        if not self.is_leader or self.pending_isr is not None or len(self.isr) < 2:
            return
        lagging = set(self._lagging_followers())
        if lagging:
            self._propose_isr(tuple(replica for replica in self.isr if replica not in lagging))

    def _lagging_followers(self) -> Iterable[int]:
        now_ms = self._now_ms()
        lag_max_ms = self._surroundings.replica_lag_time_max_ms
        leader_end_offset = self.log.log_end_offset
        for replica in self.isr:
            follower = self.followers.get(replica)
            if follower is not None and not follower.is_caught_up(
                leader_end_offset=leader_end_offset, now_ms=now_ms, lag_max_ms=lag_max_ms
            ):
                yield replica

    def _propose_isr(self, isr: tuple[int, ...]) -> None:
        self.pending_isr = isr
        self._surroundings.change_isr(self, isr)

    def isr_refused(self, isr: tuple[int, ...]) -> None:
        """Forget a proposed ISR: somebody was quicker, and what holds comes as a registration."""
        if self.pending_isr == isr:
            self.pending_isr = None

    # Offsets

    def low_watermark(self) -> int:
        """Give the lowest log start offset among the replicas that are alive: what was deleted everywhere."""
        offset = self.log.log_start_offset
        for follower in self.followers.values():
            if follower.log_start_offset < offset and self._surroundings.is_alive(follower.node_id):
                offset = follower.log_start_offset
        return offset

    def delete_records(self, offset: int) -> int:
        """Move the log start offset to `offset`, or to the high watermark for -1; give the offset that was meant."""
        if self.availability():
            raise ApiError(self.availability(), f"{self.topic_partition} is not led from here")
        if "delete" not in self.log.config.cleanup_policy:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {self.topic_partition} can not be deleted due to the configured policy",
            )
        meant = self.log.high_watermark if offset == LATEST_HIGH_WATERMARK else offset
        if meant < 0 or meant > self.log.high_watermark:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {meant} of {self.topic_partition} is not between 0 and the high watermark "
                f"{self.log.high_watermark}",
            )
        self.log.advance_log_start_offset(meant)
        return meant

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Give the largest known epoch up to `leader_epoch` and where it ends; (-1, -1) where there is none."""
        return self.log.end_offset_for_epoch(leader_epoch)

    def _now_ms(self) -> float:
        return self._surroundings.clock.monotonic() * 1000
