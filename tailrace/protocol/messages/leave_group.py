"""LeaveGroup (key 13): versions 0-5, flexible from 4.

v1: throttle time
v2: a throttled answer leaves at once, and the client waits (KIP-219)
v3: several members in one request, by member id or group instance id (KIP-345)
v5: why the member leaves (KIP-800)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, WireStruct, empty_list, field


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    group_id: Annotated[str, String("0+")] = ""
    member_id: Annotated[str, String("0-2")] = ""
    members: Annotated[list[MemberIdentity], Array("3+")] = field(default_factory=empty_list)


class MemberIdentity(WireStruct):
    member_id: Annotated[str, String("3+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = None
    reason: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    members: Annotated[list[MemberResponse], Array("3+")] = field(default_factory=empty_list)


class MemberResponse(WireStruct):
    member_id: Annotated[str, String("3+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = ""
    error_code: Annotated[int, Int16("3+")] = 0
