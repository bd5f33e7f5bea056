"""How much a client may use: the question handlers ask when they know what a request cost.

`Quotas` is the seam: each method records a use and gives the milliseconds by which to throttle, which go into the
response's `throttle_time_ms`. `UnlimitedQuotas` throttles nobody, which is Kafka's behaviour while no quota is set.
"""

from __future__ import annotations

from typing import Protocol

from tailrace.broker.request import ConnectionInfo


class Quotas(Protocol):
    """Records what a client used; the answer is a throttle time in milliseconds, 0 for none."""

    def record_produce(self, connection: ConnectionInfo, client_id: str | None, size_bytes: int) -> int:
        """Record bytes produced."""
        ...

    def record_fetch(self, connection: ConnectionInfo, client_id: str | None, size_bytes: int) -> int:
        """Record bytes fetched by a consumer."""
        ...

    def record_request(self, connection: ConnectionInfo, client_id: str | None) -> int:
        """Record a request that moves no records."""
        ...

    def record_controller_mutations(self, connection: ConnectionInfo, client_id: str | None, count: int) -> int:
        """Record partitions created or deleted (KIP-599)."""
        ...


class UnlimitedQuotas:
    """Throttles nobody."""

    def record_produce(self, connection: ConnectionInfo, client_id: str | None, size_bytes: int) -> int:
        """Never throttle."""
        return 0

    def record_fetch(self, connection: ConnectionInfo, client_id: str | None, size_bytes: int) -> int:
        """Never throttle."""
        return 0

    def record_request(self, connection: ConnectionInfo, client_id: str | None) -> int:
        """Never throttle."""
        return 0

    def record_controller_mutations(self, connection: ConnectionInfo, client_id: str | None, count: int) -> int:
        """Never throttle."""
        return 0
