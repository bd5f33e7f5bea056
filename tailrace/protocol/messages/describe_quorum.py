"""DescribeQuorum (key 55): versions 0-2, flexible from 0.

v0: leader, voters and observers of the metadata quorum (KIP-595)
v1: when each replica last fetched and last was caught up (KIP-836)
v2: error messages, directory ids, and the voters' addresses (KIP-853)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    UInt16,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class DescribeQuorumRequest(Message, api_key=55, versions="0-2", flexible="0+"):
    topics: Annotated[list[TopicDataRequest], Array("0+")] = field(default_factory=empty_list)


class TopicDataRequest(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[PartitionDataRequest], Array("0+")] = field(default_factory=empty_list)


class PartitionDataRequest(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0


class DescribeQuorumResponse(Message, api_key=55, versions="0-2", flexible="0+"):
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("2+", nullable="2+", ignorable=True)] = ""
    topics: Annotated[list[TopicDataResponse], Array("0+")] = field(default_factory=empty_list)
    nodes: Annotated[list[Node], Array("2+")] = field(default_factory=empty_list)


class TopicDataResponse(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[PartitionDataResponse], Array("0+")] = field(default_factory=empty_list)


class PartitionDataResponse(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("2+", nullable="2+", ignorable=True)] = ""
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    high_watermark: Annotated[int, Int64("0+")] = 0
    current_voters: Annotated[list[ReplicaState], Array("0+")] = field(default_factory=empty_list)
    observers: Annotated[list[ReplicaState], Array("0+")] = field(default_factory=empty_list)


class ReplicaState(WireStruct):
    replica_id: Annotated[int, Int32("0+")] = 0
    replica_directory_id: Annotated[bytes, Uuid("2+")] = ZERO_UUID
    log_end_offset: Annotated[int, Int64("0+")] = 0
    last_fetch_timestamp: Annotated[int, Int64("1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[int, Int64("1+", ignorable=True)] = -1


class Node(WireStruct):
    node_id: Annotated[int, Int32("2+")] = 0
    listeners: Annotated[list[Listener], Array("2+")] = field(default_factory=empty_list)


class Listener(WireStruct):
    name: Annotated[str, String("2+")] = ""
    host: Annotated[str, String("2+")] = ""
    port: Annotated[int, UInt16("2+")] = 0
