"""DeleteRecords (key 21): versions 0-2, flexible from 2.

v0: moves the log start offset up; -1 stands for the high watermark (KIP-107)
v1: a throttled answer leaves at once, and the client waits (KIP-219)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, WireStruct, empty_list, field


class DeleteRecordsRequest(Message, api_key=21, versions="0-2", flexible="2+"):
    topics: Annotated[list[DeleteRecordsTopic], Array("0+")] = field(default_factory=empty_list)
    timeout_ms: Annotated[int, Int32("0+")] = 0


class DeleteRecordsTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[DeleteRecordsPartition], Array("0+")] = field(default_factory=empty_list)


class DeleteRecordsPartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    offset: Annotated[int, Int64("0+")] = 0


class DeleteRecordsResponse(Message, api_key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    topics: Annotated[list[DeleteRecordsTopicResult], Array("0+")] = field(default_factory=empty_list)


class DeleteRecordsTopicResult(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[DeleteRecordsPartitionResult], Array("0+")] = field(default_factory=empty_list)


class DeleteRecordsPartitionResult(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    low_watermark: Annotated[int, Int64("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
