"""InitializeShareGroupState (key 83): versions 0, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class InitializeShareGroupStateRequest(Message, api_key=83, versions="0", flexible="0+"):
    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[list[InitializeStateData], Array("0+")] = field(default_factory=empty_list)


class InitializeStateData(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionData], Array("0+")] = field(default_factory=empty_list)


class PartitionData(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0
    state_epoch: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0


class InitializeShareGroupStateResponse(Message, api_key=83, versions="0", flexible="0+"):
    results: Annotated[list[InitializeStateResult], Array("0+")] = field(default_factory=empty_list)


class InitializeStateResult(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionResult], Array("0+")] = field(default_factory=empty_list)


class PartitionResult(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
