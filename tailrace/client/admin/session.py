"""What every part of the administration stands on: the cluster, its patience, and who is asked.

Each subject (topics, configurations, groups, ...) is a class of its own upon this one; `Admin` is all of them together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tailrace.client.cluster import Cluster
from tailrace.client.connection import Connection
from tailrace.client.metadata import Node
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError

Results = dict[str, ApiError | None]
"""What went wrong with each of several names; None is success."""

UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
"""Codes that a producer would try again, and an administrator wants to know at once."""

_BROKER_TIMEOUT_SHARE: Final = 0.8
"""How much of the client's patience a broker is told to have, so that its answer still comes in time."""


class AdminSession:
    """The cluster that is administered."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timeout_ms = int(cluster.config.request_timeout_ms * _BROKER_TIMEOUT_SHARE)

    async def _connection_for(self, node_id: int | None) -> Connection:
        """Connect to a certain broker, or to any."""
        if node_id is None:
            return await self._cluster.any_connection()
        await self._cluster.controller()
        return await self._cluster.connection_to(node_id)

    async def _ask_every_broker(self, what: str, ask: Callable[[Connection], Awaitable[None]]) -> None:
        """Ask every broker of the cluster once; those that cannot answer are asked again while there is time."""
        asked: set[int] = set()

        async def attempt() -> None:
            known = await self._cluster.metadata([])
            for node_id in known.nodes:
                if node_id not in asked:
                    await ask(await self._cluster.connection_to(node_id))
                    asked.add(node_id)

        await self._cluster.retrying(what, attempt)

    def _node_of(self, connection: Connection) -> Node:
        """Say which broker a connection is to."""
        nodes = self._cluster.known.nodes.values()
        return next((node for node in nodes if node.address == connection.address), Node(-1, connection.address))
