"""What all consumer groups of a broker share: the topics of the cluster, their hashes, and the settings of each group.

Topics change under the groups: those that are subscribed to a topic that came, went or grew look at their topics again
with their next heartbeat, and new topics are tried on the patterns. `topics_version` counts for that: it rises with
each new topic, and starts above all that an earlier run of this broker wrote into records, because it is a time.
"""

from __future__ import annotations

import logging

from tailrace.broker.groups.assignors.assignors import ASSIGNORS
from tailrace.broker.groups.assignors.group_spec import Assignor
from tailrace.broker.groups.consumer_decision import ConsumerRules, Surroundings
from tailrace.broker.groups.metadata_hash import ClusterTopics, TopicHashes
from tailrace.broker.metadata_store import ConfigResource, ConfigResourceType, MetadataDelta
from tailrace.broker.replica_manager import ReplicaManager
from tailrace.settings.broker_config import BrokerConfig
from tailrace.settings.config_error import ConfigError
from tailrace.settings.group_config import GroupConfig

LOGGER = logging.getLogger(__name__)


class ConsumerServices:
    """See the module's docstring. Call `take_in` with each change of the metadata."""

    def __init__(self, replica_manager: ReplicaManager) -> None:
        self._manager = replica_manager
        self._metadata = replica_manager.metadata
        self.clock = replica_manager.clock
        self.hashes = TopicHashes(self._metadata)
        self.topics_version = self.clock.time_ms()
        self.new_topics_version = self.topics_version
        self._rules: dict[str, tuple[BrokerConfig, ConsumerRules]] = {}

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings as they are now."""
        return self._manager.config

    @property
    def cluster(self) -> ClusterTopics:
        """The topics and brokers as they are now."""
        return self._metadata

    def surroundings(self, group_id: str, *, is_resolving: bool = False) -> Surroundings:
        """Give what a decision about a group goes by at this moment."""
        return Surroundings(
            now_ms=self.clock.time_ms(),
            cluster=self._metadata,
            hashes=self.hashes,
            rules=self.rules(group_id),
            new_topics_version=self.new_topics_version,
            is_resolving=is_resolving,
        )

    def rules(self, group_id: str) -> ConsumerRules:
        """Give a group's settings: its own, else the broker's."""
        config = self._manager.config
        known = self._rules.get(group_id)
        if known is not None and known[0] is config:
            return known[1]
        rules = self._make_rules(config, group_id)
        self._rules[group_id] = (config, rules)
        return rules

    def forget_rules(self, group_id: str) -> None:
        """A group is no more."""
        self._rules.pop(group_id, None)

    def _make_rules(self, config: BrokerConfig, group_id: str) -> ConsumerRules:
        own = self._metadata.configs(ConfigResource(ConfigResourceType.GROUP, group_id))
        session_timeout_ms = config.group_consumer_session_timeout_ms
        heartbeat_interval_ms = config.group_consumer_heartbeat_interval_ms
        if own:
            try:
                group_config = GroupConfig(config, own)
            except ConfigError as error:
                LOGGER.error("the settings of group %s are left out: %s", group_id, error)
            else:
                if "consumer.session.timeout.ms" in own:
                    session_timeout_ms = group_config.consumer_session_timeout_ms
                if "consumer.heartbeat.interval.ms" in own:
                    heartbeat_interval_ms = group_config.consumer_heartbeat_interval_ms
        policy = config.group_consumer_migration_policy.lower()
        return ConsumerRules(
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            size_max=config.group_consumer_max_size,
            assignors=offered_assignors(config),
            regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
            may_upgrade=policy in ("upgrade", "bidirectional"),
            may_downgrade=policy in ("downgrade", "bidirectional"),
            classic_size_max=config.group_max_size,
            classic_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        )

    def topic_names(self) -> list[str]:
        """Give the names that patterns are matched with."""
        return list(self._metadata.topics)

    def take_in(self, delta: MetadataDelta) -> set[str]:
        """Note what changed; give the topics whose subscribers have to look at them again."""
        if delta.created_topics:
            self.topics_version = max(self.topics_version + 1, self.clock.time_ms())
            self.new_topics_version = self.topics_version
        if delta.brokers_changed:
            self.hashes.forget()
        for resource in delta.changed_configs:
            if resource.resource_type is ConfigResourceType.GROUP:
                self._rules.pop(resource.name, None)
        changed = (*delta.created_topics, *delta.changed_topics, *delta.deleted_topics)
        for topic in changed:
            self.hashes.forget(topic.name)
        return {topic.name for topic in changed}


def offered_assignors(config: BrokerConfig) -> dict[str, Assignor]:
    """Give the assignors that `group.consumer.assignors` names and that exist; the first is the default."""
    offered = {name: ASSIGNORS[name] for name in config.group_consumer_assignors if name in ASSIGNORS}
    return offered or dict(ASSIGNORS)
