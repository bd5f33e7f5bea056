"""BeginQuorumEpoch (key 53): versions 0-1, flexible from 1."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, UInt16, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class BeginQuorumEpochRequest(Message, api_key=53, versions="0-1", flexible="1+"):
    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = None
    voter_id: Annotated[int, Int32("1+", ignorable=True)] = -1
    topics: Annotated[list[TopicDataRequest], Array("0+")] = field(default_factory=empty_list)
    leader_endpoints: Annotated[list[LeaderEndpoint], Array("1+", ignorable=True)] = field(default_factory=empty_list)


class TopicDataRequest(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[PartitionDataRequest], Array("0+")] = field(default_factory=empty_list)


class PartitionDataRequest(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    voter_directory_id: Annotated[bytes, Uuid("1+", ignorable=True)] = ZERO_UUID
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


class LeaderEndpoint(WireStruct):
    name: Annotated[str, String("1+")] = ""
    host: Annotated[str, String("1+")] = ""
    port: Annotated[int, UInt16("1+")] = 0


class BeginQuorumEpochResponse(Message, api_key=53, versions="0-1", flexible="1+"):
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


class NodeEndpoint(WireStruct):
    node_id: Annotated[int, Int32("1+")] = 0
    host: Annotated[str, String("1+")] = ""
    port: Annotated[int, UInt16("1+")] = 0
