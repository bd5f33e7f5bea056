"""DescribeConfigs (key 32): versions 1-4, flexible from 4.

v1: where each value comes from, and its synonyms (KIP-226)
v2: a throttled answer leaves at once, and the client waits (KIP-219)
v3: type and documentation of each key (KIP-569)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class DescribeConfigsRequest(Message, api_key=32, versions="1-4", flexible="4+"):
    resources: Annotated[list[DescribeConfigsResource], Array("0+")] = field(default_factory=empty_list)
    include_synonyms: Annotated[bool, Bool("1+")] = False
    include_documentation: Annotated[bool, Bool("3+")] = False


class DescribeConfigsResource(WireStruct):
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    configuration_keys: Annotated[list[str] | None, Array("0+", of=String(), nullable="0+")] = field(
        default_factory=empty_list
    )


class DescribeConfigsResponse(Message, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    results: Annotated[list[DescribeConfigsResult], Array("0+")] = field(default_factory=empty_list)


class DescribeConfigsResult(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    configs: Annotated[list[DescribeConfigsResourceResult], Array("0+")] = field(default_factory=empty_list)


class DescribeConfigsResourceResult(WireStruct):
    name: Annotated[str, String("0+")] = ""
    value: Annotated[str | None, String("0+", nullable="0+")] = ""
    read_only: Annotated[bool, Bool("0+")] = False
    config_source: Annotated[int, Int8("1+", ignorable=True)] = -1
    is_sensitive: Annotated[bool, Bool("0+")] = False
    synonyms: Annotated[list[DescribeConfigsSynonym], Array("1+", ignorable=True)] = field(default_factory=empty_list)
    config_type: Annotated[int, Int8("3+", ignorable=True)] = 0
    documentation: Annotated[str | None, String("3+", nullable="0+", ignorable=True)] = ""


class DescribeConfigsSynonym(WireStruct):
    name: Annotated[str, String("1+")] = ""
    value: Annotated[str | None, String("1+", nullable="0+")] = ""
    source: Annotated[int, Int8("1+")] = 0
