"""DeleteGroups (key 42): versions 0-2, flexible from 2.

v0: deletes empty groups and their offsets (KIP-229)
v1: a throttled answer leaves at once, and the client waits (KIP-219)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, WireStruct, empty_list, field


class DeleteGroupsRequest(Message, api_key=42, versions="0-2", flexible="2+"):
    groups_names: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)


class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[list[DeletableGroupResult], Array("0+")] = field(default_factory=empty_list)


class DeletableGroupResult(WireStruct):
    group_id: Annotated[str, String("0+")] = ""
    error_code: Annotated[int, Int16("0+")] = 0
