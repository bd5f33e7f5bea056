"""Makes a consumer a member of its group, by the protocol and the assignors that its settings name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tailrace.client.assignors import Assignor, RangeAssignor, RoundRobinAssignor
from tailrace.client.classic_group import ClassicGroup
from tailrace.client.cluster import Cluster
from tailrace.client.consumer_group_member import GroupMember, PartitionOwner
from tailrace.client.group_coordinator import GroupCoordinator
from tailrace.client.server_group import ServerGroup
from tailrace.client.sticky_assignor import CooperativeStickyAssignor, StickyAssignor
from tailrace.client.subscribed_topics import SubscribedTopics
from tailrace.settings.client_config import ConsumerConfig
from tailrace.settings.config_error import ConfigError

ASSIGNORS: Final[dict[str, type[Assignor]]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
"""The assignors that settings can name."""


def make_member(
    cluster: Cluster,
    config: ConsumerConfig,
    coordinator: GroupCoordinator,
    assignors: Sequence[Assignor] | None,
    topics: SubscribedTopics,
    owner: PartitionOwner,
    changed: Callable[[], None],
) -> GroupMember:
    """Make the member; `assignors` take the place of those that the settings name."""
    if config.uses_consumer_protocol:
        return ServerGroup(cluster, config, coordinator, topics, owner, changed)
    made = find_assignors(config) if assignors is None else assignors
    return ClassicGroup(cluster, config, coordinator, made, topics, owner, changed)


def find_assignors(config: ConsumerConfig) -> list[Assignor]:
    """Make the assignors that the settings name; ConfigError where there is none of such a name."""
    unknown = [name for name in config.partition_assignment_strategy if name not in ASSIGNORS]
    if unknown:
        raise ConfigError("partition.assignment.strategy", unknown[0], f"one of {', '.join(ASSIGNORS)}")
    return [ASSIGNORS[name]() for name in config.partition_assignment_strategy]
