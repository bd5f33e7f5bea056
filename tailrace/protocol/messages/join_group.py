"""JoinGroup (key 11): versions 0-9, flexible from 6.

v1: a rebalance timeout apart from the session timeout (KIP-62)
v2: throttle time
v3: a throttled answer leaves at once, and the client waits (KIP-219)
v4: a new member is told its id first and joins with it: MEMBER_ID_REQUIRED (KIP-394)
v5: group instance id (KIP-345)
v7: the answer names the protocol type (KIP-559)
v8: why the member joins (KIP-800)
v9: the leader may be told to skip the assignment (KIP-814)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Bytes, Int16, Int32, Message, String, WireStruct, empty_list, field


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    group_id: Annotated[str, String("0+")] = ""
    session_timeout_ms: Annotated[int, Int32("0+")] = 0
    rebalance_timeout_ms: Annotated[int, Int32("1+", ignorable=True)] = -1
    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("5+", nullable="5+")] = None
    protocol_type: Annotated[str, String("0+")] = ""
    protocols: Annotated[list[JoinGroupRequestProtocol], Array("0+")] = field(default_factory=empty_list)
    reason: Annotated[str | None, String("8+", nullable="8+", ignorable=True)] = None


class JoinGroupRequestProtocol(WireStruct):
    name: Annotated[str, String("0+")] = ""
    metadata: Annotated[bytes, Bytes("0+")] = b""


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: Annotated[int, Int32("2+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    generation_id: Annotated[int, Int32("0+")] = -1
    protocol_type: Annotated[str | None, String("7+", nullable="7+", ignorable=True)] = None
    protocol_name: Annotated[str | None, String("0+", nullable="7+")] = ""
    leader: Annotated[str, String("0+")] = ""
    skip_assignment: Annotated[bool, Bool("9+")] = False
    member_id: Annotated[str, String("0+")] = ""
    members: Annotated[list[JoinGroupResponseMember], Array("0+")] = field(default_factory=empty_list)


class JoinGroupResponseMember(WireStruct):
    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    metadata: Annotated[bytes, Bytes("0+")] = b""
