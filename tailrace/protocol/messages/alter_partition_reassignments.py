"""AlterPartitionReassignments (key 45): versions 0-1, flexible from 0.

v0: begins or cancels moving partitions (KIP-455)
v1: says whether the replication factor may change (KIP-860)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Bool, Int16, Int32, Message, String, WireStruct, empty_list, field


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0-1", flexible="0+"):
    timeout_ms: Annotated[int, Int32("0+")] = 60000
    allow_replication_factor_change: Annotated[bool, Bool("1+")] = True
    topics: Annotated[list[ReassignableTopic], Array("0+")] = field(default_factory=empty_list)


class ReassignableTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[ReassignablePartition], Array("0+")] = field(default_factory=empty_list)


class ReassignablePartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    replicas: Annotated[list[int] | None, Array("0+", of=Int32(), nullable="0+")] = None


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    allow_replication_factor_change: Annotated[bool, Bool("1+", ignorable=True)] = True
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
    responses: Annotated[list[ReassignableTopicResponse], Array("0+")] = field(default_factory=empty_list)


class ReassignableTopicResponse(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[ReassignablePartitionResponse], Array("0+")] = field(default_factory=empty_list)


class ReassignablePartitionResponse(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = ""
