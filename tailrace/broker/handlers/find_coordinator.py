"""FindCoordinator: v0-v6.

v0: groups only. v1: transactions too, throttle time. v3: flexible. v4: many keys at once (KIP-699). v5: producers learn
of TRANSACTION_ABORTABLE (KIP-890). v6: share groups (KIP-932).

A group or a transactional id is coordinated by the leader of its partition of `__consumer_offsets` or
`__transaction_state`; either topic is made when somebody first asks, and the answer waits for it, where Kafka has the
client ask again. Share groups have no coordinator here until there is one: COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

import logging
from typing import Any

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker, Endpoint
from tailrace.broker.coordinator_topic import CoordinatorTopic
from tailrace.broker.request import Request, Result
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tailrace.protocol.uuid import parse_uuid

LOGGER = logging.getLogger(__name__)

GROUP = 0
TRANSACTION = 1
SHARE = 2

BATCH_VERSION_FIRST = 4
SHARE_VERSION_FIRST = 6


def handle(broker: Broker, request: Request[FindCoordinatorRequest]) -> Result:
    """Say where each key is coordinated, or why nobody can say."""
    topic = _topic(broker, request.body.key_type)
    if topic is not None and not topic.exists:
        return _create_topic_and_answer(broker, request, topic)
    return _answer(broker, request)


def _topic(broker: Broker, kind: int) -> CoordinatorTopic[Any] | None:
    if kind == GROUP:
        return broker.groups.topic
    return broker.transactions.topic if kind == TRANSACTION else None


async def _create_topic_and_answer(
    broker: Broker, request: Request[FindCoordinatorRequest], topic: CoordinatorTopic[Any]
) -> FindCoordinatorResponse:
    keys = request.body.coordinator_keys if request.api_version >= BATCH_VERSION_FIRST else [request.body.key]
    if any(_is_allowed(broker, request, key) for key in keys):
        try:
            await topic.ensure_created()
        except ApiError as error:
            LOGGER.warning("%s could not be created: %s", topic.name, error)
    return _answer(broker, request)


def _is_allowed(broker: Broker, request: Request[FindCoordinatorRequest], key: str) -> bool:
    try:
        _check_access(broker, request, request.body.key_type, key)
    except ApiError:
        return False
    return True


def _answer(broker: Broker, request: Request[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    if request.api_version >= BATCH_VERSION_FIRST:
        coordinators = [_find(broker, request, key) for key in request.body.coordinator_keys]
        return FindCoordinatorResponse(throttle_time_ms=throttle, coordinators=coordinators)
    return _single(_find(broker, request, request.body.key), throttle)


def error_response(
    request: Request[FindCoordinatorRequest], code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    """Put the error on every key."""
    error = ApiError(code, message or "")
    if request.api_version >= BATCH_VERSION_FIRST:
        return FindCoordinatorResponse(coordinators=[_failed(key, error) for key in request.body.coordinator_keys])
    return _single(_failed(request.body.key, error), 0)


def _find(broker: Broker, request: Request[FindCoordinatorRequest], key: str) -> Coordinator:
    try:
        node_id, endpoint = _coordinator(broker, request, key)
    except ApiError as error:
        return _failed(key, error)
    return Coordinator(key=key, node_id=node_id, host=endpoint.host, port=endpoint.port)


def _coordinator(broker: Broker, request: Request[FindCoordinatorRequest], key: str) -> tuple[int, Endpoint]:
    kind = request.body.key_type
    _check_access(broker, request, kind, key)
    if kind == SHARE:
        if request.api_version < SHARE_VERSION_FIRST:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        _check_share_key(key)
    topic = _topic(broker, kind)
    if topic is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "This broker does not coordinate share groups.")
    node_id = topic.leader_of(key)
    registration = broker.metadata.brokers.get(node_id)
    endpoint = registration.endpoint_for(request.connection.listener_name) if registration is not None else None
    if endpoint is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator has no leader here yet.")
    return node_id, endpoint


def _check_access(broker: Broker, request: Request[FindCoordinatorRequest], kind: int, key: str) -> None:
    match kind:
        case 0:
            guarded = (AclOperation.DESCRIBE, ResourceType.GROUP, key)
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        case 1:
            guarded = (AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        case 2:
            guarded = (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        case _:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"There are no coordinators of type {kind}.")
    if not broker.authorizer.authorize(request.connection, *guarded):
        raise ApiError(code)


def _check_share_key(key: str) -> None:
    """Check that a share group's key is `group:topic id:partition`."""
    parts = key.split(":")
    try:
        if len(parts) != 3 or not parts[0].strip():
            raise ValueError(key)
        parse_uuid(parts[1])
        int(parts[2])
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST) from None


def _failed(key: str, error: ApiError) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error.code, error_message=error.message or "")


def _single(coordinator: Coordinator, throttle_time_ms: int) -> FindCoordinatorResponse:
    # Up to v3 Kafka writes the name of the code where there is no message.
    message = coordinator.error_message or ErrorCode(coordinator.error_code).name
    return FindCoordinatorResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=coordinator.error_code,
        error_message=message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )
