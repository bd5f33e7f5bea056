"""ListOffsets (key 2): versions 1-10, flexible from 6.

v1: one offset and its timestamp for a time, in place of a list of segments' offsets (KIP-79)
v2: isolation level (KIP-98)
v3: a throttled answer leaves at once, and the client waits (KIP-219)
v4: leader epochs, both ways (KIP-320)
v5: OFFSET_NOT_AVAILABLE while a new leader does not know the high watermark (KIP-207)
v7: timestamp -3, the record with the greatest timestamp (KIP-734)
v8: timestamp -4, the earliest offset that is on local disk (KIP-405)
v9: timestamp -5, the last offset in tiered storage (KIP-1005)
v10: a timeout for lookups in remote storage (KIP-1075)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int8, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class ListOffsetsRequest(Message, api_key=2, versions="1-10", flexible="6+"):
    replica_id: Annotated[int, Int32("0+")] = 0
    isolation_level: Annotated[int, Int8("2+")] = 0
    topics: Annotated[list[ListOffsetsTopic], Array("0+")] = field(default_factory=empty_list)
    timeout_ms: Annotated[int, Int32("10+", ignorable=True)] = 0


class ListOffsetsTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[ListOffsetsPartition], Array("0+")] = field(default_factory=empty_list)


class ListOffsetsPartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    current_leader_epoch: Annotated[int, Int32("4+", ignorable=True)] = -1
    timestamp: Annotated[int, Int64("0+")] = 0


class ListOffsetsResponse(Message, api_key=2, versions="1-10", flexible="6+"):
    throttle_time_ms: Annotated[int, Int32("2+", ignorable=True)] = 0
    topics: Annotated[list[ListOffsetsTopicResponse], Array("0+")] = field(default_factory=empty_list)


class ListOffsetsTopicResponse(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[ListOffsetsPartitionResponse], Array("0+")] = field(default_factory=empty_list)


class ListOffsetsPartitionResponse(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    timestamp: Annotated[int, Int64("1+")] = -1
    offset: Annotated[int, Int64("1+")] = -1
    leader_epoch: Annotated[int, Int32("4+")] = -1
