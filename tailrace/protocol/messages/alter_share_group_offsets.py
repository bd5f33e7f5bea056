"""AlterShareGroupOffsets (key 91): version 0, flexible from 0.

v0: sets from where an empty share group reads (KIP-932)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions="0", flexible="0+"):
    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[list[AlterShareGroupOffsetsRequestTopic], Array("0+")] = field(default_factory=empty_list)


class AlterShareGroupOffsetsRequestTopic(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[AlterShareGroupOffsetsRequestPartition], Array("0+")] = field(default_factory=empty_list)


class AlterShareGroupOffsetsRequestPartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    responses: Annotated[list[AlterShareGroupOffsetsResponseTopic], Array("0+")] = field(default_factory=empty_list)


class AlterShareGroupOffsetsResponseTopic(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[AlterShareGroupOffsetsResponsePartition], Array("0+")] = field(
        default_factory=empty_list
    )


class AlterShareGroupOffsetsResponsePartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
