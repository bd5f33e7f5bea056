"""ConsumerGroupHeartbeat (key 68): versions 0-1, flexible from 0.

v0: the one request of the new consumer protocol: join, subscribe, own, leave (KIP-848)
v1: subscription by a pattern that the broker evaluates (KIP-848); the member makes its own id (KIP-1082)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, Nested, String, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions="0-1", flexible="0+"):
    group_id: Annotated[str, String("0+")] = ""
    member_id: Annotated[str, String("0+")] = ""
    member_epoch: Annotated[int, Int32("0+")] = 0
    instance_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rebalance_timeout_ms: Annotated[int, Int32("0+")] = -1
    subscribed_topic_names: Annotated[list[str] | None, Array("0+", of=String(), nullable="0+")] = None
    subscribed_topic_regex: Annotated[str | None, String("1+", nullable="1+")] = None
    server_assignor: Annotated[str | None, String("0+", nullable="0+")] = None
    topic_partitions: Annotated[list[TopicPartitionsRequest] | None, Array("0+", nullable="0+")] = None


class TopicPartitionsRequest(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_epoch: Annotated[int, Int32("0+")] = 0
    heartbeat_interval_ms: Annotated[int, Int32("0+")] = 0
    assignment: Annotated[Assignment | None, Nested("0+", nullable="0+")] = None


class Assignment(WireStruct):
    topic_partitions: Annotated[list[TopicPartitionsResponse], Array("0+")] = field(default_factory=empty_list)


class TopicPartitionsResponse(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
