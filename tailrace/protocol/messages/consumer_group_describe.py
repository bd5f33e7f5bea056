"""ConsumerGroupDescribe (key 69): versions 0-1, flexible from 0.

v0: groups of the new consumer protocol (KIP-848)
v1: whether a member is classic or new (KIP-1099)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    Nested,
    String,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class ConsumerGroupDescribeRequest(Message, api_key=69, versions="0-1", flexible="0+"):
    group_ids: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    include_authorized_operations: Annotated[bool, Bool("0+")] = False


class ConsumerGroupDescribeResponse(Message, api_key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    groups: Annotated[list[DescribedGroup], Array("0+")] = field(default_factory=empty_list)


class DescribedGroup(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    group_id: Annotated[str, String("0+")] = ""
    group_state: Annotated[str, String("0+")] = ""
    group_epoch: Annotated[int, Int32("0+")] = 0
    assignment_epoch: Annotated[int, Int32("0+")] = 0
    assignor_name: Annotated[str, String("0+")] = ""
    members: Annotated[list[Member], Array("0+")] = field(default_factory=empty_list)
    authorized_operations: Annotated[int, Int32("0+")] = -2147483648


class Member(WireStruct):
    member_id: Annotated[str, String("0+")] = ""
    instance_id: Annotated[str | None, String("0+", nullable="0+")] = None
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_epoch: Annotated[int, Int32("0+")] = 0
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    subscribed_topic_names: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    subscribed_topic_regex: Annotated[str | None, String("0+", nullable="0+")] = None
    assignment: Annotated[Assignment, Nested("0+")] = field(default_factory=lambda: Assignment())
    target_assignment: Annotated[Assignment, Nested("0+")] = field(default_factory=lambda: Assignment())
    member_type: Annotated[int, Int8("1+", ignorable=True)] = -1


class Assignment(WireStruct):
    topic_partitions: Annotated[list[TopicPartitions], Array("0+")] = field(default_factory=empty_list)


class TopicPartitions(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
