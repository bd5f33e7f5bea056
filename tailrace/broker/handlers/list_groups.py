"""ListGroups: v0-v5. v3: flexible. v4: by state (KIP-518). v5: by type (KIP-848)."""

from __future__ import annotations

from tailrace.broker.authorizer import CLUSTER_NAME, AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.groups.group import Group
from tailrace.broker.request import Answer, Request
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(broker: Broker, request: Request[ListGroupsRequest]) -> ListGroupsResponse:
    """List the groups that are coordinated here and that the client may see."""
    authorizer, connection = broker.authorizer, request.connection
    throttle = broker.quotas.record_request(connection, request.client_id)
    sees_all = authorizer.authorize(connection, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    states = {state.lower() for state in request.body.states_filter}
    types = {kind.lower() for kind in request.body.types_filter}

    def is_wanted(group: Group) -> bool:
        return (
            (not states or group.state_name.lower() in states)
            and (not types or group.group_type in types)
            and (
                sees_all or authorizer.authorize(connection, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
            )
        )

    groups = [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state_name,
            group_type=group.group_type,
        )
        for group in broker.groups.list()
        if is_wanted(group)
    ]
    return ListGroupsResponse(throttle_time_ms=throttle, groups=groups)


def error_response(request: Request[ListGroupsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Answer that the request as a whole failed."""
    del message  # the response has no room for one
    return ListGroupsResponse(error_code=code)
