"""DescribeCluster (key 60): versions 0-2, flexible from 0.

v0: brokers, controller and cluster id (KIP-700)
v1: of brokers or of controllers; MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE (KIP-919)
v2: fenced brokers, on demand (KIP-1073)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int8, Int16, Int32, Message, String, WireStruct, empty_list, field


class DescribeClusterRequest(Message, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: Annotated[bool, Bool("0+")] = False
    endpoint_type: Annotated[int, Int8("1+")] = 1
    include_fenced_brokers: Annotated[bool, Bool("2+")] = False


class DescribeClusterResponse(Message, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    endpoint_type: Annotated[int, Int8("1+")] = 1
    cluster_id: Annotated[str, String("0+")] = ""
    controller_id: Annotated[int, Int32("0+")] = -1
    brokers: Annotated[list[DescribeClusterBroker], Array("0+")] = field(default_factory=empty_list)
    cluster_authorized_operations: Annotated[int, Int32("0+")] = -2147483648


class DescribeClusterBroker(WireStruct):
    broker_id: Annotated[int, Int32("0+")] = 0
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0
    rack: Annotated[str | None, String("0+", nullable="0+")] = None
    is_fenced: Annotated[bool, Bool("2+")] = False
