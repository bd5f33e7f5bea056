"""When what a subscription means has changed, and when it is only told for the first time."""

from __future__ import annotations

from typing import Any

from tailrace.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from tailrace.client.subscribed_topics import SubscribedTopics
from tailrace.client.subscription_state import SubscriptionKind, SubscriptionState
from tailrace.settings.client_config import ConsumerConfig
from tailrace.testing.virtual_clock import VirtualClock


class KnownCluster:
    """A cluster of which only this is asked: what is known of its topics."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.version = 0
        self.known = ClusterMetadata()

    def watch(self, topic: str, *, allow_auto_topic_creation: bool) -> None:
        del topic, allow_auto_topic_creation

    def expire_metadata(self) -> None:
        self.version += 0

    def tell(self, **counts: int) -> None:
        topics = {
            name: TopicMetadata(
                name, bytes(16), False, 0, {p: PartitionMetadata(p, 0, 1, 0, (1,), (1,), ()) for p in range(count)}
            )
            for name, count in counts.items()
        }
        self.known = ClusterMetadata(topics=topics)
        self.version += 1


def subscribed(*names: str) -> tuple[KnownCluster, SubscribedTopics]:
    cluster: Any = KnownCluster()
    state = SubscriptionState()
    state.subscribe(SubscriptionKind.TOPICS, topics=names)
    return cluster, SubscribedTopics(cluster, ConsumerConfig({"bootstrap_servers": "localhost:1"}), state)


async def test_the_first_answer_is_no_change() -> None:
    cluster, topics = subscribed("flights", "delays")
    assert not await topics.refresh()
    cluster.tell(flights=2)
    assert not await topics.refresh()
    cluster.tell(flights=2, delays=1)
    assert not await topics.refresh()


async def test_more_partitions_and_topics_that_come_are_a_change() -> None:
    cluster, topics = subscribed("flights", "delays")
    cluster.tell(flights=2, delays=0)
    assert not await topics.refresh()
    cluster.tell(flights=3, delays=0)
    assert await topics.refresh()
    cluster.tell(flights=3, delays=0)
    assert not await topics.refresh()
    cluster.tell(flights=3, delays=1)
    assert await topics.refresh()
