"""ConsumerGroupHeartbeat: v0-v1.

v0: the one request of the consumer protocol: join, subscribe, own, leave (KIP-848). v1: subscription by a pattern that
the broker evaluates; the member makes its own id (KIP-1082).

The answer leaves when what it says is committed to `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.features import consumer_protocol_is_enabled
from tailrace.broker.groups.client_host import client_host
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(broker: Broker, request: Request[ConsumerGroupHeartbeatRequest]) -> Result:
    """Take the heartbeat, or say why not."""
    body = request.body
    if not consumer_protocol_is_enabled(broker.config, broker.metadata.features):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    authorize = broker.authorizer.authorize
    connection = request.connection
    if not authorize(connection, AclOperation.READ, ResourceType.GROUP, body.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def visible(names: Iterable[str]) -> list[str]:
        return [name for name in names if authorize(connection, AclOperation.DESCRIBE, ResourceType.TOPIC, name)]

    names = set(body.subscribed_topic_names or ())
    if len(visible(names)) != len(names):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    throttle = broker.quotas.record_request(connection, request.client_id)
    parked = Parked()

    def reply(response: ConsumerGroupHeartbeatResponse) -> None:
        response.throttle_time_ms = throttle
        parked.complete(response)

    broker.groups.consumer_heartbeat(
        body,
        version=request.api_version,
        client_id=request.client_id or "",
        client_host=client_host(connection.peer_host),
        visible=visible,
        reply=reply,
    )
    return parked.result()


def error_response(request: Request[ConsumerGroupHeartbeatRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer a heartbeat that was refused."""
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)
