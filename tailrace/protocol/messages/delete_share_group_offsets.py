"""DeleteShareGroupOffsets (key 92): version 0, flexible from 0.

v0: lets an empty share group begin anew on topics (KIP-932)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions="0", flexible="0+"):
    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[list[DeleteShareGroupOffsetsRequestTopic], Array("0+")] = field(default_factory=empty_list)


class DeleteShareGroupOffsetsRequestTopic(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    responses: Annotated[list[DeleteShareGroupOffsetsResponseTopic], Array("0+")] = field(default_factory=empty_list)


class DeleteShareGroupOffsetsResponseTopic(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
