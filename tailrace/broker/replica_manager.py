"""Every partition this broker replicates, and the requests that wait for them.

It obeys the metadata store: partitions appear, change their leader and go as the store says. It knows who waits:
whoever moves a high watermark or appends a record has the delayed produces, fetches and deletions of that partition
tried. Keys of the purgatories are the `Partition` objects themselves.

What a request may do is decided by the handlers; what one partition answers, by `partition.py` and
`partition_fetch.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.broker.fetch_session import Found, SessionPartition
from tailrace.broker.metadata_store import (
    ConfigResource,
    ConfigResourceType,
    MetadataDelta,
    MetadataStore,
    StaleMetadata,
    TopicRegistration,
)
from tailrace.broker.metrics.registry import BrokerMetrics, TopicMetrics
from tailrace.broker.partition import Partition
from tailrace.broker.partition_fetch import FetchParams, failed_partition, read_partition, upper_offset
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.broker.purgatory import DelayedOperationPurgatory
from tailrace.clock import Clock, TimerHandle
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import ZERO_UUID, uuid_text
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.log_config import LogConfig
from tailrace.storage.disk import DiskError

if TYPE_CHECKING:
    from tailrace.storage.log_manager import LogManager

LOGGER = logging.getLogger(__name__)

KNOWN_FETCH_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that are no failure of the broker: `failed_fetch_requests` does not count them, as Kafka does not."""


class ReplicaManager:
    """The partitions of one broker."""

    def __init__(
        self,
        *,
        node_id: int,
        config: BrokerConfig,
        clock: Clock,
        metadata: MetadataStore,
        log_manager: LogManager,
        metrics: BrokerMetrics,
    ) -> None:
        self.node_id = node_id
        self.config = config
        self.clock = clock
        self.metadata = metadata
        self.log_manager = log_manager
        self.metrics = metrics
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.produce_purgatory = DelayedOperationPurgatory("Produce", clock)
        self.fetch_purgatory = DelayedOperationPurgatory("Fetch", clock)
        self.delete_records_purgatory = DelayedOperationPurgatory("DeleteRecords", clock)
        self._purgatories = (self.produce_purgatory, self.fetch_purgatory, self.delete_records_purgatory)
        self.expired_fetches = {"follower": 0, "consumer": 0}
        self._unmade: set[tuple[str, int]] = set()
        self._isr_timer: TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # Life

    def start(self) -> None:
        """Take up every partition the metadata store assigns to this broker, and listen for changes."""
        self._loop = asyncio.get_running_loop()
        for topic in self.metadata.topics.values():
            self._apply_topic(topic)
        self.metadata.subscribe(self.on_metadata)
        self._schedule_isr_check()

    async def stop(self) -> None:
        """Answer all who wait as if their time were over, and finish what was begun. Logs are the log manager's."""
        if self._isr_timer is not None:
            self._isr_timer.cancel()
            self._isr_timer = None
        for purgatory in self._purgatories:
            purgatory.expire_all()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by another broker configuration; topics without an override of their own follow it."""
        self.config = config
        for name in {topic for topic, _ in self.partitions}:
            self._apply_config(name)

    # What the metadata store says

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Follow one change of the image."""
        for topic in delta.deleted_topics:
            self._remove_topic(topic)
        for topic in delta.created_topics:
            self._apply_topic(topic, is_new=True)
        for topic in delta.changed_topics:
            self._apply_topic(topic)
        for resource in delta.changed_configs:
            if resource.resource_type is ConfigResourceType.TOPIC:
                self._apply_config(resource.name)

    def _apply_topic(self, topic: TopicRegistration, *, is_new: bool = False) -> None:
        for number, registration in enumerate(topic.partitions):
            key = (topic.name, number)
            partition = self.partitions.get(key)
            if self.node_id not in registration.replicas:
                if partition is not None:
                    self._remove_partition(partition)
                continue
            if partition is not None and partition.topic_id != topic.topic_id:
                self._remove_partition(partition)  # deleted and made anew under the same name
                partition = None
            if partition is None:
                partition = self._make_partition(topic, number, is_new=is_new)
            if partition is not None:
                self._apply_registration(partition, registration)

    def _make_partition(self, topic: TopicRegistration, number: int, *, is_new: bool) -> Partition | None:
        topic_partition = TopicPartition(topic.name, number)
        try:
            config = self._log_config(topic.name)
            log = self.log_manager.get_or_create(topic_partition, topic.topic_id, config, is_new=is_new)
        except (ApiError, DiskError):
            # The other partitions serve; this one is answered with KAFKA_STORAGE_ERROR, as in an offline directory.
            LOGGER.exception("no log could be made for %s", topic_partition)
            self._unmade.add(topic_partition)
            return None
        self._unmade.discard(topic_partition)
        partition = Partition(
            topic_partition,
            topic.topic_id,
            log=log,
            topic_metrics=self.metrics.topic(topic.name),
            surroundings=self,
        )
        self.partitions[topic_partition] = partition
        return partition

    def _apply_registration(self, partition: Partition, registration: PartitionRegistration) -> None:
        was_leader = partition.is_leader
        partition.apply(registration)
        if was_leader:
            self.high_watermark_moved(partition)

    def _remove_topic(self, topic: TopicRegistration) -> None:
        for number in range(len(topic.partitions)):
            self._unmade.discard((topic.name, number))
            partition = self.partitions.get((topic.name, number))
            if partition is not None and partition.topic_id == topic.topic_id:
                self._remove_partition(partition)
        if not any(name == topic.name for name, _ in self.partitions):
            self.metrics.remove_topic(topic.name)

    def _remove_partition(self, partition: Partition) -> None:
        del self.partitions[partition.topic_partition]
        partition.remove()
        self.high_watermark_moved(partition)
        try:
            self.log_manager.delete(partition.topic_partition)
        except (ApiError, DiskError):
            LOGGER.exception("the log of %s could not be deleted", partition.topic_partition)

    def _apply_config(self, name: str) -> None:
        topic = self.metadata.topic(name)
        if topic is None:
            return
        config = self._log_config(name)
        for number in range(len(topic.partitions)):
            partition = self.partitions.get((name, number))
            if partition is not None:
                partition.set_config(config)
                partition.advance_high_watermark()
                self.high_watermark_moved(partition)

    def _log_config(self, name: str) -> LogConfig:
        return LogConfig.from_overrides(self.config, self.metadata.configs(ConfigResource.topic(name)))

    # Looking up

    def partition(self, topic: str, number: int) -> Partition:
        """Find a partition that is here; raise what a client is to be told where it is not."""
        partition = self.partitions.get((topic, number))
        if partition is not None:
            return partition
        name = TopicPartition(topic, number)
        if (topic, number) in self._unmade:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {name} could not be opened")
        if self.metadata.partition(topic, number) is not None:
            # The topic exists, but not here: the client is to ask for metadata and to find the broker that has it.
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name} is not on this broker")
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {name}")

    def fetched_partition(self, asked: SessionPartition) -> Partition:
        """Find the partition a fetch names, and make sure that name and topic id still mean the same one (KIP-516)."""
        partition = asked.found
        if partition is not None and not partition.is_removed:
            return partition
        partition = self.partition(asked.topic or "", asked.partition)
        if asked.topic_id != partition.topic_id and asked.topic_id != ZERO_UUID:
            raise ApiError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"the id of {partition.topic_partition} is {uuid_text(partition.topic_id)}, "
                f"not {uuid_text(asked.topic_id)}",
            )
        asked.found = partition
        return partition

    # Records

    def appended(self, partition: Partition, *, high_watermark_moved: bool) -> None:
        """Try those who wait for what an append has done.

        It is called when all partitions of a request are appended to, so that a fetch which waits for several of them
        is answered with all of it.
        """
        if high_watermark_moved:
            self.high_watermark_moved(partition)
        elif partition in self.fetch_purgatory.watchers:
            # A follower waits for the log's end, and that has moved.
            self.fetch_purgatory.check_and_complete(partition)

    def read(
        self, params: FetchParams, asked_partitions: Iterable[SessionPartition], *, update_follower: bool
    ) -> tuple[list[Found], int, bool]:
        """Read for a fetch; give what was found, how many bytes that is, and whether it has to be answered at once.

        The first partition that has records gives at least one batch, however large; from then on the limits hold.
        """
        bytes_left = params.max_bytes
        bytes_read = 0
        min_one_message = True
        is_urgent = False
        found: list[Found] = []
        for asked in asked_partitions:
            bytes_max = asked.max_bytes if asked.max_bytes < bytes_left else bytes_left
            try:
                data = read_partition(
                    self.fetched_partition(asked),
                    asked,
                    params,
                    bytes_max=bytes_max,
                    min_one_message=min_one_message,
                    update_follower=update_follower,
                )
                size = len(data.records)  # type: ignore[arg-type]  # an answer always has records, if empty ones
                if size:
                    min_one_message = False
                    bytes_read += size
                    bytes_left = bytes_left - size if size < bytes_left else 0
                elif data.diverging_epoch.epoch >= 0:
                    is_urgent = True
            except ApiError as error:
                data = failed_partition(asked.partition, self._fetch_failed(asked, error))
                is_urgent = True
            found.append((asked, data))
        return found, bytes_read, is_urgent

    def partitions_at_their_end(
        self, params: FetchParams, asked_partitions: Iterable[SessionPartition]
    ) -> list[Partition] | None:
        """Give the partitions of a consumer's fetch where all of them have nothing to read yet; None where any has.

        That is what a consumer at the tail asks each time, and to see it is cheaper than to read nothing and to try in
        vain to complete. Followers are left out: their reads are noted.
        """
        if params.replica_id >= 0:
            return None
        partitions: list[Partition] = []
        isolation, leader_only = params.isolation, params.leader_only
        try:
            for asked in asked_partitions:
                partition = self.fetched_partition(asked)
                partition.check_leader_epoch(asked.current_leader_epoch, leader_only=leader_only)
                if asked.last_fetched_epoch >= 0 or asked.fetch_offset != upper_offset(partition, isolation):
                    return None
                partitions.append(partition)
        except ApiError:
            return None  # reading says it in the words of the answer
        return partitions

    def _fetch_failed(self, asked: SessionPartition, error: ApiError) -> ErrorCode:
        if error.code not in KNOWN_FETCH_ERRORS:
            self.topic_metrics(asked.topic).failed_fetch_requests += 1
            LOGGER.error("reading %s-%d for a fetch failed", asked.topic, asked.partition, exc_info=error)
        else:
            LOGGER.debug("fetch of %s-%d at %d: %s", asked.topic, asked.partition, asked.fetch_offset, error)
        return error.code

    # Those who wait

    def high_watermark_moved(self, partition: Partition) -> None:
        """Try all who wait for this partition: its high or low watermark moved, or it changed its leader."""
        for purgatory in self._purgatories:
            if partition in purgatory.watchers:
                purgatory.check_and_complete(partition)

    def directory_offline(self, path: Path) -> None:
        """Answer all who wait for partitions of a data directory that has failed; may be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._answer_offline, path)

    def _answer_offline(self, path: Path) -> None:
        for partition in list(self.partitions.values()):
            if partition.log.directory.parent == path:
                self.high_watermark_moved(partition)

    def fetch_expired(self, *, is_from_follower: bool) -> None:
        """Count a fetch whose time ran out."""
        self.expired_fetches["follower" if is_from_follower else "consumer"] += 1

    # What a partition asks of its broker

    @property
    def replica_lag_time_max_ms(self) -> float:
        """How long a follower may lag before it is out of sync."""
        return self.config.replica_lag_time_max_ms

    def is_alive(self, node_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        registration = self.metadata.brokers.get(node_id)
        return registration is not None and not registration.is_fenced

    def change_isr(self, partition: Partition, isr: tuple[int, ...]) -> None:
        """Propose another ISR to the metadata store; its answer comes as a new registration."""
        registration = PartitionRegistration(
            replicas=partition.replicas,
            isr=isr,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch + 1,
        )
        task = asyncio.get_running_loop().create_task(self._change_isr(partition, registration))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _change_isr(self, partition: Partition, registration: PartitionRegistration) -> None:
        topic, number = partition.topic_partition
        LOGGER.info("%s: in-sync replicas %s -> %s", partition.topic_partition, partition.isr, registration.isr)
        try:
            await self.metadata.change_partition(topic, number, registration)
        except StaleMetadata:
            partition.isr_refused(registration.isr)
        except Exception:
            partition.isr_refused(registration.isr)
            LOGGER.exception("the in-sync replicas of %s could not be changed", partition.topic_partition)

    def _schedule_isr_check(self) -> None:
        self._isr_timer = self.clock.call_later(self.replica_lag_time_max_ms / 2, self._check_isrs)

    def _check_isrs(self) -> None:
        for partition in list(self.partitions.values()):
            if partition.followers:
                partition.maybe_shrink_isr()
        self._schedule_isr_check()

    # Counting

    def topic_metrics(self, topic: str | None) -> TopicMetrics:
        """Give the numbers of a topic that is there; those of no topic in particular for every other name."""
        return self.metrics.topic(topic) if topic and self.metadata.topic(topic) is not None else self.metrics.any_topic

    def fetched_metrics(self, asked: SessionPartition) -> TopicMetrics:
        """Give the numbers of the topic a fetch names, without a look-up where its partition was found before."""
        partition = asked.found
        return self.topic_metrics(asked.topic) if partition is None else partition.topic_metrics
