"""ShareFetch (key 78): version 1, flexible from 0.

v1: acquires records, and acknowledges earlier ones on the way (KIP-932)
"""

from __future__ import annotations

from typing import Annotated

from tailrace.protocol.buffers import Buffer
from tailrace.protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Nested,
    Records,
    String,
    Uuid,
    WireStruct,
    empty_list,
    field,
)
from tailrace.protocol.uuid import ZERO_UUID


class ShareFetchRequest(Message, api_key=78, versions="1", flexible="0+"):
    group_id: Annotated[str | None, String("0+", nullable="0+")] = None
    member_id: Annotated[str | None, String("0+", nullable="0+")] = ""
    share_session_epoch: Annotated[int, Int32("0+")] = 0
    max_wait_ms: Annotated[int, Int32("0+")] = 0
    min_bytes: Annotated[int, Int32("0+")] = 0
    max_bytes: Annotated[int, Int32("0+")] = 2147483647
    max_records: Annotated[int, Int32("1+")] = 0
    batch_size: Annotated[int, Int32("1+")] = 0
    topics: Annotated[list[FetchTopic], Array("0+")] = field(default_factory=empty_list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], Array("0+")] = field(default_factory=empty_list)


class FetchTopic(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[FetchPartition], Array("0+")] = field(default_factory=empty_list)


class FetchPartition(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    partition_max_bytes: Annotated[int, Int32("0")] = 0
    acknowledgement_batches: Annotated[list[AcknowledgementBatch], Array("0+")] = field(default_factory=empty_list)


class AcknowledgementBatch(WireStruct):
    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    acknowledge_types: Annotated[list[int], Array("0+", of=Int8())] = field(default_factory=empty_list)


class ForgottenTopic(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[int], Array("0+", of=Int32())] = field(default_factory=empty_list)


class ShareFetchResponse(Message, api_key=78, versions="1", flexible="0+"):
    throttle_time_ms: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    acquisition_lock_timeout_ms: Annotated[int, Int32("1+")] = 0
    responses: Annotated[list[ShareFetchableTopicResponse], Array("0+")] = field(default_factory=empty_list)
    node_endpoints: Annotated[list[NodeEndpoint], Array("0+")] = field(default_factory=empty_list)


class ShareFetchableTopicResponse(WireStruct):
    topic_id: Annotated[bytes, Uuid("0+")] = ZERO_UUID
    partitions: Annotated[list[PartitionData], Array("0+")] = field(default_factory=empty_list)


class PartitionData(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    acknowledge_error_code: Annotated[int, Int16("0+")] = 0
    acknowledge_error_message: Annotated[str | None, String("0+", nullable="0+")] = None
    current_leader: Annotated[LeaderIdAndEpoch, Nested("0+")] = field(default_factory=lambda: LeaderIdAndEpoch())
    records: Annotated[Buffer | None, Records("0+", nullable="0")] = None
    acquired_records: Annotated[list[AcquiredRecords], Array("0+")] = field(default_factory=empty_list)


class LeaderIdAndEpoch(WireStruct):
    leader_id: Annotated[int, Int32("0+")] = 0
    leader_epoch: Annotated[int, Int32("0+")] = 0


class AcquiredRecords(WireStruct):
    first_offset: Annotated[int, Int64("0+")] = 0
    last_offset: Annotated[int, Int64("0+")] = 0
    delivery_count: Annotated[int, Int16("0+")] = 0


class NodeEndpoint(WireStruct):
    node_id: Annotated[int, Int32("0+")] = 0
    host: Annotated[str, String("0+")] = ""
    port: Annotated[int, Int32("0+")] = 0
    rack: Annotated[str | None, String("0+", nullable="0+")] = None
