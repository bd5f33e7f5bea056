"""Fetch (key 1): versions 4-18, flexible from 12.

v4: isolation level and aborted transactions, record batches of magic 2 (KIP-98)
v5: the log start offset, both ways (KIP-107)
v6: KAFKA_STORAGE_ERROR may be answered (KIP-112)
v7: fetch sessions (KIP-227)
v8: a throttled answer leaves at once, and the client waits (KIP-219)
v9: the client's leader epoch, so that stale leaders and clients are fenced (KIP-320)
v10: zstd batches (KIP-110)
v11: the client's rack, and the replica it should rather read from (KIP-392)
v12: last fetched epoch, diverging epoch, current leader: truncation is found while fetching (KIP-595)
v13: topic ids in place of names; UNKNOWN_TOPIC_ID (KIP-516)
v14: OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
v15: a follower's state with its broker epoch, in place of the replica id (KIP-903)
v16: addresses of the leaders that the answer names (KIP-951)
v17: a follower's directory id (KIP-853)
v18: the high watermark a follower knows (KIP-1166)
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


class FetchRequest(Message, api_key=1, versions="4-18", flexible="12+"):
    cluster_id: Annotated[str | None, String("12+", nullable="12+", tag=0, tagged="12+", ignorable=True)] = None
    replica_id: Annotated[int, Int32("0-14")] = -1
    replica_state: Annotated[ReplicaState, Nested("15+", tag=1, tagged="15+")] = field(
        default_factory=lambda: ReplicaState()
    )
    max_wait_ms: Annotated[int, Int32("0+")] = 0
    min_bytes: Annotated[int, Int32("0+")] = 0
    max_bytes: Annotated[int, Int32("3+", ignorable=True)] = 2147483647
    isolation_level: Annotated[int, Int8("4+", ignorable=True)] = 0
    session_id: Annotated[int, Int32("7+", ignorable=True)] = 0
    session_epoch: Annotated[int, Int32("7+", ignorable=True)] = -1
    topics: Annotated[list[FetchTopic], Array("0+")] = field(default_factory=empty_list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], Array("7+")] = field(default_factory=empty_list)
    rack_id: Annotated[str, String("11+", ignorable=True)] = ""


class ReplicaState(WireStruct):
    replica_id: Annotated[int, Int32("15+")] = -1
    replica_epoch: Annotated[int, Int64("15+")] = -1


class FetchTopic(WireStruct):
    topic: Annotated[str, String("0-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Uuid("13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[FetchPartition], Array("0+")] = field(default_factory=empty_list)


class FetchPartition(WireStruct):
    partition: Annotated[int, Int32("0+")] = 0
    current_leader_epoch: Annotated[int, Int32("9+", ignorable=True)] = -1
    fetch_offset: Annotated[int, Int64("0+")] = 0
    last_fetched_epoch: Annotated[int, Int32("12+")] = -1
    log_start_offset: Annotated[int, Int64("5+", ignorable=True)] = -1
    partition_max_bytes: Annotated[int, Int32("0+")] = 0
    replica_directory_id: Annotated[bytes, Uuid("17+", tag=0, tagged="17+", ignorable=True)] = ZERO_UUID
    high_watermark: Annotated[int, Int64("18+", tag=1, tagged="18+", ignorable=True)] = 9223372036854775807


class ForgottenTopic(WireStruct):
    topic: Annotated[str, String("7-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Uuid("13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[int], Array("7+", of=Int32())] = field(default_factory=empty_list)


class FetchResponse(Message, api_key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: Annotated[int, Int32("1+", ignorable=True)] = 0
    error_code: Annotated[int, Int16("7+", ignorable=True)] = 0
    session_id: Annotated[int, Int32("7+")] = 0
    responses: Annotated[list[FetchableTopicResponse], Array("0+")] = field(default_factory=empty_list)
    node_endpoints: Annotated[list[NodeEndpoint], Array("16+", tag=0, tagged="16+")] = field(default_factory=empty_list)


class FetchableTopicResponse(WireStruct):
    topic: Annotated[str, String("0-12", ignorable=True)] = ""
    topic_id: Annotated[bytes, Uuid("13+", ignorable=True)] = ZERO_UUID
    partitions: Annotated[list[PartitionData], Array("0+")] = field(default_factory=empty_list)


class PartitionData(WireStruct):
    partition_index: Annotated[int, Int32("0+")] = 0
    error_code: Annotated[int, Int16("0+")] = 0
    high_watermark: Annotated[int, Int64("0+")] = 0
    last_stable_offset: Annotated[int, Int64("4+", ignorable=True)] = -1
    log_start_offset: Annotated[int, Int64("5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset, Nested("12+", tag=0, tagged="12+")] = field(
        default_factory=lambda: EpochEndOffset()
    )
    current_leader: Annotated[LeaderIdAndEpoch, Nested("12+", tag=1, tagged="12+")] = field(
        default_factory=lambda: LeaderIdAndEpoch()
    )
    snapshot_id: Annotated[SnapshotId, Nested("12+", tag=2, tagged="12+")] = field(default_factory=lambda: SnapshotId())
    aborted_transactions: Annotated[list[AbortedTransaction] | None, Array("4+", nullable="4+", ignorable=True)] = (
        field(default_factory=empty_list)
    )
    preferred_read_replica: Annotated[int, Int32("11+")] = -1
    records: Annotated[Buffer | None, Records("0+", nullable="0+")] = None


class EpochEndOffset(WireStruct):
    epoch: Annotated[int, Int32("12+")] = -1
    end_offset: Annotated[int, Int64("12+")] = -1


class LeaderIdAndEpoch(WireStruct):
    leader_id: Annotated[int, Int32("12+")] = -1
    leader_epoch: Annotated[int, Int32("12+")] = -1


class SnapshotId(WireStruct):
    end_offset: Annotated[int, Int64("0+")] = -1
    epoch: Annotated[int, Int32("0+")] = -1


class AbortedTransaction(WireStruct):
    producer_id: Annotated[int, Int64("4+")] = 0
    first_offset: Annotated[int, Int64("4+")] = 0


class NodeEndpoint(WireStruct):
    node_id: Annotated[int, Int32("16+")] = 0
    host: Annotated[str, String("16+")] = ""
    port: Annotated[int, Int32("16+")] = 0
    rack: Annotated[str | None, String("16+", nullable="16+")] = None
