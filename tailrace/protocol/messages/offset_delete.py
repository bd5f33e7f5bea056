"""OffsetDelete (key 47): version 0, never flexible.

v0: deletes committed offsets of topics that the group does not read (KIP-496)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, WireStruct, empty_list, field


class OffsetDeleteRequest(Message, api_key=47, versions="0", flexible="none"):
    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[list[OffsetDeleteRequestTopic], Array("0+")] = field(default_factory=empty_list)


class OffsetDeleteRequestTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[OffsetDeleteRequestPartition], Array("0+")] = field(default_factory=empty_list)


class OffsetDeleteRequestPartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0


class OffsetDeleteResponse(Message, api_key=47, versions="0", flexible="none"):
    error_code: Annotated[int, Int16("0+")] = 0
    throttle_time_ms: Annotated[int, Int32("0+", ignorable=True)] = 0
    topics: Annotated[list[OffsetDeleteResponseTopic], Array("0+")] = field(default_factory=empty_list)


class OffsetDeleteResponseTopic(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[OffsetDeleteResponsePartition], Array("0+")] = field(default_factory=empty_list)


class OffsetDeleteResponsePartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
