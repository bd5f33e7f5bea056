"""FetchSnapshot (key 59): versions 0-1, flexible from 0."""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    Message,
    Nested,
    Records,
    String,
    UInt16,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class FetchSnapshotRequest(Message, api_key=59, versions="0-1", flexible="0+"):
    cluster_id: Annotated[str | None, String("0+", nullable="0+", tag=0, tagged="0+")] = None
    replica_id: Annotated[int, Int32("0+")] = -1
    max_bytes: Annotated[int, Int32("0+")] = 2147483647
    topics: Annotated[list[TopicSnapshotRequest], Array("0+")] = field(default_factory=empty_list)


class TopicSnapshotRequest(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[PartitionSnapshotRequest], Array("0+")] = field(default_factory=empty_list)


class PartitionSnapshotRequest(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0
    current_leader_epoch: Annotated[int, Int32("0+")] = 0
    snapshot_id: Annotated[SnapshotIdRequest, Nested("0+")] = field(default_factory=lambda: SnapshotIdRequest())
    position: Annotated[int, Int64("0+")] = 0
    replica_directory_id: Annotated[bytes, Uuid("1+", tag=0, tagged="1+", ignorable=True)] = ZERO_UUID


class SnapshotIdRequest(WireStruct):
    end_offset: Annotated[int, Int64("0+")] = 0
    epoch: Annotated[int, Int32("0+")] = 0


class FetchSnapshotResponse(Message, api_key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    topics: Annotated[list[TopicSnapshotResponse], Array("0+")] = field(default_factory=empty_list)
    node_endpoints: Annotated[list[NodeEndpoint], Array("1+", tag=0, tagged="1+")] = field(default_factory=empty_list)


class TopicSnapshotResponse(WireStruct):
    name: Annotated[str, String("0+")] = ""
    partitions: Annotated[list[PartitionSnapshotResponse], Array("0+")] = field(default_factory=empty_list)


class PartitionSnapshotResponse(WireStruct):
    index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    snapshot_id: Annotated[SnapshotIdResponse, Nested("0+")] = field(default_factory=lambda: SnapshotIdResponse())
    current_leader: Annotated[LeaderIdAndEpoch, Nested("0+", tag=0, tagged="0+")] = field(
        default_factory=lambda: LeaderIdAndEpoch()
    )
    size: Annotated[int, Int64("0+")] = 0
    position: Annotated[int, Int64("0+")] = 0
    unaligned_records: Annotated[Buffer | None, Records("0+")] = None


class SnapshotIdResponse(WireStruct):
    end_offset: Annotated[int, Int64("0+")] = 0
    epoch: Annotated[int, Int32("0+")] = 0


class LeaderIdAndEpoch(WireStruct):
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


class NodeEndpoint(WireStruct):
    node_id: Annotated[int, Int32("1+")] = 0
    host: Annotated[str, String("1+")] = ""
    port: Annotated[int, UInt16("1+")] = 0
