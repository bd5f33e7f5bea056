"""Vote (key 52): versions 0-2, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Bool,
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


class VoteRequest(Message, api_key=52, versions="0-2", flexible="0+"):
    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = None
    voter_id: Annotated[int, Int32("1+", ignorable=True)] = -1
    topics: Annotated[list[TopicDataRequest], Array("0+")] = field(default_factory=empty_list)


class TopicDataRequest(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[PartitionDataRequest], Array("0+")] = field(default_factory=empty_list)


class PartitionDataRequest(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    replica_epoch: Annotated[int, Int32("0+")] = 0
    replica_id: Annotated[int, Int32("0+")] = 0
    replica_directory_id: Annotated[bytes, Uuid("1+", ignorable=True)] = ZERO_UUID
    voter_directory_id: Annotated[bytes, Uuid("1+", ignorable=True)] = ZERO_UUID
    last_offset_epoch: Annotated[int, Int32("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    pre_vote: Annotated[bool, Bool("2+")] = False


class VoteResponse(Message, api_key=52, versions="0-2", flexible="0+"):
    error_code: Annotated[int, Int16("0+")] = 0
    topics: Annotated[list[TopicDataResponse], Array("0+")] = field(default_factory=empty_list)
    node_endpoints: Annotated[list[NodeEndpoint], Array("1+", tag=0, tagged="1+")] = field(default_factory=empty_list)


class TopicDataResponse(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[PartitionDataResponse], Array("0+")] = field(default_factory=empty_list)


class PartitionDataResponse(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    vote_granted: Annotated[bool, Bool("0+")] = False


class NodeEndpoint(WireStruct):
    node_id: Annotated[int, Int32("1+")] = 0
    host: Annotated[str, String("1+")] = ""
    port: Annotated[int, UInt16("1+")] = 0
