"""Which topics a subscription means now, and how many partitions they have.

A pattern is held against the names of all topics, anew when metadata.max.age.ms is over. The cluster's metadata of the
topics that are read is kept fresh; a change of their partitions means that a classic group has to assign anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from tailrace.client.cluster import Cluster
from tailrace.client.errors import AuthorizationFailed, ClientError, error_of, is_retriable
from tailrace.client.subscription_state import SubscriptionKind, SubscriptionState
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.settings.client_config import ConsumerConfig

_log = logging.getLogger("tailrace.client")


class SubscribedTopics:
    """The topics of one consumer."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, subscription: SubscriptionState) -> None:
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._counts: dict[str, int] = {}
        self._seen: dict[str, int] | None = None
        self._version = -1
        self._refreshed_at: float | None = None
        self._has_missing = False
        self._listing: asyncio.Task[None] | None = None
        self._asked_at = float("-inf")

    @property
    def are_known(self) -> bool:
        """Whether it is known which topics are meant: with a pattern not before the first metadata."""
        return self._subscription.kind is not SubscriptionKind.PATTERN or self._refreshed_at is not None

    def forget(self) -> None:
        """Look again, for the subscription has changed."""
        self._refreshed_at, self._seen, self._version = None, None, -1

    async def refresh(self) -> bool:
        """Hold the subscription against what is known; say whether what it means has changed since the last time."""
        now = self._cluster.clock.monotonic()
        if self._subscription.kind is SubscriptionKind.PATTERN:
            age_max_s = self._config.metadata_max_age_ms / 1000
            if self._refreshed_at is None or now - self._refreshed_at >= age_max_s:
                await self._match(now)
        if self._version == self._cluster.version:
            if self._has_missing and now >= self._asked_at + self._config.retry_backoff_max_ms / 1000:
                self._asked_at = now
                self._cluster.expire_metadata()
            return False
        self._version = self._cluster.version
        for topic in self._subscription.topics:
            self._cluster.watch(topic, allow_auto_topic_creation=self._config.allow_auto_create_topics)
        self._check()
        counts = self._known_counts(self._subscription.topics)
        self._has_missing = len(counts) < len(self._subscription.topics)
        if self._seen is None and not self._cluster.known.topics.keys() >= self._subscription.topics:
            return False  # The first answer is still to come, and what it tells is no change.
        has_changed = self._seen is not None and counts != self._seen
        self._seen = counts
        return has_changed

    async def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Give the number of partitions of topics that exist; a leader asks, also for topics that only others read."""
        await self._cluster.metadata(topics, allow_auto_topic_creation=self._config.allow_auto_create_topics)
        counts = self._known_counts(topics)
        self._seen = self._known_counts(self._subscription.topics)
        return counts

    def look_for(self, *, everything: bool) -> None:
        """Ask for metadata in the background: of what is subscribed to, or of all topics."""
        if not everything:
            self._cluster.expire_metadata()
        elif self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._list_all())

    async def close(self) -> None:
        """Give up what is asked for."""
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)

    async def _list_all(self) -> None:
        try:
            await self._cluster.metadata(None)
        except (ApiError, ClientError) as error:
            _log.info("%s: the topics were not listed: %s", self._cluster.client_id, error)

    def _known_counts(self, topics: Collection[str]) -> dict[str, int]:
        known = self._cluster.known.topics
        return {name: len(known[name].partitions) for name in topics if name in known and known[name].partitions}

    async def _match(self, now: float) -> None:
        """Find the topics that the pattern has now."""
        pattern = self._subscription.pattern
        assert pattern is not None, "a subscription by pattern has one"
        try:
            metadata = await self._cluster.metadata(None)
        except (ApiError, ClientError) as error:
            if not is_retriable(error):
                raise
            _log.info("%s: the topics were not listed: %s", self._cluster.client_id, error)
            return
        found = frozenset(
            name
            for name, topic in metadata.topics.items()
            if pattern.fullmatch(name) and not (topic.is_internal and self._config.exclude_internal_topics)
        )
        if found != self._subscription.topics:
            self._subscription.topics = found
            self._version = -1
        self._refreshed_at = now

    def _check(self) -> None:
        """Raise where a topic that was subscribed to may not be read, or cannot be one."""
        for name in self._subscription.topics:
            topic = self._cluster.known.topics.get(name)
            if topic is None or not topic.error_code:
                continue
            error = error_of(topic.error_code, f"topic {name}")
            if isinstance(error, AuthorizationFailed) or topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise error if error is not None else AssertionError
