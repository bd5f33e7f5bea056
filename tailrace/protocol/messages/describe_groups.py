"""DescribeGroups (key 15): versions 0-6, flexible from 5.

v1: throttle time
v2: a throttled answer leaves at once, and the client waits (KIP-219)
v3: authorized operations (KIP-430)
v4: group instance ids (KIP-345)
v6: GROUP_ID_NOT_FOUND where older versions describe a dead group; an error message (KIP-1043)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Bytes, Int16, Int32, Message, String, WireStruct, empty_list, field


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    groups: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    include_authorized_operations: Annotated[bool, Bool("3+")] = False


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    groups: Annotated[list[DescribedGroup], Array("0+")] = field(default_factory=empty_list)


class DescribedGroup(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("6+", nullable="6+")] = None
    group_id: Annotated[str, String("0+")] = ""
    group_state: Annotated[str, String("0+")] = ""
    protocol_type: Annotated[str, String("0+")] = ""
    protocol_data: Annotated[str, String("0+")] = ""
    members: Annotated[list[DescribedGroupMember], Array("0+")] = field(default_factory=empty_list)
    authorized_operations: Annotated[int, Int32("3+")] = -2147483648


class DescribedGroupMember(WireStruct):
    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("4+", nullable="4+", ignorable=True)] = None
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    member_metadata: Annotated[bytes, Bytes("0+")] = b""
    member_assignment: Annotated[bytes, Bytes("0+")] = b""
