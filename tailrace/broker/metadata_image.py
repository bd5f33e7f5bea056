"""The whole of a cluster's metadata at one moment, and how each change makes the next one.

Pure: every function gives a new image and leaves the old one as it is, so a reader that kept one sees no half of a
change. `local_metadata_store.py` writes images down and says what changed; `metadata_file.py` has their bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tailrace.broker.metadata_store import ConfigResource, NewTopic, StaleMetadata, TopicRegistration
from tailrace.broker.partition_registration import PartitionRegistration

DELETED_IDS_MAX = 10_000
"""How many deleted topics are remembered: their directories go within a minute, so the oldest are long gone."""


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """Topics in the order of their names, overrides, features, and the topics that were deleted last."""

    topics: Mapping[str, TopicRegistration] = field(default_factory=dict[str, TopicRegistration])
    topics_by_id: Mapping[bytes, TopicRegistration] = field(default_factory=dict[bytes, TopicRegistration])
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict[ConfigResource, Mapping[str, str]])
    deleted_topic_ids: tuple[bytes, ...] = ()
    features: Mapping[str, int] = field(default_factory=dict[str, int])
    features_epoch: int = 0
    revision: int = 0
    """How many changes made this image."""

    def with_topics(self, topics: Mapping[str, TopicRegistration]) -> MetadataImage:
        """Give the image with these topics and no others."""
        ordered = dict(sorted(topics.items()))
        return replace(self, topics=ordered, topics_by_id={topic.topic_id: topic for topic in ordered.values()})

    def accepts(self, topic: TopicRegistration) -> bool:
        """Whether the name and the id of a new topic are free."""
        return topic.name not in self.topics and topic.topic_id not in self.topics_by_id

    def with_new_topics(self, new_topics: Sequence[NewTopic]) -> MetadataImage:
        """Add topics that the image accepts, each name and id once."""
        topics = dict(self.topics)
        configs = dict(self.configs)
        for new in new_topics:
            topics[new.registration.name] = new.registration
            if new.configs:
                configs[ConfigResource.topic(new.registration.name)] = dict(new.configs)
        return replace(self.with_topics(topics), configs=configs)

    def without_topics(self, topic_ids: Collection[bytes]) -> MetadataImage:
        """Take topics away with their overrides, and remember their ids."""
        gone = [topic_id for topic_id in dict.fromkeys(topic_ids) if topic_id in self.topics_by_id]
        names = {self.topics_by_id[topic_id].name for topic_id in gone}
        resources = {ConfigResource.topic(name) for name in names}
        return replace(
            self.with_topics({name: topic for name, topic in self.topics.items() if name not in names}),
            configs={resource: values for resource, values in self.configs.items() if resource not in resources},
            deleted_topic_ids=(*self.deleted_topic_ids, *gone)[-DELETED_IDS_MAX:],
        )

    def with_more_partitions(
        self, topic_id: bytes, *, expected_count: int, partitions: Sequence[PartitionRegistration]
    ) -> MetadataImage:
        """Append partitions to a topic; StaleMetadata where it is gone or has not `expected_count` of them."""
        topic = self.topics_by_id.get(topic_id)
        if topic is None or len(topic.partitions) != expected_count:
            raise StaleMetadata
        changed = replace(topic, partitions=(*topic.partitions, *partitions))
        return self.with_topics({**self.topics, topic.name: changed})

    def with_partition(self, name: str, number: int, registration: PartitionRegistration) -> MetadataImage:
        """Replace one partition by its successor; StaleMetadata where it is not the successor of what is there."""
        topic = self.topics.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            raise StaleMetadata
        if registration.partition_epoch != topic.partitions[number].partition_epoch + 1:
            raise StaleMetadata
        partitions = (*topic.partitions[:number], registration, *topic.partitions[number + 1 :])
        return self.with_topics({**self.topics, name: replace(topic, partitions=partitions)})

    def with_configs(
        self, resource: ConfigResource, *, expected: Mapping[str, str], values: Mapping[str, str]
    ) -> MetadataImage:
        """Replace what is set for `resource`; StaleMetadata where `expected` is not what is set."""
        if dict(self.configs.get(resource, {})) != dict(expected):
            raise StaleMetadata
        configs = {key: value for key, value in self.configs.items() if key != resource}
        if values:
            configs[resource] = dict(values)
        return replace(self, configs=configs)

    def with_features(self, *, expected: Mapping[str, int], levels: Mapping[str, int]) -> MetadataImage:
        """Replace the features' levels; StaleMetadata where `expected` are not the present ones."""
        if dict(self.features) != dict(expected):
            raise StaleMetadata
        if dict(self.features) == dict(levels):
            return self
        return replace(self, features=dict(levels), features_epoch=self.features_epoch + 1)
