"""The metadata of a cluster of one broker, kept in a file of its data directory: nothing to start, nothing to run.

Each change writes the whole image, durably and off the event loop, before it is seen or answered: first to
`tailrace-metadata.copy.json`, then to `tailrace-metadata.json`. A crash at any byte leaves both whole, the copy perhaps
with a change that nobody was answered. A file that is damaged is renamed, never removed, and the other is taken; where
both are gone the store starts empty and `topic_adoption.py` finds the topics again in the partition directories.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tailrace.broker.features import GROUP_VERSION, METADATA_VERSION, TRANSACTION_VERSION
from tailrace.broker.metadata_file import DamagedMetadata, StoredMetadata, decode_metadata, encode_metadata
from tailrace.broker.metadata_image import MetadataImage
from tailrace.broker.metadata_store import (
    BrokerRegistration,
    ConfigResource,
    MetadataDelta,
    MetadataListener,
    NewTopic,
    TopicRegistration,
)
from tailrace.broker.partition_registration import PartitionRegistration
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.storage.disk import Disk, DiskError

LOGGER = logging.getLogger(__name__)

FILE_NAME = "tailrace-metadata.json"
COPY_FILE_NAME = "tailrace-metadata.copy.json"
FILE_BYTES_MAX = 256 * 1024 * 1024

FEATURES: Mapping[str, int] = {GROUP_VERSION: 1, METADATA_VERSION: 27, TRANSACTION_VERSION: 2}
"""The features of a new cluster: those of Kafka 4.1. A cluster that an earlier version of Tailrace began gets those
that it did not have; the levels that it has stay as they are."""


class LocalMetadataStore:
    """A `MetadataStore` in two files of one directory; made by `open`."""

    def __init__(self, disk: Disk, directory: Path, *, cluster_id: str, node_id: int, image: MetadataImage) -> None:
        self._disk = disk
        self._directory = directory
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._image = image
        self._brokers: dict[int, BrokerRegistration] = {}
        self._listeners: list[MetadataListener] = []
        self._changing = asyncio.Lock()

    @classmethod
    def open(cls, disk: Disk, directory: Path, *, cluster_id: str, node_id: int) -> LocalMetadataStore:
        """Take up the metadata that `directory` holds, or begin with none.

        Raises ValueError where it is that of another cluster or broker, or was written by a newer version: to serve it
        would mix two clusters, and to ignore it would lose one.
        """
        stored = read_stored_metadata(disk, directory)
        if stored is None:
            stored = StoredMetadata(cluster_id, node_id, MetadataImage(features=dict(FEATURES), features_epoch=1))
        if (stored.cluster_id, stored.node_id) != (cluster_id, node_id):
            raise ValueError(
                f"{directory / FILE_NAME} is of node {stored.node_id} in cluster {stored.cluster_id},"
                f" and this broker is node {node_id} in cluster {cluster_id}"
            )
        if not FEATURES.keys() <= stored.image.features.keys():
            stored = stored._replace(image=_with_new_features(stored.image))
            _write(disk, directory, encode_metadata(stored))
        return cls(disk, directory, cluster_id=cluster_id, node_id=node_id, image=stored.image)

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._cluster_id

    @property
    def controller_id(self) -> int:
        """The one broker."""
        return self._node_id

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """The one broker, once it has registered."""
        return self._brokers

    @property
    def topics(self) -> Mapping[str, TopicRegistration]:
        """Every topic by name, in the order of names."""
        return self._image.topics

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized features and their levels."""
        return self._image.features

    @property
    def features_epoch(self) -> int:
        """Counts the changes of `features`."""
        return self._image.features_epoch

    @property
    def revision(self) -> int:
        """Counts all durable changes, over restarts too."""
        return self._image.revision

    @property
    def deleted_topic_ids(self) -> Collection[bytes]:
        """The ids of deleted topics, whose directories may still be there."""
        return self._image.deleted_topic_ids

    def topic(self, name: str) -> TopicRegistration | None:
        """Find a topic by name."""
        return self._image.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicRegistration | None:
        """Find a topic by its id."""
        return self._image.topics_by_id.get(topic_id)

    def partition(self, topic: str, number: int) -> PartitionRegistration | None:
        """Find one partition's leadership."""
        found = self._image.topics.get(topic)
        if found is None or not 0 <= number < len(found.partitions):
            return None
        return found.partitions[number]

    def configs(self, resource: ConfigResource) -> Mapping[str, str]:
        """Give what was set for `resource` itself."""
        return self._image.configs.get(resource, {})

    def config_resources(self) -> Collection[ConfigResource]:
        """Name every resource for which something is set."""
        return self._image.configs.keys()

    def subscribe(self, listener: MetadataListener) -> None:
        """Call `listener` after every change from now on."""
        self._listeners.append(listener)

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[bool]:
        """Create each topic whose name and id are free, all in one durable step; say which were created."""
        created: dict[str, NewTopic] = {}
        accepted: list[bool] = []

        def change(image: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
            for topic in topics:
                is_free = topic.registration.name not in created and image.accepts(topic.registration)
                accepted.append(is_free)
                if is_free:
                    created[topic.registration.name] = topic
            registrations = tuple(topic.registration for topic in created.values())
            return image.with_new_topics(list(created.values())), MetadataDelta(created_topics=registrations)

        await self._change(change)
        return accepted

    async def delete_topics(self, topic_ids: Collection[bytes]) -> None:
        """Forget topics and their overrides; remember their ids."""

        def change(image: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
            found = (image.topics_by_id.get(topic_id) for topic_id in topic_ids)
            return image.without_topics(topic_ids), MetadataDelta(
                deleted_topics=tuple(t for t in found if t is not None)
            )

        await self._change(change)

    async def forget_deleted_topics(self, topic_ids: Collection[bytes]) -> None:
        """Stop remembering deleted topics of which no directory is left."""
        gone = frozenset(topic_ids)

        def change(image: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
            left = tuple(topic_id for topic_id in image.deleted_topic_ids if topic_id not in gone)
            return replace(image, deleted_topic_ids=left), MetadataDelta()

        await self._change(change)

    async def add_partitions(
        self, topic_id: bytes, *, expected_count: int, partitions: Sequence[PartitionRegistration]
    ) -> None:
        """Append partitions to a topic that has `expected_count` of them; raise StaleMetadata where it has not."""

        def change(image: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
            after = image.with_more_partitions(topic_id, expected_count=expected_count, partitions=partitions)
            return after, MetadataDelta(changed_topics=(after.topics_by_id[topic_id],))

        await self._change(change)

    async def change_partition(self, topic: str, number: int, registration: PartitionRegistration) -> None:
        """Replace one partition's leadership by its successor; raise StaleMetadata where it is none."""

        def change(image: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
            after = image.with_partition(topic, number, registration)
            return after, MetadataDelta(changed_topics=(after.topics[topic],))

        await self._change(change)

    async def change_configs(
        self, resource: ConfigResource, *, expected: Mapping[str, str], values: Mapping[str, str]
    ) -> None:
        """Replace all that is set for `resource`; raise StaleMetadata where `expected` is not what is set now."""

        def change(image: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
            after = image.with_configs(resource, expected=expected, values=values)
            return after, MetadataDelta(changed_configs=(resource,))

        await self._change(change)

    async def change_features(self, *, expected: Mapping[str, int], levels: Mapping[str, int]) -> None:
        """Finalize other levels of the features; raise StaleMetadata where `expected` are not the present ones."""

        def change(image: MetadataImage) -> tuple[MetadataImage, MetadataDelta]:
            return image.with_features(expected=expected, levels=levels), MetadataDelta(features_changed=True)

        await self._change(change)

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Make the one broker known; not written down, because its ports may be others at the next start."""
        self._brokers = {**self._brokers, registration.node_id: registration}
        self._tell(MetadataDelta(brokers_changed=True))

    async def _change(self, change: Callable[[MetadataImage], tuple[MetadataImage, MetadataDelta]]) -> None:
        async with self._changing:
            after, delta = change(self._image)
            if after != self._image:
                after = replace(after, revision=self._image.revision + 1)
                data = encode_metadata(StoredMetadata(self._cluster_id, self._node_id, after))
                try:
                    await asyncio.to_thread(_write, self._disk, self._directory, data)
                except DiskError as error:
                    raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the change could not be kept: {error}") from error
                self._image = after
                self._tell(delta)

    def _tell(self, delta: MetadataDelta) -> None:
        for listener in self._listeners:
            try:
                listener(delta)
            except Exception:
                # The change is durable: neither its author nor the other listeners may hear that it failed.
                LOGGER.exception("a listener failed on %r", delta)


def _with_new_features(image: MetadataImage) -> MetadataImage:
    """Give the cluster the features that came since it began, and clients the news that there are other ones."""
    features = {**FEATURES, **image.features}
    LOGGER.info("the cluster's features are now %s", features)
    return replace(image, features=features, features_epoch=image.features_epoch + 1)


def read_stored_metadata(disk: Disk, directory: Path) -> StoredMetadata | None:
    """Read what a directory holds, from the file or its copy; None where there is neither. Sets damaged files aside."""
    was_damaged = False
    for name in (FILE_NAME, COPY_FILE_NAME):
        path = directory / name
        if not disk.exists(path):
            continue
        try:
            stored = decode_metadata(disk.read_file(path, size_max=FILE_BYTES_MAX))
        except DamagedMetadata as error:
            was_damaged = True
            kept = set_aside(disk, path)
            LOGGER.error("the metadata in %s is damaged (%s); it is kept as %s", path, error, kept.name)
            continue
        if was_damaged:
            LOGGER.error("the metadata is taken from its copy %s", path)
        return stored
    if was_damaged:
        LOGGER.error("no metadata is left; topics are rebuilt from the partition directories, without their overrides")
    return None


def set_aside(disk: Disk, path: Path) -> Path:
    """Rename a damaged file to a name that is free, so that nothing of it is lost; give that name."""
    number = 1
    while disk.exists(kept := path.with_name(f"{path.name}.damaged-{number}")):
        number += 1
    disk.rename(path, kept)
    return kept


def _write(disk: Disk, directory: Path, data: bytes) -> None:
    disk.replace_file(directory / COPY_FILE_NAME, data)
    disk.replace_file(directory / FILE_NAME, data)
