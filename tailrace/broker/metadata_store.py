"""What the cluster has agreed on: its brokers, topics, partitions, configurations and features.

Reading is synchronous and costs a dictionary look-up: a store holds the whole image in memory. Changing is asynchronous
and compare-and-swap shaped, so that local files (one broker, `local_metadata_store.py`) and a consensus store fit
behind the same face: a change says what it believes is there now, and fails where somebody was quicker. A change is
durable before its call returns and before listeners hear of it. Listeners run on the event loop, in the order in which
they subscribed, after the image was replaced; they must not await and must not change the store from within.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

from tailrace.broker.broker import Endpoint
from tailrace.broker.partition_registration import PartitionRegistration


class ConfigResourceType(IntEnum):
    """What a configuration belongs to, as DescribeConfigs numbers it."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """The owner of a set of configurations; a broker's name is its node id, or "" for all brokers' default."""

    resource_type: ConfigResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        """Give the resource that holds a topic's overrides."""
        return cls(ConfigResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> ConfigResource:
        """Give the resource that holds what was set for one broker alone."""
        return cls(ConfigResourceType.BROKER, str(node_id))


ALL_BROKERS = ConfigResource(ConfigResourceType.BROKER, "")
"""What was set for every broker at once: Kafka calls it the dynamic default."""


@dataclass(frozen=True, slots=True)
class TopicRegistration:
    """A topic and its partitions; a partition's number is its place in `partitions`."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionRegistration, ...]


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker that takes part, and where its clients reach it by each listener."""

    node_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    is_fenced: bool = False

    def endpoint_for(self, listener_name: str) -> Endpoint | None:
        """Give the address for clients that came through `listener_name`."""
        for endpoint in self.endpoints:
            if endpoint.listener_name == listener_name:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic that shall be there from now on, with its overrides."""

    registration: TopicRegistration
    configs: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """What one change did to the image; what is not named did not change.

    `changed_topics` have other leaders, replicas, in-sync sets or more partitions than before. A topic's own overrides
    come with its creation and go with its deletion without a word in `changed_configs`.
    """

    created_topics: tuple[TopicRegistration, ...] = ()
    deleted_topics: tuple[TopicRegistration, ...] = ()
    changed_topics: tuple[TopicRegistration, ...] = ()
    changed_configs: tuple[ConfigResource, ...] = ()
    brokers_changed: bool = False
    features_changed: bool = False


MetadataListener: TypeAlias = Callable[[MetadataDelta], None]


class StaleMetadata(Exception):
    """The image changed since the caller looked: look again and decide anew."""


class MetadataStore(Protocol):
    """The cluster's agreed state; see the module's docstring."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id, made once and kept for ever."""
        ...

    @property
    def controller_id(self) -> int:
        """The broker that administrative requests go to, or -1 while there is none."""
        ...

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """The registered brokers by node id."""
        ...

    @property
    def topics(self) -> Mapping[str, TopicRegistration]:
        """Every topic by name, in the order of names."""
        ...

    @property
    def features(self) -> Mapping[str, int]:
        """The finalized features and their levels."""
        ...

    @property
    def features_epoch(self) -> int:
        """Counts the changes of `features`."""
        ...

    @property
    def revision(self) -> int:
        """Counts all durable changes, over restarts too."""
        ...

    def topic(self, name: str) -> TopicRegistration | None:
        """Find a topic by name."""
        ...

    def topic_by_id(self, topic_id: bytes) -> TopicRegistration | None:
        """Find a topic by its id."""
        ...

    def partition(self, topic: str, number: int) -> PartitionRegistration | None:
        """Find one partition's leadership."""
        ...

    def configs(self, resource: ConfigResource) -> Mapping[str, str]:
        """Give what was set for `resource` itself, without defaults; empty where nothing was."""
        ...

    def config_resources(self) -> Collection[ConfigResource]:
        """Name every resource for which something is set."""
        ...

    def subscribe(self, listener: MetadataListener) -> None:
        """Call `listener` after every change from now on."""
        ...

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[bool]:
        """Create each topic whose name and id are free, all in one durable step; say which were created."""
        ...

    async def delete_topics(self, topic_ids: Collection[bytes]) -> None:
        """Forget topics and their overrides; remember their ids, so that no left-over directory revives them."""
        ...

    async def add_partitions(
        self, topic_id: bytes, *, expected_count: int, partitions: Sequence[PartitionRegistration]
    ) -> None:
        """Append partitions to a topic that has `expected_count` of them; raise StaleMetadata where it has not."""
        ...

    async def change_partition(self, topic: str, number: int, registration: PartitionRegistration) -> None:
        """Replace one partition's leadership by its successor.

        The successor's partition epoch is one more than the present one; raise StaleMetadata where it is not.
        """
        ...

    async def change_configs(
        self, resource: ConfigResource, *, expected: Mapping[str, str], values: Mapping[str, str]
    ) -> None:
        """Replace all that is set for `resource`; raise StaleMetadata where `expected` is not what is set now."""
        ...

    async def change_features(self, *, expected: Mapping[str, int], levels: Mapping[str, int]) -> None:
        """Finalize other levels of the features; raise StaleMetadata where `expected` are not the present ones."""
        ...

    async def register_broker(self, registration: BrokerRegistration) -> None:
        """Make a broker known, or replace what was known of it."""
        ...
