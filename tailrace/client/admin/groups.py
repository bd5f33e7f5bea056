"""Groups: listed, described with their members and what these read, deleted.

A group of the consumer protocol (KIP-848) and one of the classic protocol are described in the same words. What classic
members tell each other is read where it is the consumers' language; of Kafka Connect's workers, say, only the bytes are
given.
"""

from __future__ import annotations

from collections.abc import Sequence

from tailrace.client.admin.group_reading import read_classic, read_consumer
from tailrace.client.admin.group_values import GroupDescription, GroupListing, GroupMember, GroupState, GroupType
from tailrace.client.admin.session import AdminSession, Results
from tailrace.client.connection import Connection
from tailrace.client.coordinators import CoordinatorType, ask_coordinators
from tailrace.client.errors import BrokerError, UnsupportedVersion, broker_error, error_of, raise_for_code
from tailrace.client.metadata import Node
from tailrace.protocol.error_codes import ErrorCode
from tailrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tailrace.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tailrace.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tailrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tailrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

__all__ = ["GroupAdmin", "GroupDescription", "GroupListing", "GroupMember", "GroupState", "GroupType"]


class GroupAdmin(AdminSession):
    """Administration of groups."""

    async def list_groups(
        self, *, states: Sequence[GroupState] = (), types: Sequence[GroupType] = ()
    ) -> list[GroupListing]:
        """Give the groups of all brokers, or those in some states or of some types, by their ids."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=[kind.lower() for kind in types])
        listed: dict[str, GroupListing] = {}

        async def ask(connection: Connection) -> None:
            response = await connection.request(request, ListGroupsResponse)
            raise_for_code(response.error_code, f"listing groups of {connection.address}")
            for group in response.groups:
                state, kind = GroupState.parse(group.group_state), GroupType.parse(group.group_type)
                listed[group.group_id] = GroupListing(group.group_id, group.protocol_type, state, kind)

        await self._ask_every_broker("listing groups", ask)
        return [listed[group_id] for group_id in sorted(listed)]

    async def describe_groups(self, group_ids: Sequence[str]) -> dict[str, GroupDescription | BrokerError]:
        """Describe groups of either protocol; GROUP_ID_NOT_FOUND for one that is not there."""

        async def ask(connection: Connection, keys: list[str]) -> dict[str, GroupDescription | BrokerError]:
            found = await _describe_consumer(connection, keys, self._node_of(connection))
            others = [key for key in keys if key not in found]
            if others:
                found.update(await _describe_classic(connection, others, self._node_of(connection)))
            return found

        return await ask_coordinators(
            self._cluster, CoordinatorType.GROUP, group_ids, ask, what=f"describing groups {', '.join(group_ids)}"
        )

    async def delete_groups(self, group_ids: Sequence[str]) -> Results:
        """Delete groups with their offsets; NON_EMPTY_GROUP for one that has members."""

        async def ask(connection: Connection, keys: list[str]) -> dict[str, bool | BrokerError]:
            response = await connection.request(DeleteGroupsRequest(groups_names=keys), DeleteGroupsResponse)
            return {
                result.group_id: error_of(result.error_code, f"group {result.group_id}") or True
                for result in response.results
            }

        answers = await ask_coordinators(
            self._cluster, CoordinatorType.GROUP, group_ids, ask, what=f"deleting groups {', '.join(group_ids)}"
        )
        return {key: answer if isinstance(answer, BrokerError) else None for key, answer in answers.items()}

    async def remove_members(self, group_id: str, members: Sequence[GroupMember], *, reason: str = "") -> Results:
        """Put members out of a classic group, so that others get what they read; by instance id where they have one."""
        identities = [
            MemberIdentity(
                member_id="" if member.instance_id is not None else member.member_id,
                group_instance_id=member.instance_id,
                reason=reason or "removed by an administrator",
            )
            for member in members
        ]

        async def ask(connection: Connection, keys: list[str]) -> dict[str, Results | BrokerError]:
            request = LeaveGroupRequest(group_id=group_id, members=identities)
            response = await connection.request(request, LeaveGroupResponse)
            error = error_of(response.error_code, f"group {group_id}")
            if error is not None:
                return {group_id: error}
            answers = zip(members, response.members, strict=True)
            return {group_id: {member.member_id: error_of(answer.error_code) for member, answer in answers}}

        what = f"removing members of {group_id}"
        answer = (await ask_coordinators(self._cluster, CoordinatorType.GROUP, [group_id], ask, what=what))[group_id]
        if isinstance(answer, BrokerError):
            raise answer
        return answer


async def _describe_consumer(
    connection: Connection, keys: list[str], node: Node
) -> dict[str, GroupDescription | BrokerError]:
    """Describe those groups that speak the consumer protocol; the others are not in the result."""
    try:
        request = ConsumerGroupDescribeRequest(group_ids=keys)
        response = await connection.request(request, ConsumerGroupDescribeResponse)
    except UnsupportedVersion:
        return {}
    found: dict[str, GroupDescription | BrokerError] = {}
    for group in response.groups:
        if group.error_code in _NO_CONSUMER_GROUP:
            continue
        error = error_of(group.error_code, group.error_message or f"group {group.group_id}")
        found[group.group_id] = error or read_consumer(group, node)
    return found


async def _describe_classic(
    connection: Connection, keys: list[str], node: Node
) -> dict[str, GroupDescription | BrokerError]:
    """Describe classic groups. Before version 6 a broker calls one that is not there dead (KIP-1043)."""
    response = await connection.request(DescribeGroupsRequest(groups=keys), DescribeGroupsResponse)
    found: dict[str, GroupDescription | BrokerError] = {}
    for group in response.groups:
        error = error_of(group.error_code, group.error_message or f"group {group.group_id}")
        description = error or read_classic(group, node)
        if isinstance(description, GroupDescription) and description.state is GroupState.DEAD:
            description = broker_error(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group.group_id} is not there")
        found[group.group_id] = description
    return found


_NO_CONSUMER_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
