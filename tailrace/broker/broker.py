"""One broker's parts, held together.

`Broker` is what a handler is given: it owns nothing and decides nothing, it says where each part is. `server.py` makes
the parts in their order and stops them in the reverse; a test makes only the parts it needs. All of it lives on one
event loop, so a handler may read and change any part between two awaits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.clock import Clock

if TYPE_CHECKING:  # the parts know handlers' types, and handlers know Broker: only the checker may see the circle
    from tailrace.broker.authorizer import Authorizer
    from tailrace.broker.coordinators import Coordinators
    from tailrace.broker.fetch_session import FetchSessionCache
    from tailrace.broker.groups.group_coordinator import GroupCoordinator
    from tailrace.broker.metadata_store import MetadataStore
    from tailrace.broker.metrics import BrokerMetrics
    from tailrace.broker.producer_ids import ProducerIds
    from tailrace.broker.quotas import Quotas
    from tailrace.broker.replica_manager import ReplicaManager
    from tailrace.broker.transactions.transaction_coordinator import TransactionCoordinator
    from tailrace.settings.broker_config import BrokerConfig
    from tailrace.storage.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients reach a broker, by the name of the listener they came through."""

    listener_name: str
    host: str
    port: int


@dataclass(slots=True)
class Broker:
    """The parts of one broker; see the module's docstring."""

    node_id: int
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    metadata: MetadataStore
    log_manager: LogManager
    replica_manager: ReplicaManager
    producer_ids: ProducerIds
    coordinators: Coordinators
    fetch_sessions: FetchSessionCache
    authorizer: Authorizer
    quotas: Quotas
    metrics: BrokerMetrics
    advertised_endpoints: tuple[Endpoint, ...] = ()

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator."""
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator."""
        return self.coordinators.transactions

    def topic_name(self, topic_id: bytes) -> str | None:
        """Give the name of a topic by its id."""
        registration = self.metadata.topic_by_id(topic_id)
        return None if registration is None else registration.name

    def endpoint_for(self, listener_name: str) -> Endpoint | None:
        """Give the address this broker advertises to clients of `listener_name`."""
        for endpoint in self.advertised_endpoints:
            if endpoint.listener_name == listener_name:
                return endpoint
        return None
