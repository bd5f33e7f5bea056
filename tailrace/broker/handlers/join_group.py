"""JoinGroup: v0-v9.

v1: rebalance timeout (KIP-62). v4: a member is told its id before it is in, MEMBER_ID_REQUIRED (KIP-394). v5: static
members (KIP-345). v6: flexible. v7: the answer names the protocol type, and no protocol where there is none (KIP-559).
v8: a reason, which goes to the log. v9: a leader may be told to skip the assignment (KIP-814).

The answer waits until the rebalance has gathered the group's members.
"""

from __future__ import annotations

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.groups.client_host import client_host
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_VERSION_FIRST = 7


def handle(broker: Broker, request: Request[JoinGroupRequest]) -> Result:
    """Join, or say why not."""
    body = request.body
    if not broker.authorizer.authorize(request.connection, AclOperation.READ, ResourceType.GROUP, body.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    parked = Parked()

    def reply(response: JoinGroupResponse) -> None:
        response.throttle_time_ms = throttle
        parked.complete(_in_version(response, request.api_version))

    broker.groups.join(
        body,
        version=request.api_version,
        client_id=request.client_id or "",
        client_host=client_host(request.connection.peer_host),
        reply=reply,
    )
    return parked.result()


def error_response(request: Request[JoinGroupRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer a join that was refused."""
    del message  # the response has no room for one
    response = JoinGroupResponse(error_code=code, member_id=request.body.member_id, protocol_name=None)
    return _in_version(response, request.api_version)


def _in_version(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    if version < NULL_PROTOCOL_VERSION_FIRST:
        response.protocol_name = response.protocol_name or ""
    elif response.error_code:
        response.protocol_name = None
    return response
