"""AlterConfigs (key 33): versions 0-2, flexible from 2.

v0: replaces the whole configuration of a resource; IncrementalAlterConfigs is the better way (KIP-133)
v1: a throttled answer leaves at once, and the client waits (KIP-219)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    resources: Annotated[list[AlterConfigsResource], Array("0+")] = field(default_factory=empty_list)
    validate_only: Annotated[bool, Bool("0+")] = False


class AlterConfigsResource(WireStruct):
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    configs: Annotated[list[AlterableConfig], Array("0+")] = field(default_factory=empty_list)


class AlterableConfig(WireStruct):
    name: Annotated[str, String("0+")] = ""
    value: Annotated[str | None, String("0+", nullable="0+")] = ""


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    responses: Annotated[list[AlterConfigsResourceResponse], Array("0+")] = field(default_factory=empty_list)


class AlterConfigsResourceResponse(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
