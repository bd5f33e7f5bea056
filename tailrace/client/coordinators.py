"""Who coordinates a group or a transactional id, and how many of them are asked about at once.

A coordinator is the leader of one partition of an internal topic, so it moves as leaders do: NOT_COORDINATOR means that
it has to be looked for again, COORDINATOR_LOAD_IN_PROGRESS that it reads what it coordinates. Both pass, and are tried
again as long as the operation has time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from tailrace.client.address import Address
from tailrace.client.cluster import Cluster
from tailrace.client.connection import Connection
from tailrace.client.errors import BrokerError, ConnectionLost, RequestTimedOut, error_of, is_retriable
from tailrace.client.metadata import Node
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

R = TypeVar("R")

_BATCH_VERSION_FIRST: Final = 4
"""From here on one request asks for many keys (KIP-699)."""


class CoordinatorType(IntEnum):
    """What is coordinated."""

    GROUP = 0
    TRANSACTION = 1


Ask = Callable[[Connection, list[str]], Awaitable[dict[str, R | BrokerError]]]
"""Asks one coordinator about its keys, and gives an answer or an error for each."""


async def find_coordinators(
    cluster: Cluster, kind: CoordinatorType, keys: Sequence[str]
) -> dict[str, Node | BrokerError]:
    """Say for each key who coordinates it, in one attempt; the cluster then knows the nodes that are named."""
    connection = await cluster.any_connection()
    found: dict[str, Node | BrokerError] = {}
    if connection.version_for(FindCoordinatorRequest) >= _BATCH_VERSION_FIRST:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        for coordinator in (await connection.request(request, FindCoordinatorResponse)).coordinators:
            found[coordinator.key] = _read(cluster, coordinator)
        return found
    for key in keys:
        answer = await connection.request(FindCoordinatorRequest(key_type=kind, key=key), FindCoordinatorResponse)
        found[key] = _read(cluster, answer)
    return found


async def find_coordinator(cluster: Cluster, kind: CoordinatorType, key: str) -> Node:
    """Say who coordinates one key, in one attempt; BrokerError where nobody can say."""
    node = (await find_coordinators(cluster, kind, [key]))[key]
    if isinstance(node, BrokerError):
        raise node
    return node


async def ask_coordinators(
    cluster: Cluster,
    kind: CoordinatorType,
    keys: Sequence[str],
    ask: Ask[R],
    *,
    what: str,
) -> dict[str, R | BrokerError]:
    """Ask the coordinators of all keys, each about its own, until every key has an answer or an error that stays.

    OperationTimedOut where some key has neither within the client's time for one operation.
    """
    done: dict[str, R | BrokerError] = {}
    nodes: dict[str, Node] = {}

    async def attempt() -> None:
        missing = [key for key in dict.fromkeys(keys) if key not in done]
        passing = await _look_up(cluster, kind, [key for key in missing if key not in nodes], nodes, done)
        by_node: dict[int, list[str]] = defaultdict(list)
        for key in missing:
            if key in nodes:
                by_node[nodes[key].node_id].append(key)
        for asked in by_node.values():
            passing = await _ask_node(cluster, asked, ask, nodes, done) or passing
        if passing is not None:
            raise passing

    await cluster.retrying(what, attempt)
    return {key: done[key] for key in dict.fromkeys(keys)}


async def _look_up(
    cluster: Cluster, kind: CoordinatorType, keys: list[str], nodes: dict[str, Node], done: dict[str, R | BrokerError]
) -> Exception | None:
    """Find the coordinators of keys; give an error that passes, where there is one."""
    passing: Exception | None = None
    if not keys:
        return None
    for key, node in (await find_coordinators(cluster, kind, keys)).items():
        if isinstance(node, Node):
            nodes[key] = node
        elif is_retriable(node):
            passing = node
        else:
            done[key] = node
    return passing


async def _ask_node(
    cluster: Cluster, keys: list[str], ask: Ask[R], nodes: dict[str, Node], done: dict[str, R | BrokerError]
) -> Exception | None:
    """Ask one coordinator about its keys; give an error that passes, where there is one."""
    node = nodes[keys[0]]
    cluster.learn_node(node)  # metadata that came meanwhile may have named it otherwise
    try:
        answers = await ask(await cluster.connection_to(node.node_id), keys)
    except (ConnectionLost, RequestTimedOut) as error:
        for key in keys:
            del nodes[key]
        return error
    passing: Exception | None = None
    for key, answer in answers.items():
        if isinstance(answer, BrokerError) and is_retriable(answer):
            passing = answer
            if answer.code in _MOVED:
                del nodes[key]
        else:
            done[key] = answer
    return passing


def _read(cluster: Cluster, answer: Coordinator | FindCoordinatorResponse) -> Node | BrokerError:
    error = error_of(answer.error_code, answer.error_message or None)
    if error is not None:
        return error
    node = Node(answer.node_id, Address(answer.host, answer.port))
    known = cluster.known.nodes.get(node.node_id)
    if known is not None and known.address == node.address:
        return known
    cluster.learn_node(node)
    return node


_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
