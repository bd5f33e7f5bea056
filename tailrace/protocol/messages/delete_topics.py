"""DeleteTopics (key 20): versions 1-6, flexible from 4.

v1: throttle time
v2: a throttled answer leaves at once, and the client waits (KIP-219)
v3: TOPIC_DELETION_DISABLED
v5: a message for each topic; THROTTLING_QUOTA_EXCEEDED (KIP-599)
v6: by topic id or by name (KIP-516)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class DeleteTopicsRequest(Message, api_key=20, versions="1-6", flexible="4+"):
    topics: Annotated[list[DeleteTopicState], Array("6+")] = field(default_factory=empty_list)
    topic_names: Annotated[list[str], Array("0-5", of=String(), ignorable=True)] = field(default_factory=empty_list)
    timeout_ms: Annotated[int, Int32("0+")] = 0


class DeleteTopicState(WireStruct):
    name: Annotated[str | None, String("6+", nullable="6+")] = None
    topic_id: Annotated[bytes, Uuid("6+")] = ZERO_UUID


class DeleteTopicsResponse(Message, api_key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    responses: Annotated[list[DeletableTopicResult], Array("0+")] = field(default_factory=empty_list)


class DeletableTopicResult(WireStruct):
    name: Annotated[str | None, String("0+", nullable="6+")] = ""
    topic_id: Annotated[bytes, Uuid("6+", ignorable=True)] = ZERO_UUID
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("5+", nullable="5+", ignorable=True)] = None
