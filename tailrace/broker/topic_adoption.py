"""Partition directories and metadata, brought into agreement before the logs are opened.

A partition directory is data, and data outlives metadata: what lies in a data directory and is in no metadata of ours
(copied from Apache Kafka, or left when the metadata was lost) becomes a topic again. Its id comes from
`partition.metadata`, its name from the directory, its partitions are 0 to the highest number found; those between that
are missing are created empty, because keyed producers count on the number. Retention is switched off for such a topic:
its overrides are unknown, and the defaults might delete what they kept. A directory whose topic id contradicts the
topic of its name is renamed to `...-stray`, as Kafka does; only directories of topics that were deleted here go. An id
that is missing, unreadable or wrong in a single character is damage, and is mended.

`plan_adoption` decides, `adopt_topics` does it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tailrace.broker.internal_topics import internal_topic_shape
from tailrace.broker.local_metadata_store import LocalMetadataStore, set_aside
from tailrace.broker.metadata_store import NewTopic, TopicRegistration
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.broker.topic_names import is_valid_topic_name
from tailrace.protocol.topic_partition import TopicPartition
from tailrace.protocol.uuid import random_uuid, uuid_text
from tailrace.settings.broker_config import BrokerConfig
from tailrace.storage.disk import Disk, DiskError
from tailrace.storage.errors import CorruptFile
from tailrace.storage.leader_epoch_cache import LeaderEpochCache
from tailrace.storage.partition_directory import DELETE_SUFFIX, STRAY_SUFFIX, marked_name, parse_directory_name
from tailrace.storage.partition_metadata import FILE_NAME as PARTITION_METADATA
from tailrace.storage.partition_metadata import read_partition_metadata, write_partition_metadata

LOGGER = logging.getLogger(__name__)

MISSING_PARTITIONS_MAX = 1000
"""A directory whose number would call for more empty partitions than this is taken for something else."""

UNKNOWN_RETENTION: Mapping[str, str] = {"retention.ms": "-1", "retention.bytes": "-1"}
"""The overrides of an adopted topic: nothing is deleted until somebody says so."""


class FoundPartition(NamedTuple):
    """A partition directory as it lies there; `leader_epoch` is the last one that its log knows, or -1."""

    directory: Path
    topic: str
    number: int
    topic_id: bytes | None
    leader_epoch: int = -1


@dataclass(slots=True)
class AdoptionPlan:
    """What has to be done so that metadata and directories agree."""

    new_topics: list[NewTopic] = field(default_factory=list[NewTopic])
    more_partitions: list[tuple[TopicRegistration, list[PartitionRegistration]]] = field(
        default_factory=list[tuple[TopicRegistration, list[PartitionRegistration]]]
    )
    strays: list[tuple[FoundPartition, str]] = field(default_factory=list[tuple[FoundPartition, str]])
    mended: list[tuple[FoundPartition, bytes]] = field(default_factory=list[tuple[FoundPartition, bytes]])
    deletions: list[FoundPartition] = field(default_factory=list[FoundPartition])
    forgotten_ids: frozenset[bytes] = frozenset()


async def adopt_topics(disk: Disk, store: LocalMetadataStore, config: BrokerConfig, node_id: int) -> AdoptionPlan:
    """Bring metadata and directories into agreement; call it before the logs are loaded."""
    found = find_partitions(disk, [Path(directory) for directory in config.log_directories])
    plan = plan_adoption(found, store.topics, store.deleted_topic_ids, config=config, node_id=node_id)
    for partition, reason in plan.strays:
        target = _take_out_of_use(disk, partition, STRAY_SUFFIX)
        LOGGER.error("%s is not served: %s; it is kept as %s", partition.directory, reason, target.name)
    for partition, topic_id in plan.mended:
        _mend(disk, partition, topic_id)
    for partition in plan.deletions:
        target = _take_out_of_use(disk, partition, DELETE_SUFFIX)
        LOGGER.info("%s belongs to a deleted topic and goes, as %s", partition.directory, target.name)
    for new in plan.new_topics:
        LOGGER.warning(
            "topic %s is adopted: %d partition(s), id %s, overrides %s",
            new.registration.name,
            len(new.registration.partitions),
            uuid_text(new.registration.topic_id),
            dict(new.configs),
        )
    await store.create_topics(plan.new_topics)
    for topic, partitions in plan.more_partitions:
        LOGGER.warning("topic %s has %d more partition(s) on disk than in metadata", topic.name, len(partitions))
        await store.add_partitions(topic.topic_id, expected_count=len(topic.partitions), partitions=partitions)
    await store.forget_deleted_topics(plan.forgotten_ids)
    return plan


def find_partitions(disk: Disk, directories: Sequence[Path]) -> list[FoundPartition]:
    """List the partition directories: `topic-number` with a topic id or a segment in it."""
    found: list[FoundPartition] = []
    for directory in directories:
        try:
            names = disk.list_directory(directory)
        except DiskError as error:
            if not error.is_missing:
                LOGGER.exception("%s can't be listed; its partitions are offline", directory)
            continue
        for name in names:
            topic_partition = parse_directory_name(name)
            if topic_partition is None or not is_valid_topic_name(topic_partition.topic):
                continue
            partition = _look(disk, directory / name, topic_partition)
            if partition is not None:
                found.append(partition)
    return found


def plan_adoption(
    found: Sequence[FoundPartition],
    topics: Mapping[str, TopicRegistration],
    deleted_topic_ids: Collection[bytes],
    *,
    config: BrokerConfig,
    node_id: int,
) -> AdoptionPlan:
    """Decide, from what lies there and what the metadata says, what has to change."""
    plan = AdoptionPlan()
    deleted = frozenset(deleted_topic_ids)
    used_ids = {topic.topic_id: name for name, topic in topics.items()}
    by_topic: dict[str, list[FoundPartition]] = {}
    for partition in found:
        if partition.topic_id is not None and partition.topic_id in deleted:
            plan.deletions.append(partition)
        else:
            by_topic.setdefault(partition.topic, []).append(partition)
    plan.forgotten_ids = deleted - {partition.topic_id for partition in plan.deletions}
    for name, partitions in sorted(by_topic.items()):
        known = topics.get(name)
        topic_id = known.topic_id if known is not None else _common_id(partitions)
        owner = used_ids.get(topic_id)
        if owner not in (None, name):
            reason = f"its topic id {uuid_text(topic_id)} is that of topic {owner}"
            plan.strays += [(partition, reason) for partition in partitions]
            continue
        used_ids[topic_id] = name
        own = _without_strays(plan, partitions, topic_id, present=len(known.partitions) if known is not None else 0)
        _adopt(plan, name, topic_id, own, known, config=config, node_id=node_id)
    return plan


def _without_strays(
    plan: AdoptionPlan, partitions: Sequence[FoundPartition], topic_id: bytes, *, present: int
) -> list[FoundPartition]:
    own: list[FoundPartition] = []
    for partition in sorted(partitions, key=lambda partition: partition.number):
        missing = partition.number - max(present, own[-1].number + 1 if own else 0)
        if not _may_be(partition.topic_id, topic_id):
            present_id = uuid_text(partition.topic_id or b"")
            plan.strays.append((partition, f"its topic id is {present_id}, and the topic's is {uuid_text(topic_id)}"))
        elif missing > MISSING_PARTITIONS_MAX:
            plan.strays.append((partition, f"its number would leave {missing} partitions before it empty"))
        else:
            own.append(partition)  # twice, where it lies in two directories: the log manager takes that offline
            if partition.topic_id != topic_id:
                plan.mended.append((partition, topic_id))
    return own


def _may_be(found: bytes | None, topic_id: bytes) -> bool:
    """Whether an id is the expected one, or that with damage: ids made by chance differ in more than a character."""
    if found is None or found == topic_id:
        return True
    return sum(one != other for one, other in zip(uuid_text(found), uuid_text(topic_id), strict=True)) == 1


def _adopt(
    plan: AdoptionPlan,
    name: str,
    topic_id: bytes,
    partitions: Sequence[FoundPartition],
    known: TopicRegistration | None,
    *,
    config: BrokerConfig,
    node_id: int,
) -> None:
    present = len(known.partitions) if known is not None else 0
    epochs = {partition.number: partition.leader_epoch for partition in partitions}
    count = max(epochs, default=-1) + 1
    # Whoever leads now is a new leader: its epoch follows the last one in the log, which must not run backwards.
    registrations = [
        PartitionRegistration(
            replicas=(node_id,), isr=(node_id,), leader=node_id, leader_epoch=epochs.get(number, -1) + 1
        )
        for number in range(present, count)
    ]
    if not registrations:
        return
    if known is not None:
        plan.more_partitions.append((known, registrations))
        return
    shape = internal_topic_shape(config, name, brokers=1)
    configs = UNKNOWN_RETENTION if shape is None else shape.configs
    plan.new_topics.append(NewTopic(TopicRegistration(name, topic_id, tuple(registrations)), configs))


def _common_id(partitions: Sequence[FoundPartition]) -> bytes:
    """Pick the id that most partitions have, of several the one that comes first; make one where none has any."""
    ids = Counter(partition.topic_id for partition in partitions if partition.topic_id is not None)
    return ids.most_common(1)[0][0] if ids else random_uuid()


def _look(disk: Disk, directory: Path, topic_partition: TopicPartition) -> FoundPartition | None:
    try:
        names = disk.list_directory(directory)
    except DiskError:
        if not disk.is_directory(directory):
            return None
        LOGGER.exception("%s can't be listed; it is not adopted", directory)
        return None
    if PARTITION_METADATA not in names and not any(name.endswith(".log") for name in names):
        return None
    topic_id: bytes | None = None
    try:
        topic_id = read_partition_metadata(disk, directory)
    except (CorruptFile, DiskError) as error:
        LOGGER.error("%s does not tell its topic id, the other partitions have to: %s", topic_partition, error)
    return FoundPartition(directory, *topic_partition, topic_id, _last_epoch(disk, directory, names))


def _last_epoch(disk: Disk, directory: Path, names: Collection[str]) -> int:
    if "leader-epoch-checkpoint" not in names:
        return -1
    try:
        epoch = LeaderEpochCache(disk, directory / "leader-epoch-checkpoint").latest_epoch
    except (CorruptFile, DiskError) as error:
        LOGGER.error("the leader epochs of %s can't be read; recovery finds them in the log: %s", directory, error)
        return -1
    return -1 if epoch is None else epoch


def _mend(disk: Disk, partition: FoundPartition, topic_id: bytes) -> None:
    path = partition.directory / PARTITION_METADATA
    if disk.exists(path):
        kept = set_aside(disk, path)
        LOGGER.error("%s is damaged; it is kept as %s and written anew", path, kept.name)
    write_partition_metadata(disk, partition.directory, topic_id)


def _take_out_of_use(disk: Disk, partition: FoundPartition, suffix: str) -> Path:
    name = marked_name(TopicPartition(partition.topic, partition.number), random_uuid().hex(), suffix)
    target = partition.directory.with_name(name)
    disk.rename(partition.directory, target)
    return target
