"""IncrementalAlterConfigs (key 44): versions 0-1, flexible from 1.

v0: set, delete, append and subtract, key by key (KIP-339)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    resources: Annotated[list[AlterConfigsResource], Array("0+")] = field(default_factory=empty_list)
    validate_only: Annotated[bool, Bool("0+")] = False


class AlterConfigsResource(WireStruct):
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    configs: Annotated[list[AlterableConfig], Array("0+")] = field(default_factory=empty_list)


class AlterableConfig(WireStruct):
    name: Annotated[str, String("0+")] = ""
    config_operation: Annotated[int, Int8("0+")] = 0
    value: Annotated[str | None, String("0+", nullable="0+")] = ""


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    responses: Annotated[list[AlterConfigsResourceResponse], Array("0+")] = field(default_factory=empty_list)


class AlterConfigsResourceResponse(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
