"""ShareAcknowledge (key 79): version 1, flexible from 0.

v1: accepts, releases or rejects acquired records (KIP-932)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Nested,
    String,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class ShareAcknowledgeRequest(Message, api_key=79, versions="1", flexible="0+"):
    group_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    share_session_epoch: Annotated[int, Int32("0+")] = 0
    topics: Annotated[list[AcknowledgeTopic], Array("0+")] = field(default_factory=empty_list)


class AcknowledgeTopic(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[AcknowledgePartition], Array("0+")] = field(default_factory=empty_list)


class AcknowledgePartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    acknowledgement_batches: Annotated[list[AcknowledgementBatch], Array("0+")] = field(default_factory=empty_list)


class AcknowledgementBatch(WireStruct):
    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    acknowledge_types: Annotated[list[int], Array("0+", of=Int8())] = field(default_factory=empty_list)


class ShareAcknowledgeResponse(Message, api_key=79, versions="1", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    responses: Annotated[list[ShareAcknowledgeTopicResponse], Array("0+")] = field(default_factory=empty_list)
    node_endpoints: Annotated[list[NodeEndpoint], Array("0+")] = field(default_factory=empty_list)


class ShareAcknowledgeTopicResponse(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionData], Array("0+")] = field(default_factory=empty_list)


class PartitionData(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    current_leader: Annotated[LeaderIdAndEpoch, Nested("0+")] = field(default_factory=lambda: LeaderIdAndEpoch())


class LeaderIdAndEpoch(WireStruct):
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


class NodeEndpoint(WireStruct):
    node_id: Annotated[int, Int32("0+")] = 0
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0
    rack: Annotated[str | None, String("0+", nullable="0+")] = None
