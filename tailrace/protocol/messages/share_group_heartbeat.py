"""ShareGroupHeartbeat (key 76): version 1, flexible from 0.

v1: a share group's join, heartbeat and leave (KIP-932)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, Nested, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class ShareGroupHeartbeatRequest(Message, api_key=76, versions="1", flexible="0+"):
    group_id: Annotated[str, String("0+")] = ""
    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    subscribed_topic_names: Annotated[list[str] | None, Array("0+", of=String(), nullable="0+")] = None


class ShareGroupHeartbeatResponse(Message, api_key=76, versions="1", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_epoch: Annotated[int, Int32("0+")] = 0
    heartbeat_interval_ms: Annotated[int, Int32("0+")] = 0
    assignment: Annotated[Assignment | None, Nested("0+", nullable="0+")] = None


class Assignment(WireStruct):
    topic_partitions: Annotated[list[TopicPartitions], Array("0+")] = field(default_factory=empty_list)


class TopicPartitions(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
