"""WriteShareGroupState (key 85): versions 0, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class WriteShareGroupStateRequest(Message, api_key=85, versions="0", flexible="0+"):
    group_id: Annotated[str, String("0+")] = ""
    topics: Annotated[list[WriteStateData], Array("0+")] = field(default_factory=empty_list)


class WriteStateData(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionData], Array("0+")] = field(default_factory=empty_list)


class PartitionData(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0
    state_epoch: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    start_offset: Annotated[int, Int64("0+")] = 0
    state_batches: Annotated[list[StateBatch], Array("0+")] = field(default_factory=empty_list)


class StateBatch(WireStruct):
    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    delivery_state: Annotated[int, Int8("0+")] = 0
    delivery_count: Annotated[int, Int16("0+")] = 0


class WriteShareGroupStateResponse(Message, api_key=85, versions="0", flexible="0+"):
    results: Annotated[list[WriteStateResult], Array("0+")] = field(default_factory=empty_list)


class WriteStateResult(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionResult], Array("0+")] = field(default_factory=empty_list)


class PartitionResult(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
