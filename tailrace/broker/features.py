"""Which of Kafka's features this version of Tailrace can run at, and in which answer they are told.

Finalized levels are the cluster's business (`MetadataStore.features`); here is what this broker supports. Clients
decide by them: without `transaction.version` or `group.version` new clients stay on the older protocols, which is right
for as long as those are not served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tailrace.protocol.schema import Versions
from tailrace.settings.broker_config import BrokerConfig

METADATA_VERSION = "metadata.version"
GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"

SUPPORTED_FEATURES: Mapping[str, Versions] = MappingProxyType(
    {GROUP_VERSION: Versions(0, 1), METADATA_VERSION: Versions(7, 27), TRANSACTION_VERSION: Versions(0, 2)}
)
"""Name and levels. group.version: 1 is the consumer protocol (KIP-848). metadata.version: from 3.3-IV3, as every Kafka
4, to 4.1-IV1. transaction.version: 2 raises the producer's epoch at the end of each transaction (KIP-890)."""

CONSUMER_PROTOCOL = "consumer"
"""What `group.coordinator.rebalance.protocols` calls the protocol of KIP-848."""

ZERO_MINIMUM_VERSION_FIRST = 4
"""ApiVersions up to v3 leaves out features whose lowest level is 0: older Java clients refuse such a range."""


def supported_features(api_version: int) -> Iterator[tuple[str, Versions]]:
    """Give the features that an ApiVersions response of this version may name."""
    for name, levels in SUPPORTED_FEATURES.items():
        if levels.first > 0 or api_version >= ZERO_MINIMUM_VERSION_FIRST:
            yield name, levels


def consumer_protocol_is_enabled(config: BrokerConfig, finalized: Mapping[str, int]) -> bool:
    """Whether both the broker's settings and the cluster's features let groups use the consumer protocol."""
    return CONSUMER_PROTOCOL in config.group_coordinator_rebalance_protocols and finalized.get(GROUP_VERSION, 0) > 0
