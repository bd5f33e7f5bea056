"""SyncGroup: v0-v5.

v3: static members (KIP-345). v4: flexible. v5: protocol type and name, which must be the group's (KIP-559).

The leader brings everybody's assignment; the others' answers wait for it.
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_VERSION_FIRST = 5


def handle(broker: Broker, request: Request[SyncGroupRequest]) -> Result:
    """Give the member its assignment, when there is one."""
    body = request.body
    if request.api_version >= PROTOCOL_VERSION_FIRST and (body.protocol_type is None or body.protocol_name is None):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not broker.authorizer.authorize(request.connection, AclOperation.READ, ResourceType.GROUP, body.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    parked = Parked()

    def reply(response: SyncGroupResponse) -> None:
        response.throttle_time_ms = throttle
        parked.complete(response)

    broker.groups.sync(body, reply=reply)
    return parked.result()


def error_response(request: Request[SyncGroupRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer that the request as a whole failed."""
    del message  # the response has no room for one
    return SyncGroupResponse(error_code=code)
