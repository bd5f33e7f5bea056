"""BrokerHeartbeat (key 63): versions 0-1, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int16, Int32, Int64, Message, Uuid, empty_list, field


class BrokerHeartbeatRequest(Message, api_key=63, versions="0-1", flexible="0+"):
    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1
    current_metadata_offset: Annotated[int, Int64("0+")] = 0
    want_fence: Annotated[bool, Bool("0+")] = False
    want_shut_down: Annotated[bool, Bool("0+")] = False
    offline_log_dirs: Annotated[list[bytes], Array("1+", of=Uuid(), tag=0, tagged="1+")] = field(
        default_factory=empty_list
    )


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-1", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    is_caught_up: Annotated[bool, Bool("0+")] = False
    is_fenced: Annotated[bool, Bool("0+")] = True
    should_shut_down: Annotated[bool, Bool("0+")] = False
