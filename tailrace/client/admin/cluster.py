"""The cluster itself: who is in it, and who controls it."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.client.admin.session import AdminSession
from tailrace.client.metadata import Node


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster; `controller_id` is -1 where no broker says who that is."""

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]


class ClusterAdmin(AdminSession):
    """Administration of the cluster."""

    async def describe_cluster(self) -> ClusterDescription:
        """Give the cluster's id, its controller and its brokers."""

        async def attempt() -> ClusterDescription:
            known = await self._cluster.metadata([])
            nodes = tuple(known.nodes[node_id] for node_id in sorted(known.nodes))
            return ClusterDescription(known.cluster_id, known.controller_id, nodes)

        return await self._cluster.retrying("describing the cluster", attempt)
