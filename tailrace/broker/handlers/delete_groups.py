"""DeleteGroups: v0-v2 (KIP-229; v2: flexible). Groups without members go, with their offsets, each with an answer."""

from __future__ import annotations

from collections.abc import Callable

from tailrace.broker.authorizer import AclOperation, ResourceType
from tailrace.broker.broker import Broker
from tailrace.broker.request import Answer, Parked, Request, Result
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.errors import ApiError
from tailrace.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(broker: Broker, request: Request[DeleteGroupsRequest]) -> Result:
    """Delete each group; the answer leaves when the last tombstone is committed."""
    throttle = broker.quotas.record_request(request.connection, request.client_id)
    group_ids = list(dict.fromkeys(request.body.groups_names))
    results = {group_id: DeletableGroupResult(group_id=group_id) for group_id in group_ids}
    response = DeleteGroupsResponse(throttle_time_ms=throttle, results=list(results.values()))
    parked = Parked()
    left = len(results)

    def done(group_id: str, code: ErrorCode) -> None:
        nonlocal left
        if code:
            broker.metrics.record_error("DeleteGroups", code)
        results[group_id].error_code = code
        left -= 1
        if left == 0:
            parked.complete(response)

    for group_id in results:
        _delete(broker, request, group_id, done)
    return parked.result() if results else response


def error_response(request: Request[DeleteGroupsRequest], code: ErrorCode, message: str | None) -> Answer:
    """Put the error on every group."""
    del message  # the response has no room for one
    results = [DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.body.groups_names]
    return DeleteGroupsResponse(results=results)


def _delete(
    broker: Broker, request: Request[DeleteGroupsRequest], group_id: str, done: Callable[[str, ErrorCode], None]
) -> None:
    try:
        if not broker.authorizer.authorize(request.connection, AclOperation.DELETE, ResourceType.GROUP, group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        broker.groups.delete(group_id, on_done=lambda code: done(group_id, code))
    except ApiError as error:
        done(group_id, error.code)
