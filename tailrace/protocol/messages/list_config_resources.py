"""ListConfigResources (key 74): versions 0-1, flexible from 0.

v0: subscriptions to client metrics; the API was named after them (KIP-714)
v1: resources of any type; without a type, all (KIP-1142)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    resource_types: Annotated[list[int], Array("1+", of=Int8())] = field(default_factory=empty_list)


class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    config_resources: Annotated[list[ConfigResource], Array("0+")] = field(default_factory=empty_list)


class ConfigResource(WireStruct):
    resource_name: Annotated[str, String("0+")] = ""
    resource_type: Annotated[int, Int8("1+", ignorable=True)] = 16
