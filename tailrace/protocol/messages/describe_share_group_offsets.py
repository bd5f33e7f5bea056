"""DescribeShareGroupOffsets (key 90): version 0, flexible from 0.

v0: from where a share group reads (KIP-932)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions="0", flexible="0+"):
    groups: Annotated[list[DescribeShareGroupOffsetsRequestGroup], Array("0+")] = field(default_factory=empty_list)


class DescribeShareGroupOffsetsRequestGroup(WireStruct):
    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[list[DescribeShareGroupOffsetsRequestTopic] | None, Array("0+", nullable="0+")] = field(
        default_factory=empty_list
    )


class DescribeShareGroupOffsetsRequestTopic(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    groups: Annotated[list[DescribeShareGroupOffsetsResponseGroup], Array("0+")] = field(default_factory=empty_list)


class DescribeShareGroupOffsetsResponseGroup(WireStruct):
    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[list[DescribeShareGroupOffsetsResponseTopic], Array("0+")] = field(default_factory=empty_list)
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None


class DescribeShareGroupOffsetsResponseTopic(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[DescribeShareGroupOffsetsResponsePartition], Array("0+")] = field(
        default_factory=empty_list
    )


class DescribeShareGroupOffsetsResponsePartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
