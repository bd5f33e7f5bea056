"""EndQuorumEpoch (key 54): versions 0-1, flexible from 1."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Message, String, UInt16, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class EndQuorumEpochRequest(Message, api_key=54, versions="0-1", flexible="1+"):
    cluster_id: Annotated[str | None, String("0+", nullable="0+")] = None
    topics: Annotated[list[TopicDataRequest], Array("0+")] = field(default_factory=empty_list)
    leader_endpoints: Annotated[list[LeaderEndpoint], Array("1+", ignorable=True)] = field(default_factory=empty_list)


class TopicDataRequest(WireStruct):
    topic_name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[PartitionDataRequest], Array("0+")] = field(default_factory=empty_list)


class PartitionDataRequest(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0
    preferred_successors: Annotated[list[int], Array("0", of=Int32(), ignorable=True)] = field(
        default_factory=empty_list
    )
    preferred_candidates: Annotated[list[ReplicaInfo], Array("1+", ignorable=True)] = field(default_factory=empty_list)


class ReplicaInfo(WireStruct):
    candidate_id: Annotated[int, Int32("1+")] = 0
    candidate_directory_id: Annotated[bytes, Uuid("1+")] = ZERO_UUID


class LeaderEndpoint(WireStruct):
    name: Annotated[str, String("1+")] = ""
    host: Annotated[str, String("1+")] = ""
    port: Annotated[int, UInt16("1+")] = 0


class EndQuorumEpochResponse(Message, api_key=54, versions="0-1", flexible="1+"):
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
