"""DeleteShareGroupState (key 86): versions 0, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class DeleteShareGroupStateRequest(Message, api_key=86, versions="0", flexible="0+"):
    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[list[DeleteStateData], Array("0+")] = field(default_factory=empty_list)


class DeleteStateData(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionData], Array("0+")] = field(default_factory=empty_list)


class PartitionData(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0


class DeleteShareGroupStateResponse(Message, api_key=86, versions="0", flexible="0+"):
    results: Annotated[list[DeleteStateResult], Array("0+")] = field(default_factory=empty_list)


class DeleteStateResult(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionResult], Array("0+")] = field(default_factory=empty_list)


class PartitionResult(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
