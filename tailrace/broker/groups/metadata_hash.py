"""One number for the topics that a group is subscribed to: the group's epoch rises when it changes (KIP-1101).

It is Kafka's number, XXH3 over what hash4j makes of each field, so that groups of a directory that Kafka wrote need not
rebalance. A topic's hash covers its id, its name, its partitions and the racks of their replicas; a group's the hashes
of its topics.

    topic   00 | id: the two halves, each i64 | name | partitions i32 | for each: number i32, then each rack
    rack    length i32 | text                                     racks sorted, once for each replica
    group   the hashes of its topics, each i64, by their names    0 where there is no topic
    text    UTF-16 units, then their count i32                    all of it little-endian
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Protocol

import xxhash

from tailrace.broker.metadata_store import BrokerRegistration, TopicRegistration

_MAGIC = b"\x00"
_int32 = Struct("<i")
_int64 = Struct("<q")
_two_int64 = Struct(">qq")


class ClusterTopics(Protocol):
    """What groups know of the cluster; a MetadataStore is one."""

    @property
    def topics(self) -> Mapping[str, TopicRegistration]:
        """Every topic by name."""
        ...

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """The registered brokers by node id."""
        ...

    def topic(self, name: str) -> TopicRegistration | None:
        """Find a topic by name."""
        ...

    def topic_by_id(self, topic_id: bytes) -> TopicRegistration | None:
        """Find a topic by its id."""
        ...


class TopicHashes:
    """The hashes of topics, each computed once for as long as topic and brokers are the same."""

    def __init__(self, cluster: ClusterTopics) -> None:
        self._cluster = cluster
        self._known: dict[str, tuple[TopicRegistration, int]] = {}

    def forget(self, name: str | None = None) -> None:
        """Compute a topic's hash anew, or that of all: their brokers' racks may have changed."""
        if name is None:
            self._known.clear()
        else:
            self._known.pop(name, None)

    def of_topic(self, name: str) -> int | None:
        """Give a topic's hash; None where there is no such topic."""
        topic = self._cluster.topic(name)
        if topic is None:
            return None
        known = self._known.get(name)
        if known is None or known[0] is not topic:
            known = self._known[name] = (topic, hash_topic(topic, self._cluster.brokers))
        return known[1]

    def of_group(self, names: Iterable[str]) -> int:
        """Give the hash of a group that is subscribed to these topics; those that are not there do not count."""
        return hash_group({name: value for name in names if (value := self.of_topic(name)) is not None})


def hash_topic(topic: TopicRegistration, brokers: Mapping[int, BrokerRegistration]) -> int:
    """Hash one topic."""
    data = bytearray(_MAGIC)
    high, low = _two_int64.unpack(topic.topic_id)
    data += _int64.pack(high) + _int64.pack(low)
    data += _text(topic.name)
    data += _int32.pack(len(topic.partitions))
    for number, partition in enumerate(topic.partitions):
        data += _int32.pack(number)
        for rack in _racks(partition.replicas, brokers):
            data += _int32.pack(len(rack.encode("utf-16-le", "surrogatepass")) // 2) + _text(rack)
    return _signed(xxhash.xxh3_64_intdigest(bytes(data)))


def hash_group(topic_hashes: Mapping[str, int]) -> int:
    """Hash the topics of a group."""
    if not topic_hashes:
        return 0
    data = bytearray()
    for name in sorted(topic_hashes, key=lambda name: name.encode("utf-16-be", "surrogatepass")):
        data += _int64.pack(topic_hashes[name])
    return _signed(xxhash.xxh3_64_intdigest(bytes(data)))


def _racks(replicas: Iterable[int], brokers: Mapping[int, BrokerRegistration]) -> list[str]:
    found = (brokers.get(replica) for replica in replicas)
    return sorted(broker.rack for broker in found if broker is not None and broker.rack is not None)


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _int32.pack(len(units) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
