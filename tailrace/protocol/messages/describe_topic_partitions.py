"""DescribeTopicPartitions (key 75): version 0, flexible from 0.

v0: topics page by page, with eligible leader replicas (KIP-966)
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


class DescribeTopicPartitionsRequest(Message, api_key=75, versions="0", flexible="0+"):
    topics: Annotated[list[TopicRequest], Array("0+")] = field(default_factory=empty_list)
    response_partition_limit: Annotated[int, Int32("0+")] = 2000
    cursor: Annotated[CursorRequest | None, Nested("0+", nullable="0+")] = None


class TopicRequest(WireStruct):
    name: Annotated[str, String("0+")] = ""


class CursorRequest(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partition_index: Annotated[int, Int32("0+")] = 0


class DescribeTopicPartitionsResponse(Message, api_key=75, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+", ignorable=True)] = 0
    topics: Annotated[list[DescribeTopicPartitionsResponseTopic], Array("0+")] = field(default_factory=empty_list)
    next_cursor: Annotated[CursorResponse | None, Nested("0+", nullable="0+")] = None


class DescribeTopicPartitionsResponseTopic(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    name: Annotated[str | None, String("0+", nullable="0+")] = ""
    topic_id: Annotated[bytes, Uuid("0+", ignorable=True)] = ZERO_UUID
    is_internal: Annotated[bool, Bool("0+", ignorable=True)] = False
    partitions: Annotated[list[DescribeTopicPartitionsResponsePartition], Array("0+")] = field(
        default_factory=empty_list
    )
    topic_authorized_operations: Annotated[int, Int32("0+")] = -2147483648


class DescribeTopicPartitionsResponsePartition(WireStruct):
    error_code: Annotated[int, Int16("0+")] = 0
    partition_index: Annotated[int, Int32("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+", ignorable=True)] = -1
    replica_nodes: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
    isr_nodes: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)
    eligible_leader_replicas: Annotated[list[int] | None, Array("0+", of=Int32(), nullable="0+")] = None
    last_known_elr: Annotated[list[int] | None, Array("0+", of=Int32(), nullable="0+")] = None
    offline_replicas: Annotated[list[int], Array("0+", of=Int32(), ignorable=True)] = field(default_factory=empty_list)


class CursorResponse(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partition_index: Annotated[int, Int32("0+")] = 0
