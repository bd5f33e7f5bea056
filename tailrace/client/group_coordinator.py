"""The way to one group's coordinator: found when it is needed, forgotten when it has moved or does not answer.

Joining and heartbeats have a connection of their own, so that they never wait behind a fetch; commits go by another,
for a broker may keep who joins waiting for minutes, and answers in order.
"""

from __future__ import annotations

import itertools
from typing import Final, TypeVar

from tailrace.client.cluster import Cluster
from tailrace.client.connection import Connection
from tailrace.client.coordinators import CoordinatorType, find_coordinator
from tailrace.client.errors import ConnectionLost, NoBrokerAvailable, RequestTimedOut
from tailrace.client.metadata import Node
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.schema import Message

M = TypeVar("M", bound=Message)

_numbers = itertools.count()

_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class GroupCoordinator:
    """Whoever coordinates `group_id` now."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._node: Node | None = None
        self._lane = f"coordinator {next(_numbers)}"

    @property
    def is_known(self) -> bool:
        """Whether the coordinator was found, and nothing speaks against it."""
        return self._node is not None

    def forget(self) -> None:
        """Look for the coordinator again at the next request."""
        self._node = None

    def heed(self, code: int) -> None:
        """Forget the coordinator where an answer's error says that it is another one."""
        if code in _MOVED:
            self.forget()

    def close(self) -> None:
        """Close the connection that joining and heartbeats went by."""
        self._cluster.close_lane(self._lane)

    async def connection(self, lane: str | None = None) -> Connection:
        """Give a connection to the coordinator, looking for it where it is not known, in one attempt."""
        if self._node is None:
            self._node = await find_coordinator(self._cluster, CoordinatorType.GROUP, self.group_id)
        self._cluster.learn_node(self._node)
        try:
            return await self._cluster.connection_to(self._node.node_id, lane=self._lane if lane is None else lane)
        except (ConnectionLost, NoBrokerAvailable):
            self.forget()
            raise

    async def request(
        self,
        message: Message,
        response_class: type[M],
        *,
        timeout_ms: int | None = None,
        version_max: int | None = None,
        lane: str | None = None,
    ) -> M:
        """Ask the coordinator, in one attempt."""
        connection = await self.connection(lane)
        try:
            return await connection.request(message, response_class, timeout_ms=timeout_ms, version_max=version_max)
        except (ConnectionLost, RequestTimedOut):
            self.forget()
            raise
