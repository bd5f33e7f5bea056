"""ShareGroupDescribe (key 77): version 1, flexible from 0.

v1: members of share groups and what they read (KIP-932)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Bool,
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


class ShareGroupDescribeRequest(Message, api_key=77, versions="1", flexible="0+"):
    group_ids: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    include_authorized_operations: Annotated[bool, Bool("0+")] = False


class ShareGroupDescribeResponse(Message, api_key=77, versions="1", flexible="0+"):
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
    rack_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_epoch: Annotated[int, Int32("0+")] = 0
    client_id: Annotated[str, String("0+")] = ""
    client_host: Annotated[str, String("0+")] = ""
    subscribed_topic_names: Annotated[list[str], Array("0+", of=String())] = field(default_factory=empty_list)
    assignment: Annotated[Assignment, Nested("0+")] = field(default_factory=lambda: Assignment())


class Assignment(WireStruct):
    topic_partitions: Annotated[list[TopicPartitions], Array("0+")] = field(default_factory=empty_list)


class TopicPartitions(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
