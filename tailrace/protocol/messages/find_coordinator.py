"""FindCoordinator (key 10): versions 0-6, flexible from 3.

v1: the kind of key, so that transactional ids have coordinators too; an error message (KIP-98)
v2: a throttled answer leaves at once, and the client waits (KIP-219)
v4: several keys in one request (KIP-699)
v5: TRANSACTION_ABORTABLE (KIP-890)
v6: share groups; their key is "group:topic id:partition" (KIP-932)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    key: Annotated[str, String("0-3")] = ""
    key_type: Annotated[int, Int8("1+")] = 0
    coordinator_keys: Annotated[list[str], Array("4+", of=String())] = field(default_factory=empty_list)


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0-3")] = 0
    error_message: Annotated[str | None, String("1-3", nullable="1-3", ignorable=True)] = ""
    node_id: Annotated[int, Int32("0-3")] = 0
    host: Annotated[str, String("0-3")] = ""
    port: Annotated[int, Int32("0-3")] = 0
    coordinators: Annotated[list[Coordinator], Array("4+")] = field(default_factory=empty_list)


class Coordinator(WireStruct):
    key: Annotated[str, String("4+")] = ""
    node_id: Annotated[int, Int32("4+")] = 0
    host: Annotated[str, String("4+")] = ""
    port: Annotated[int, Int32("4+")] = 0
    error_code: Annotated[int, Int16("4+")] = 0
    error_message: Annotated[str | None, String("4+", nullable="4+", ignorable=True)] = ""
