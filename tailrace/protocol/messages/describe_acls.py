"""DescribeAcls (key 29): versions 1-3, flexible from 2.

v1: pattern types, literal and prefixed (KIP-290); a throttled answer leaves at once (KIP-219)
v3: resources of type user (KIP-373)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class DescribeAclsRequest(Message, api_key=29, versions="1-3", flexible="2+"):
    resource_type_filter: Annotated[int, Int8("0+")] = 0
    resource_name_filter: Annotated[str | None, String("0+", nullable="0+")] = ""
    pattern_type_filter: Annotated[int, Int8("1+")] = 3
    principal_filter: Annotated[str | None, String("0+", nullable="0+")] = ""
    host_filter: Annotated[str | None, String("0+", nullable="0+")] = ""
    operation: Annotated[int, Int8("0+")] = 0
    permission_type: Annotated[int, Int8("0+")] = 0


class DescribeAclsResponse(Message, api_key=29, versions="1-3", flexible="2+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    resources: Annotated[list[DescribeAclsResource], Array("0+")] = field(default_factory=empty_list)


class DescribeAclsResource(WireStruct):
    resource_type: Annotated[int, Int8("0+")] = 0
    resource_name: Annotated[str, String("0+")] = ""
    pattern_type: Annotated[int, Int8("1+")] = 3
    acls: Annotated[list[AclDescription], Array("0+")] = field(default_factory=empty_list)


class AclDescription(WireStruct):
    principal: Annotated[str, String("0+")] = ""
    host: Annotated[str, String("0+")] = ""
    operation: Annotated[int, Int8("0+")] = 0
    permission_type: Annotated[int, Int8("0+")] = 0
