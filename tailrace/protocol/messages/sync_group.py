"""SyncGroup (key 14): versions 0-5, flexible from 4.

v1: throttle time
v2: a throttled answer leaves at once, and the client waits (KIP-219)
v3: group instance id (KIP-345)
v5: protocol type and name, which must be those the broker knows (KIP-559)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bytes, Int16, Int32, Message, String, WireStruct, empty_list, field


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    group_id: Annotated[str, String("0+")] = ""
    generation_id: Annotated[int, Int32("0+")] = 0
    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = None
    protocol_type: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    assignments: Annotated[list[SyncGroupRequestAssignment], Array("0+")] = field(default_factory=empty_list)


class SyncGroupRequestAssignment(WireStruct):
    member_id: Annotated[str, String("0+")] = ""
    assignment: Annotated[bytes, Bytes("0+")] = b""


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    protocol_type: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
    assignment: Annotated[bytes, Bytes("0+")] = b""
