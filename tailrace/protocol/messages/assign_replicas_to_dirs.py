"""AssignReplicasToDirs (key 73): versions 0, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import Array, Int16, Int32, Int64, Message, Uuid, WireStruct, empty_list, field
from tailrace.protocol.uuid import ZERO_UUID


class AssignReplicasToDirsRequest(Message, api_key=73, versions="0", flexible="0+"):
    broker_id: Annotated[int, Int32("0+")] = 0
    broker_epoch: Annotated[int, Int64("0+")] = -1
    directories: Annotated[list[DirectoryDataRequest], Array("0+")] = field(default_factory=empty_list)


class DirectoryDataRequest(WireStruct):
    id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    topics: Annotated[list[TopicDataRequest], Array("0+")] = field(default_factory=empty_list)


class TopicDataRequest(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionDataRequest], Array("0+")] = field(default_factory=empty_list)


class PartitionDataRequest(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0


class AssignReplicasToDirsResponse(Message, api_key=73, versions="0", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    directories: Annotated[list[DirectoryDataResponse], Array("0+")] = field(default_factory=empty_list)


class DirectoryDataResponse(WireStruct):
    id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    topics: Annotated[list[TopicDataResponse], Array("0+")] = field(default_factory=empty_list)


class TopicDataResponse(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionDataResponse], Array("0+")] = field(default_factory=empty_list)


class PartitionDataResponse(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
