"""Heartbeat (key 12): versions 0-4, flexible from 4.

v1: throttle time
v2: a throttled answer leaves at once, and the client waits (KIP-219)
v3: group instance id (KIP-345)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Int16, Int32, Message, String


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    group_id: Annotated[str, String("0+")] = ""
    generation_id: Annotated[int, Int32("0+")] = 0
    member_id: Annotated[str, String("0+")] = ""
    group_instance_id: Annotated[str | None, String("3+", nullable="3+")] = None


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
