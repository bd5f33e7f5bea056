"""ListGroups (key 16): versions 0-5, flexible from 3.

v1: throttle time
v2: a throttled answer leaves at once, and the client waits (KIP-219)
v4: filter by state, and each group's state (KIP-518)
v5: filter by type, and each group's type (KIP-848)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, WireStruct, empty_list, field


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    states_filter: Annotated[list[str], Array("4+", of=String())] = field(default_factory=empty_list)
    types_filter: Annotated[list[str], Array("5+", of=String())] = field(default_factory=empty_list)


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    groups: Annotated[list[ListedGroup], Array("0+")] = field(default_factory=empty_list)


class ListedGroup(WireStruct):
    group_id: Annotated[str, String("0+")] = ""
    protocol_type: Annotated[str, String("0+")] = ""
    group_state: Annotated[str, String("4+", ignorable=True)] = ""
    group_type: Annotated[str, String("5+", ignorable=True)] = ""
